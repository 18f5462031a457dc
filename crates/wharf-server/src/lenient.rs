//! JSON as clients write it: a whole number may come as `1.0`.

use serde::de::DeserializeOwned;
use serde_json::{Number, Value};

/// Beyond this, a float no longer names one integer.
const EXACT: f64 = 9_007_199_254_740_992.0;

/// Reads `json` as it stands; if that fails, once more with whole floats as integers.
pub(crate) fn from_json<T: DeserializeOwned>(json: &str) -> Result<T, serde_json::Error> {
    serde_json::from_str(json).or_else(|strict| again(json, strict))
}

#[cold]
fn again<T: DeserializeOwned>(
    json: &str,
    strict: serde_json::Error,
) -> Result<T, serde_json::Error> {
    let Ok(mut value) = serde_json::from_str::<Value>(json) else { return Err(strict) };
    if whole_numbers(&mut value) { serde_json::from_value(value) } else { Err(strict) }
}

/// Turns whole floats into integers; says whether there were any.
pub(crate) fn whole_numbers(value: &mut Value) -> bool {
    match value {
        Value::Number(number) => match integer(number) {
            Some(integer) => {
                *number = integer;
                true
            }
            None => false,
        },
        // Every item must be visited: `any` would stop at the first.
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
    (float.fract() == 0.0 && float.abs() <= EXACT).then(|| Number::from(float as i64))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn whole_floats_are_integers() {
        assert_eq!(from_json::<Vec<u8>>("[1.0, 2, 3e0, -0.0]").unwrap(), [1, 2, 3, 0]);
        let deep: BTreeMap<String, Vec<i64>> = from_json(r#"{"a":[1.0],"b":[-2.0]}"#).unwrap();
        assert_eq!(deep["b"], [-2]);
    }

    #[test]
    fn what_is_right_already_stays_as_it_is() {
        assert_eq!(from_json::<Vec<f64>>("[1.0, 2.5]").unwrap(), [1.0, 2.5]);
        assert_eq!(from_json::<Value>("1.0").unwrap(), serde_json::json!(1.0));
    }

    #[test]
    fn what_is_wrong_stays_wrong() {
        assert!(from_json::<u8>("1.5").is_err());
        assert!(from_json::<u8>("256.0").is_err());
        assert!(from_json::<i64>("1e300").is_err());
        assert!(from_json::<u8>("1.0 trailing").is_err());
        assert!(from_json::<Vec<u8>>("[1,").unwrap_err().is_eof());
    }
}
