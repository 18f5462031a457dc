//! Lenient JSON decoding: whole numbers may be written as `1.0`. Duplicate keys can be rejected.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{DeserializeOwned, Error, MapAccess, SeqAccess, Visitor},
};
use serde_json::{Map, Number, Value};

/// Largest magnitude up to which a float identifies exactly one integer.
const MAX_EXACT_INTEGER: f64 = 9_007_199_254_740_992.0;

/// True if the tree of `json` has at most `most` values. A tree takes many times the memory of its
/// text, so this only counts the separators between values.
#[must_use]
pub fn is_within(json: &str, most: usize) -> bool {
    wharf_model::has_at_most(json, most)
}

/// Error text for JSON that [`is_within`] rejects.
#[must_use]
pub fn too_many(most: usize) -> String {
    format!("more than {most} values, which is the limit")
}

/// Number of values in the tree of `json`.
#[must_use]
pub fn count(json: &str) -> usize {
    wharf_model::count_values(json)
}

/// Decodes `json`; on failure decodes again with whole floats as integers. The second attempt
/// requires at most `most` values.
///
/// # Errors
/// Returned if both attempts fail.
pub fn from_json<T: DeserializeOwned>(json: &str, most: usize) -> Result<T, serde_json::Error> {
    serde_json::from_str(json).or_else(|strict| again(json, most, strict))
}

#[cold]
fn again<T: DeserializeOwned>(
    json: &str,
    most: usize,
    strict: serde_json::Error,
) -> Result<T, serde_json::Error> {
    if !is_within(json, most) {
        let text = format!("{strict}; there are {}", too_many(most));
        return Err(serde_json::Error::custom(text));
    }
    let Ok(mut value) = serde_json::from_str::<Value>(json) else { return Err(strict) };
    if whole_numbers(&mut value) { serde_json::from_value(value) } else { Err(strict) }
}

/// Decodes a value and rejects duplicate keys. Parsers differ in taking the first or the last one,
/// so the value that is used could differ from the value that was validated.
///
/// # Errors
/// Returned if it is not JSON, or if a key is duplicated.
pub fn unambiguous(json: &str) -> Result<Value, serde_json::Error> {
    serde_json::from_str(json).map(|UniqueKeysValue(value)| value)
}

struct UniqueKeysValue(Value);

impl<'de> Deserialize<'de> for UniqueKeysValue {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(UniqueKeysVisitor).map(UniqueKeysValue)
    }
}

struct UniqueKeysVisitor;

macro_rules! leaves {
    ($($visit:ident $T:ty;)*) => {
        $(fn $visit<E: Error>(self, value: $T) -> Result<Value, E> {
            Ok(value.into())
        })*
    };
}

impl<'de> Visitor<'de> for UniqueKeysVisitor {
    type Value = Value;

    leaves! { visit_bool bool; visit_i64 i64; visit_u64 u64; visit_f64 f64; visit_str &str; visit_string String; }

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(UniqueKeysValue(item)) = from.next_element()? {
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut from: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(key) = from.next_key::<Cow<'de, str>>()? {
            if fields.contains_key(&*key) {
                return Err(A::Error::custom(format_args!("`{key}` is written twice")));
            }
            let UniqueKeysValue(field) = from.next_value()?;
            fields.insert(key.into_owned(), field);
        }
        Ok(fields.into())
    }
}

/// Converts whole floats to integers; returns true if there were any.
pub fn whole_numbers(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => match integer(number) {
            Some(integer) => {
                *number = integer;
                true
            }
            None => false,
        },
        // All items must be visited; `any` would stop at the first match.
        Value::Array(items) => {
            items.iter_mut().fold(false, |some, item| whole_numbers(item) | some)
        }
        Value::Object(fields) => {
            fields.values_mut().fold(false, |some, field| whole_numbers(field) | some)
        }
        _ => false,
    }
}

#[allow(clippy::cast_possible_truncation)]
fn integer(number: &Number) -> Option<Number> {
    let float = number.as_f64().filter(|_| number.is_f64())?;
    (float.fract() == 0.0 && float.abs() <= MAX_EXACT_INTEGER).then(|| Number::from(float as i64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn read<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
        from_json(json, 100)
    }

    #[test]
    fn values_are_counted_and_strings_are_skipped() {
        for (json, values) in [
            ("1", 1),
            ("[1,2,3]", 4),
            (r#"{"a":1,"b":[1, 2]}"#, 5),
            (r#"["a,b,[{\",,,","\\",1]"#, 4),
            ("[[],{}]", 5),
        ] {
            assert_eq!(count(json), values, "{json}");
            assert!(is_within(json, values) && (json.len() < 2 || !is_within(json, values - 1)));
        }
        let _ = count(r#"["\"#);
    }

    #[test]
    fn whole_floats_are_integers() {
        assert_eq!(read::<Vec<u8>>("[1.0, 2, 3e0, -0.0]").unwrap(), [1, 2, 3, 0]);
        let deep: BTreeMap<String, Vec<i64>> = read(r#"{"a":[1.0],"b":[-2.0]}"#).unwrap();
        assert_eq!(deep["b"], [-2]);
    }

    #[test]
    fn valid_json_is_decoded_unchanged() {
        assert_eq!(read::<Vec<f64>>("[1.0, 2.5]").unwrap(), [1.0, 2.5]);
        assert_eq!(read::<Value>("1.0").unwrap(), serde_json::json!(1.0));
    }

    #[test]
    fn a_duplicate_key_is_rejected_at_any_depth() {
        for same in
            [r#"{"a":[null,true,1,-1,1.5,"é\n",{"b":{}}]}"#, "[]", "3", r#"[{"a":1},{"a":1}]"#]
        {
            assert_eq!(unambiguous(same).unwrap(), serde_json::from_str::<Value>(same).unwrap());
        }
        for twice in [r#"{"a":1,"a":1}"#, r#"{"a":1,"\u0061":2}"#, r#"[{"x":{"a":1,"b":2,"a":3}}]"#]
        {
            assert!(unambiguous(twice).unwrap_err().to_string().contains("`a` is written twice"));
        }
        assert!(unambiguous(&"[".repeat(100_000)).is_err());
    }

    #[test]
    fn invalid_json_stays_invalid() {
        assert!(read::<u8>("1.5").is_err());
        assert!(read::<u8>("256.0").is_err());
        assert!(read::<i64>("1e300").is_err());
        assert!(read::<u8>("1.0 trailing").is_err());
        assert!(read::<Vec<u8>>("[1,").unwrap_err().is_eof());
    }
}
