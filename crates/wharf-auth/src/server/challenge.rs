//! What a response says about how to come in (RFC 6750, RFC 9449, RFC 9728).

use http::HeaderValue;

/// Asks for more than anybody should ask for in a challenge: to be there when nobody is.
const OFFLINE: &str = "offline_access";

/// One challenge, in the making.
#[derive(Debug)]
pub(crate) struct Challenge {
    text: String,
    parameters: usize,
}

impl Challenge {
    pub(crate) fn new(scheme: &str) -> Self {
        Challenge { text: scheme.to_owned(), parameters: 0 }
    }

    /// Adds a parameter. What could not stand within quotes is replaced.
    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.text.push_str(if self.parameters == 0 { " " } else { ", " });
        self.parameters += 1;
        self.text.push_str(name);
        self.text.push_str("=\"");
        self.text.extend(value.chars().map(|it| match it {
            '"' | '\\' => '\'',
            ' '..='~' => it,
            _ => '?',
        }));
        self.text.push('"');
        self
    }

    /// Adds a parameter, if there is anything to say.
    pub(crate) fn maybe(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Adds the scopes, each once, if there are any.
    pub(crate) fn scopes<'a>(self, scopes: impl IntoIterator<Item = &'a str>) -> Self {
        let mut all: Vec<&str> = Vec::new();
        for scope in scopes {
            let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'"' && byte != b'\\';
            let fits = !scope.is_empty() && scope.bytes().all(is_plain) && scope != OFFLINE;
            if fits && !all.contains(&scope) {
                all.push(scope);
            }
        }
        if all.is_empty() { self } else { self.with("scope", &all.join(" ")) }
    }

    pub(crate) fn header(self) -> HeaderValue {
        // Everything in it is visible ASCII, or was replaced.
        HeaderValue::try_from(self.text).unwrap_or_else(|_| HeaderValue::from_static("Bearer"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_is_safe() {
        let challenge = Challenge::new("Bearer")
            .with("error_description", "a \"b\" \\ c\r\nX: y é")
            .scopes(["files:read", "", "a b", "a\"b", "files:read", "offline_access", "x"])
            .maybe("none", None);
        assert_eq!(
            challenge.header(),
            r#"Bearer error_description="a 'b' ' c??X: y ?", scope="files:read x""#
        );
        assert_eq!(Challenge::new("Bearer").scopes([]).header(), "Bearer");
    }
}
