//! Form and query parameters.

use std::collections::BTreeMap;

use url::form_urlencoded;

/// Limits: bytes, and number of parameters.
const MAX_BYTES_AND_COUNT: (usize, usize) = (32 * 1024, 64);

/// Parameters without duplicates. Empty ones count as missing.
#[derive(Default)]
pub(super) struct FormParams {
    fields: BTreeMap<String, String>,
    resources: Vec<String>,
}

impl FormParams {
    /// Parses a query or a body; returns the reason if that fails.
    pub(super) fn parse(text: &[u8]) -> Result<Self, &'static str> {
        if text.len() > MAX_BYTES_AND_COUNT.0 {
            return Err("it is too large");
        }
        let mut form = FormParams::default();
        for (count, (name, value)) in form_urlencoded::parse(text).enumerate() {
            if count >= MAX_BYTES_AND_COUNT.1 {
                return Err("there are too many parameters");
            }
            if value.is_empty() {
                continue;
            }
            // The only parameter that may be repeated (RFC 8707).
            if name == "resource" {
                form.resources.push(value.into_owned());
            } else if form.fields.insert(name.into_owned(), value.into_owned()).is_some() {
                return Err("a parameter is repeated");
            }
        }
        Ok(form)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.fields.get(name).map(String::as_str)
    }

    pub(super) fn resources(&self) -> &[String] {
        &self.resources
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeated_parameters_are_rejected() {
        let form = FormParams::parse(b"a=1&b=x+y%21&c=&resource=p&resource=q").unwrap_or_default();
        assert_eq!((form.get("a"), form.get("b"), form.get("c")), (Some("1"), Some("x y!"), None));
        assert_eq!(form.resources(), ["p", "q"]);
        assert!(FormParams::parse(b"state=1&state=1").is_err());
        assert!(FormParams::parse("a=".repeat(20_000).as_bytes()).is_err());
        let many: String = (0..65).map(|n| format!("p{n}=1&")).collect();
        assert!(FormParams::parse(many.as_bytes()).is_err());
    }
}
