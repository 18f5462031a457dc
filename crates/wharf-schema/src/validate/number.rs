//! Exact comparison of JSON numbers, independent of their notation.

use std::{cmp::Ordering, io::Write};

use serde_json::Number;

/// 2¹²⁷: smaller numbers fit an `i128`.
const TWO_POW_127: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0;

/// A number without loss of precision.
#[derive(Clone, Copy, PartialEq)]
enum ExactNumber {
    Whole(i128),
    /// With a fraction, or outside of all integer types.
    Float(f64),
}

fn exact(number: &Number) -> ExactNumber {
    if let Some(whole) = number.as_i128() {
        return ExactNumber::Whole(whole);
    }
    let float = number.as_f64().unwrap_or(f64::NAN);
    if float.fract() == 0.0 && float.abs() < TWO_POW_127 {
        return ExactNumber::Whole(float as i128);
    }
    ExactNumber::Float(float)
}

/// True if the number has no fraction; `1.0` has none.
pub(super) fn is_whole(number: &Number) -> bool {
    number.is_i64() || number.is_u64() || number.as_f64().is_some_and(|it| it.fract() == 0.0)
}

/// Compares two numbers.
pub(super) fn compare(one: &Number, other: &Number) -> Ordering {
    if let Some(order) = compare_small(one, other) {
        return order;
    }
    match (exact(one), exact(other)) {
        (ExactNumber::Whole(one), ExactNumber::Whole(other)) => one.cmp(&other),
        (ExactNumber::Float(one), ExactNumber::Float(other)) => {
            one.partial_cmp(&other).unwrap_or(Ordering::Equal)
        }
        (ExactNumber::Whole(one), ExactNumber::Float(other)) => compare_mixed(one, other),
        (ExactNumber::Float(one), ExactNumber::Whole(other)) => compare_mixed(other, one).reverse(),
    }
}

/// Compares without conversion to 128 bits where it loses nothing.
fn compare_small(one: &Number, other: &Number) -> Option<Ordering> {
    /// Up to here, floats have all whole numbers.
    const WHOLE: u64 = 1 << 53;
    match (one.as_i64(), other.as_i64()) {
        (Some(one), Some(other)) => Some(one.cmp(&other)),
        (None, Some(whole)) if one.is_f64() && whole.unsigned_abs() <= WHOLE => {
            one.as_f64()?.partial_cmp(&(whole as f64))
        }
        _ => None,
    }
}

fn compare_mixed(whole: i128, float: f64) -> Ordering {
    if float.abs() >= TWO_POW_127 {
        return if float > 0.0 { Ordering::Less } else { Ordering::Greater };
    }
    let by_fraction = || if float.fract() > 0.0 { Ordering::Less } else { Ordering::Greater };
    whole.cmp(&(float.trunc() as i128)).then_with(by_fraction)
}

/// Key that is equal for exactly the numbers that are equal.
pub(super) fn identity(number: &Number) -> (i128, u64) {
    match exact(number) {
        ExactNumber::Whole(whole) => (whole, 0),
        ExactNumber::Float(float) => (i128::MIN, float.to_bits()),
    }
}

/// Magnitude of a number as written: `digits × 10^exponent`.
#[derive(Clone, Copy)]
struct DecimalNumber {
    digits: u128,
    exponent: i32,
}

fn decimal(number: &Number) -> DecimalNumber {
    if let Some(whole) = number.as_i128() {
        return DecimalNumber { digits: whole.unsigned_abs(), exponent: 0 };
    }
    // The shortest text that parses as this float, so that `0.1` is taken as written.
    let mut text = [0; 32];
    let mut rest = &mut text[..];
    let written = write!(rest, "{:e}", number.as_f64().unwrap_or_default());
    let left = rest.len();
    let text = std::str::from_utf8(&text[..32 - left]).unwrap_or_default();
    let (Ok(()), Some((digits, exponent))) = (written, text.split_once('e')) else {
        return DecimalNumber { digits: 0, exponent: 0 };
    };
    let fraction = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len());
    let digit = |sum: u128, it: u8| sum * 10 + u128::from(it - b'0');
    DecimalNumber {
        digits: digits.bytes().filter(u8::is_ascii_digit).fold(0, digit),
        exponent: exponent.parse::<i32>().unwrap_or_default() - fraction as i32,
    }
}

/// True if `number` is a multiple of `step`, both as written: 0.3 is a multiple of 0.1.
pub(super) fn is_multiple(number: &Number, step: &Number) -> bool {
    let (number, step) = (decimal(number), decimal(step));
    if number.digits == 0 || step.digits == 0 {
        return number.digits == 0;
    }
    let shift = number.exponent.abs_diff(step.exponent);
    if number.exponent >= step.exponent {
        let scale = power_of_ten(shift, step.digits);
        return ((number.digits % step.digits) * scale).is_multiple_of(step.digits);
    }
    let scaled = 10_u128.checked_pow(shift).and_then(|scale| scale.checked_mul(step.digits));
    scaled.is_some_and(|step| number.digits.is_multiple_of(step))
}

/// 10^exponent modulo a number of at most 64 bits.
fn power_of_ten(mut exponent: u32, modulus: u128) -> u128 {
    let (mut power, mut square) = (1 % modulus, 10 % modulus);
    while exponent > 0 {
        if exponent & 1 == 1 {
            power = power * square % modulus;
        }
        square = square * square % modulus;
        exponent >>= 1;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Number {
        serde_json::from_str(text).unwrap_or_else(|_| 0.into())
    }

    #[test]
    fn numbers_are_compared_without_loss() {
        for (less, more) in [
            ("9007199254740992", "9007199254740993"),
            ("9007199254740992.0", "9007199254740993"),
            ("18446744073709551615", "18446744073709551616.0"),
            ("-9223372036854775808", "-9223372036854775807.0"),
            ("0.1", "1"),
            ("-1", "-0.5"),
            ("-1.5", "-1"),
            ("18446744073709551615", "1e300"),
            ("-1e300", "-9223372036854775808"),
        ] {
            let (one, other) = (number(less), number(more));
            let expected = if less == "-9223372036854775808" {
                // The float is the nearest one and equals this integer exactly.
                Ordering::Equal
            } else {
                Ordering::Less
            };
            assert_eq!(compare(&one, &other), expected, "{less} {more}");
            assert_eq!(compare(&other, &one), expected.reverse(), "{less} {more}");
        }
        assert_eq!(compare(&number("1"), &number("1.0")), Ordering::Equal);
    }

    #[test]
    fn multiples_are_those_of_what_is_written() {
        for (value, step, is) in [
            ("0.3", "0.1", true),
            ("19.99", "0.01", true),
            ("4.35", "0.01", true),
            ("4.355", "0.01", false),
            ("1e308", "0.5", true),
            ("1e308", "0.123456789", false),
            ("0.0075", "0.0001", true),
            ("0.00751", "0.0001", false),
            ("18446744073709551615", "5", true),
            ("-9", "3.0", true),
            ("1", "1e300", false),
            ("0", "7", true),
        ] {
            assert_eq!(is_multiple(&number(value), &number(step)), is, "{value} {step}");
        }
    }
}
