//! Plain YAML scalars as JSON values, by the core schema of YAML 1.2.

use serde_json::{Number, Value};

/// Texts of the core schema with a value of their own.
const CONSTANTS: [(&[&str], Value); 3] = [
    (&["", "~", "null", "Null", "NULL"], Value::Null),
    (&["true", "True", "TRUE"], Value::Bool(true)),
    (&["false", "False", "FALSE"], Value::Bool(false)),
];
/// Numbers of the core schema that JSON does not have, without their sign.
const NOT_FINITE: [&str; 6] = [".inf", ".Inf", ".INF", ".nan", ".NaN", ".NAN"];
/// Texts that YAML 1.1 reads as booleans.
const OLD_BOOLEANS: [&str; 6] = ["y", "n", "yes", "no", "on", "off"];

/// Returns the value of a plain scalar. The error describes the problem.
pub(super) fn resolve(text: &str) -> Result<Value, String> {
    if let Some((_, value)) = CONSTANTS.iter().find(|(texts, _)| texts.contains(&text)) {
        return Ok(value.clone());
    }
    if NOT_FINITE.contains(&unsigned(text)) {
        return Err(not_finite(text));
    }
    if let Some(digits) =
        text.strip_prefix("0o").filter(|it| all(it, |byte| matches!(byte, b'0'..=b'7')))
    {
        return in_base(text, digits, 8);
    }
    if let Some(digits) =
        text.strip_prefix("0x").filter(|it| all(it, |byte| byte.is_ascii_hexdigit()))
    {
        return in_base(text, digits, 16);
    }
    if all(unsigned(text), |byte| byte.is_ascii_digit()) {
        return integer(text);
    }
    if is_float(unsigned(text)) { float(text) } else { Ok(Value::from(text)) }
}

/// Returns whether other YAML parsers read this plain scalar as another type.
pub(super) fn is_ambiguous(text: &str) -> bool {
    let digits = |text: &str| all(text, |byte| byte.is_ascii_digit());
    let number = unsigned(text);
    let mut date = text.splitn(3, '-');
    let is_date = [4, 2, 2]
        .iter()
        .all(|length| date.next().is_some_and(|part| part.get(..*length).is_some_and(&digits)));
    let separated = |separators: [char; 2]| {
        number.starts_with(|it: char| it.is_ascii_digit())
            && number.contains(separators)
            && number.split(separators).all(|part| part.is_empty() || digits(part))
    };
    let is_octal = number.len() > 1 && number.starts_with('0') && digits(number);
    let is_binary = number.strip_prefix("0b").is_some_and(digits);
    let is_old_boolean = OLD_BOOLEANS.contains(&text.to_ascii_lowercase().as_str());
    let is_signed = number != text && (number.starts_with("0x") || number.starts_with("0o"));
    is_date
        || is_octal
        || is_binary
        || is_old_boolean
        || is_signed
        || separated(['_', '_'])
        || separated([':', '_'])
}

fn unsigned(text: &str) -> &str {
    text.strip_prefix(['-', '+']).unwrap_or(text)
}

fn all(text: &str, accepts: impl Fn(u8) -> bool) -> bool {
    !text.is_empty() && text.bytes().all(accepts)
}

/// Returns whether the text without its sign is a decimal number with a fraction or an exponent.
fn is_float(text: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(unsigned(exponent))),
        None => (text, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    digits(whole)
        && digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent.is_none_or(|exponent| all(exponent, |byte| byte.is_ascii_digit()))
}

fn integer(text: &str) -> Result<Value, String> {
    let text = text.strip_prefix('+').unwrap_or(text);
    match (text.parse::<i64>(), text.parse::<u64>()) {
        // Only a float has a negative zero.
        (Ok(0), Err(_)) => float(text),
        (Ok(number), _) => Ok(number.into()),
        (_, Ok(number)) => Ok(number.into()),
        _ => float(text),
    }
}

fn float(text: &str) -> Result<Value, String> {
    let number = text.parse::<f64>().ok().and_then(Number::from_f64);
    number.map(Value::Number).ok_or_else(|| not_finite(text))
}

/// Returns the value of digits, rounded to a float if it has more than 64 bits.
fn in_base(text: &str, digits: &str, base: u32) -> Result<Value, String> {
    if let Ok(number) = u64::from_str_radix(digits, base) {
        return Ok(number.into());
    }
    let value = digits.chars().filter_map(|digit| digit.to_digit(base));
    let value = value.fold(0.0, |sum, digit| sum * f64::from(base) + f64::from(digit));
    Number::from_f64(value).map(Value::Number).ok_or_else(|| not_finite(text))
}

fn not_finite(text: &str) -> String {
    format!("`{text}` is not a number that JSON has: quote it")
}
