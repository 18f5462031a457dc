//! Dates, times and durations (RFC 3339).

pub(super) fn is_date_time(text: &str) -> bool {
    let parts = text.split_once(['T', 't']);
    parts.is_some_and(|(date, time)| is_date(date) && is_time(time))
}

/// Value of a text of exactly `count` digits.
fn digits(bytes: &[u8], count: usize) -> Option<u32> {
    let all = bytes.iter().all(u8::is_ascii_digit) && bytes.len() == count;
    all.then(|| bytes.iter().fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0')))
}

/// Numbers of two digits, separated by colons or hyphens.
fn pairs<const N: usize>(text: &str, between: char) -> Option<[u32; N]> {
    let mut found = [0; N];
    let mut parts = text.split(between);
    for slot in &mut found {
        *slot = digits(parts.next()?.as_bytes(), 2)?;
    }
    parts.next().is_none().then_some(found)
}

pub(super) fn is_date(text: &str) -> bool {
    let Some((year, rest)) = text.split_once('-') else { return false };
    let (Some(year), Some([month, day])) = (digits(year.as_bytes(), 4), pairs(rest, '-')) else {
        return false;
    };
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

pub(super) fn is_time(text: &str) -> bool {
    let Some(zone_at) = text.find(['Z', 'z', '+', '-']) else { return false };
    let (time, zone) = text.split_at(zone_at);
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let Some([hour, minute, second]) = pairs(time, ':') else { return false };
    let Some(offset) = offset(zone) else { return false };
    let is_fraction = !fraction.is_empty() && fraction.bytes().all(|it| it.is_ascii_digit());
    // Leap seconds occur only at the end of a UTC day.
    let in_greenwich = || (hour as i32 * 60 + minute as i32 - offset).rem_euclid(24 * 60);
    let is_second = second < 60 || (second == 60 && in_greenwich() == 24 * 60 - 1);
    hour < 24 && minute < 60 && is_second && is_fraction
}

/// Offset of a time zone in minutes.
fn offset(zone: &str) -> Option<i32> {
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return (zone.len() == 1).then_some(0),
    };
    let [hours, minutes] = pairs(&zone[1..], ':')?;
    (hours < 24 && minutes < 60).then_some(sign * (hours as i32 * 60 + minutes as i32))
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
