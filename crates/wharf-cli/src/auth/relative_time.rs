//! Times relative to now, for people.

use std::time::{SystemTime, UNIX_EPOCH};

/// Seconds since 1970.
pub(crate) fn now() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}

/// `in 58 minutes`, or `3 hours ago`.
pub(crate) fn from_now(at: u64, now: u64) -> String {
    if at > now { format!("in {}", span(at - now)) } else { format!("{} ago", span(now - at)) }
}

fn span(seconds: u64) -> String {
    let (count, unit) = match seconds {
        0..120 => (seconds, "second"),
        120..7_200 => (seconds / 60, "minute"),
        7_200..172_800 => (seconds / 3_600, "hour"),
        _ => (seconds / 86_400, "day"),
    };
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_times_are_readable() {
        for (at, said) in [
            (1_001, "in 1 second"),
            (1_119, "in 119 seconds"),
            (4_600, "in 60 minutes"),
            (8_200, "in 2 hours"),
            (1_000, "0 seconds ago"),
            (400, "10 minutes ago"),
            (1_000 + 400_000, "in 4 days"),
        ] {
            assert_eq!(from_now(at, 1_000), said);
        }
    }
}
