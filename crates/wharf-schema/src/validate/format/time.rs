//! Dates, times and durations (RFC 3339).

pub(super) fn is_date_time(text: &str) -> bool {
    match text.as_bytes().split_at_checked(10) {
        Some((date, [b'T' | b't', time @ ..])) => is_date_in(date) && is_time_in(time),
        _ => false,
    }
}

pub(super) fn is_date(text: &str) -> bool {
    is_date_in(text.as_bytes())
}

pub(super) fn is_time(text: &str) -> bool {
    is_time_in(text.as_bytes())
}

/// Value of a text of digits.
fn number(digits: &[u8]) -> Option<u32> {
    let all = digits.iter().all(u8::is_ascii_digit);
    all.then(|| digits.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

fn is_date_in(text: &[u8]) -> bool {
    let [y1, y2, y3, y4, b'-', m1, m2, b'-', d1, d2] = *text else { return false };
    let (year, month, day) = (number(&[y1, y2, y3, y4]), number(&[m1, m2]), number(&[d1, d2]));
    let (Some(year), Some(month), Some(day)) = (year, month, day) else { return false };
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        2 if is_leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

fn is_time_in(text: &[u8]) -> bool {
    let [h1, h2, b':', m1, m2, b':', s1, s2, rest @ ..] = text else { return false };
    let (hour, minute, second) = (number(&[*h1, *h2]), number(&[*m1, *m2]), number(&[*s1, *s2]));
    let (Some(hour), Some(minute), Some(second)) = (hour, minute, second) else { return false };
    let zone = match rest.strip_prefix(b".") {
        Some(rest) => match rest.iter().take_while(|it| it.is_ascii_digit()).count() {
            0 => return false,
            digits => &rest[digits..],
        },
        None => rest,
    };
    let Some(offset) = offset(zone) else { return false };
    // Leap seconds occur only at the end of a UTC day.
    let in_greenwich = || (hour as i32 * 60 + minute as i32 - offset).rem_euclid(24 * 60);
    let is_second = second < 60 || (second == 60 && in_greenwich() == 24 * 60 - 1);
    hour < 24 && minute < 60 && is_second
}

/// Offset of a time zone in minutes.
fn offset(zone: &[u8]) -> Option<i32> {
    match *zone {
        [b'Z' | b'z'] => Some(0),
        [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2] => {
            let (hours, minutes) = (number(&[h1, h2])?, number(&[m1, m2])?);
            let offset = hours as i32 * 60 + minutes as i32;
            let is_right = hours < 24 && minutes < 60;
            is_right.then_some(if sign == b'+' { offset } else { -offset })
        }
        _ => None,
    }
}

/// ISO 8601 duration: weeks, or years to days, then hours to seconds; units cannot be skipped.
pub(super) fn is_duration(text: &str) -> bool {
    let Some(rest) = text.strip_prefix('P') else { return false };
    if let Some(weeks) = rest.strip_suffix('W') {
        return !weeks.is_empty() && weeks.bytes().all(|it| it.is_ascii_digit());
    }
    match rest.split_once('T') {
        Some((date, time)) => (date.is_empty() || are_units(date, "YMD")) && are_units(time, "HMS"),
        None => are_units(rest, "YMD"),
    }
}

/// True if the text is a series of numbers with consecutive units in order.
fn are_units(text: &str, units: &str) -> bool {
    let (mut rest, mut left) = (text, None);
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let Some(unit) = rest[digits..].chars().next() else { return false };
        let expected: &str = left.unwrap_or(units);
        let Some(at) = expected.find(unit) else { return false };
        if digits == 0 || (left.is_some() && at != 0) {
            return false;
        }
        left = Some(&expected[at + 1..]);
        rest = &rest[digits + 1..];
    }
    left.is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_rfc_3339() {
        for (time, is) in [
            ("2026-07-28T08:30:06.283185Z", true),
            ("1985-04-12t23:20:50.52z", true),
            ("1990-12-31T23:59:60Z", true),
            ("1990-12-31T15:59:60-08:00", true),
            ("1990-12-31T22:59:60Z", false),
            ("1998-12-31T23:58:60Z", false),
            ("2024-02-30T00:00:00Z", false),
            ("2023-02-29T00:00:00Z", false),
            ("2000-02-29T00:00:00Z", true),
            ("1900-02-29T00:00:00Z", false),
            ("2026-07-28T24:00:00Z", false),
            ("2026-07-28T00:60:00Z", false),
            ("2026-07-28T00:00:00", false),
            ("2026-07-28T00:00:00.Z", false),
            ("2026-07-28T00:00:00+24:00", false),
            ("2026-07-28T00:00:00+0100", false),
            ("2026-07-28T00:00:00ZZ", false),
            ("202/-07-28T00:00:00Z", false),
            ("2026-07-28 00:00:00Z", false),
            ("২026-07-28T00:00:00Z", false),
        ] {
            assert_eq!(is_date_time(time), is, "{time}");
        }
    }

    #[test]
    fn durations_skip_no_unit() {
        for (duration, is) in [
            ("P1Y2M3DT4H5M6S", true),
            ("P4W", true),
            ("PT1M", true),
            ("P", false),
            ("PT", false),
            ("P1", false),
            ("P1S", false),
            ("P1Y2D", false),
            ("P1D2H", false),
            ("P1W1D", false),
            ("P٣D", false),
        ] {
            assert_eq!(is_duration(duration), is, "{duration}");
        }
    }
}
