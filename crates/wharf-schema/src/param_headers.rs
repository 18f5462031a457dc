//! Compares tool arguments with the `Mcp-Param-*` headers that mirror them.
//!
//! Intermediaries route and authorize by the headers alone, so a call is rejected if its headers
//! differ from its arguments.

use std::{borrow::Cow, fmt};

use serde::{
    Deserializer,
    de::{Error as _, IgnoredAny, MapAccess, Visitor},
};
use serde_json::{Number, Value, value::RawValue};
use wharf_model::{Error, HeaderParams};

use crate::header_annotations::ANNOTATION;

/// Parameters of a tool that are mirrored into `Mcp-Param-*` headers: the properties of its input
/// schema with an `x-mcp-header` annotation, as a tree of names.
#[derive(Debug, Default)]
pub struct ParamHeaders {
    header: Option<String>,
    properties: Vec<(String, ParamHeaders)>,
}

impl ParamHeaders {
    /// Collects the annotations of `schema` down to `depth`. Only nested `properties` count.
    #[must_use]
    pub fn of(schema: &Value, depth: usize) -> Self {
        ParamHeaders { header: None, properties: annotated_properties(schema, depth) }
    }

    /// Compares the headers with `arguments`, the text of a JSON object.
    ///
    /// # Errors
    /// Names the header that does not match.
    pub fn check(&self, arguments: &str, mirrored: &HeaderParams) -> Result<(), Error> {
        match self.properties.is_empty() {
            true => Ok(()),
            false => self.compare(Some(arguments), mirrored),
        }
    }

    /// Returns the header values for `arguments`, the text of a JSON object.
    ///
    /// # Errors
    /// Names the argument that cannot be encoded as a header.
    pub fn values_for(&self, arguments: &str) -> Result<HeaderParams, String> {
        let mut pairs = Vec::new();
        if !self.properties.is_empty() {
            self.collect(arguments, &mut pairs)?;
        }
        Ok(pairs.into_iter().collect())
    }

    fn collect(&self, json: &str, to: &mut Vec<(String, Option<String>)>) -> Result<(), String> {
        if let Some(header) = &self.header {
            let plain = || {
                format!(
                    "`{header}` is sent as a header: its argument must be a string, a number or a boolean"
                )
            };
            to.push((header.clone(), Some(as_header(json).ok_or_else(plain)?)));
        }
        if self.properties.is_empty() {
            return Ok(());
        }
        let values = self.values(json).map_err(|error| error.message.into_owned())?;
        for ((_, inner), value) in self.properties.iter().zip(values) {
            if let Some(json) = value.map(RawValue::get).filter(|json| *json != "null") {
                inner.collect(json, to)?;
            }
        }
        Ok(())
    }

    fn compare(&self, json: Option<&str>, mirrored: &HeaderParams) -> Result<(), Error> {
        if let Some(header) = &self.header {
            compare(header, json, mirrored)?;
        }
        if self.properties.is_empty() {
            return Ok(());
        }
        let values = self.values(json.unwrap_or("null"))?;
        for ((_, inner), value) in self.properties.iter().zip(values) {
            inner.compare(value.map(RawValue::get).filter(|json| *json != "null"), mirrored)?;
        }
        Ok(())
    }

    /// Raw values of the annotated properties, not decoded further.
    fn values<'a>(&self, json: &'a str) -> Result<Vec<Option<&'a RawValue>>, Error> {
        if !json.trim_start().starts_with('{') {
            return Ok(vec![None; self.properties.len()]);
        }
        let values = serde_json::Deserializer::from_str(json)
            .deserialize_map(PropertyVisitor(&self.properties));
        // Parsers differ in the value that they take for a duplicate key.
        values.map_err(|_| {
            let (_, inner) = &self.properties[0];
            mismatch(inner.first_header(), "belongs to arguments with a duplicate key")
        })
    }

    fn first_header(&self) -> &str {
        match (&self.header, self.properties.first()) {
            (Some(header), _) => header,
            (None, Some((_, inner))) => inner.first_header(),
            (None, None) => "",
        }
    }
}

fn annotated_properties(schema: &Value, depth: usize) -> Vec<(String, ParamHeaders)> {
    let properties = schema.get("properties").and_then(Value::as_object).filter(|_| depth > 0);
    let annotated = |(name, inner): (&String, &Value)| {
        let header = inner.get(ANNOTATION).and_then(Value::as_str).map(str::to_owned);
        let headers = ParamHeaders { header, properties: annotated_properties(inner, depth - 1) };
        let any = headers.header.is_some() || !headers.properties.is_empty();
        any.then(|| (name.clone(), headers))
    };
    properties.into_iter().flatten().filter_map(annotated).collect()
}

struct PropertyVisitor<'m>(&'m [(String, ParamHeaders)]);

impl<'de> Visitor<'de> for PropertyVisitor<'_> {
    type Value = Vec<Option<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Self::Value, A::Error> {
        let mut values = vec![None; self.0.len()];
        while let Some(BorrowedKey(key)) = from.next_key()? {
            match self.0.iter().position(|(name, _)| *name == key) {
                None => drop(from.next_value::<IgnoredAny>()?),
                Some(at) if values[at].is_some() => return Err(A::Error::duplicate_field("")),
                Some(at) => values[at] = Some(from.next_value()?),
            }
        }
        Ok(values)
    }
}

/// Object key, borrowed unless it contains escapes.
#[derive(serde::Deserialize)]
struct BorrowedKey<'a>(#[serde(borrow)] Cow<'a, str>);

fn compare(header: &str, json: Option<&str>, mirrored: &HeaderParams) -> Result<(), Error> {
    let mut values = mirrored.of(header);
    let problem = match (json, values.next(), values.next()) {
        (None, None, _) => return Ok(()),
        (_, Some(_), Some(_)) => "is there more than once",
        (None, Some(_), _) => "is there, but its argument is not",
        (Some(_), None, _) => "is missing, but its argument is there",
        (Some(_), Some(None), _) => "is malformed",
        (Some(json), Some(Some(text)), _) if is_same(json, text) => return Ok(()),
        _ => "does not match its argument",
    };
    Err(mismatch(header, problem))
}

fn mismatch(header: &str, problem: &str) -> Error {
    Error::header_mismatch(&format!("Mcp-Param-{header}"), problem)
}

/// True if `text` is the header encoding of the JSON value. Arrays and objects have no encoding.
fn is_same(json: &str, text: &str) -> bool {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str::<String>(json).is_ok_and(|it| it == text),
        Some(b't' | b'f') => json == text,
        Some(b'-' | b'0'..=b'9') => decimal(json).is_some_and(|it| decimal(text) == Some(it)),
        _ => false,
    }
}

/// Encodes a JSON value as a header value. Arrays and objects have no encoding.
fn as_header(json: &str) -> Option<String> {
    match json.as_bytes().first() {
        Some(b'"') => serde_json::from_str(json).ok(),
        Some(b't' | b'f' | b'-' | b'0'..=b'9') => Some(json.to_owned()),
        _ => None,
    }
}

/// Normalizes a number to sign, digits without leading and trailing zeros, and exponent. Equal
/// numbers get equal results at any length and in any notation.
fn decimal(text: &str) -> Option<(bool, String, i64)> {
    serde_json::from_str::<Number>(text).ok()?;
    let (mantissa, power) = match text.split_once(['e', 'E']) {
        Some((mantissa, power)) => (mantissa, power.parse::<i64>().ok()?),
        None => (text, 0),
    };
    let (negative, mantissa) = match mantissa.strip_prefix('-') {
        Some(mantissa) => (true, mantissa),
        None => (false, mantissa),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    let kept = digits.trim_end_matches('0');
    if kept.is_empty() {
        return Some((false, String::new(), 0));
    }
    let moved = i64::try_from(digits.len() - kept.len()).ok()?;
    let power = power.checked_add(moved)?.checked_sub(i64::try_from(fraction.len()).ok()?)?;
    Some((negative, kept.to_owned(), power))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_are_compared_as_numbers() {
        for (json, same) in [
            ("42", &["42", "42.0", "4.2e1", "4.2E+1", "420e-1", "42.000"][..]),
            ("42.0", &["42"]),
            ("-7", &["-7", "-7.0"]),
            ("0", &["0", "-0", "0.0", "0e9", "-0.0e-3"]),
            ("9007199254740993", &["9007199254740993", "9007199254740993.0"]),
            ("1e30", &["1000000000000000000000000000000", "1E30"]),
            ("0.5", &["5e-1"]),
        ] {
            for text in same {
                assert!(is_same(json, text), "{json} {text}");
            }
        }
        for (json, other) in [
            ("42", &["43", "-42", "42.1", "", "+42", "042", "0x2a", "4 2", "\"42\"", "42\n"][..]),
            // Equal as floats, different as integers.
            ("9007199254740993", &["9007199254740992", "9007199254740992.0"]),
            ("100000000000000000000000000000000000001", &["1e38"]),
            ("1", &["1e99999999999999999999", "true", "1e-1"]),
            ("true", &["True", "TRUE", "1", "\"true\""]),
            ("false", &["true", "", "0"]),
            (r#""42""#, &["42.0", " 42", "\"42\""]),
            (r#""é""#, &["e", "É"]),
            (r#""\ud800""#, &["\u{fffd}", ""]),
            ("[1]", &["[1]"]),
            ("{}", &["{}", ""]),
        ] {
            for text in other {
                assert!(!is_same(json, text), "{json} {text}");
            }
        }
        assert!(is_same(r#""\u0061b""#, "ab") && is_same(r#""""#, "") && is_same("true", "true"));
    }

    proptest! {
        #[test]
        fn an_integer_is_itself_with_any_power_of_ten(number: i128, zeros in 0usize..9) {
            let text = number.to_string();
            let padding = "0".repeat(zeros);
            let (fraction, power) = (format!("{text}.0{padding}"), format!("{text}{padding}e-{zeros}"));
            prop_assert!(is_same(&text, &fraction));
            // Leading zeros are not valid except for zero itself.
            prop_assert!(number == 0 || is_same(&text, &power));
            prop_assert!(!is_same(&text, &number.wrapping_add(1).to_string()));
        }

        #[test]
        fn any_text_is_counted_without_panic(json in ".{0,20}", text in ".{0,20}") {
            is_same(&json, &text);
        }
    }
}
