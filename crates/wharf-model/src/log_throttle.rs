//! Rate limit for log lines.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Rate limit for one log line: at most once in each interval.
///
/// Log lines about refused requests need one. A client that sends many requests would otherwise fill the log. The next
/// line has the number of those that were suppressed.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::LogThrottle;
///
/// static REFUSED: LogThrottle = LogThrottle::new();
/// assert_eq!(REFUSED.due(), Some(0));
/// assert_eq!(REFUSED.due(), None);
/// ```
#[derive(Debug)]
pub struct LogThrottle {
    interval_ms: u64,
    /// Earliest time of the next line, in milliseconds since the first use of any throttle.
    next_ms: AtomicU64,
    /// Number of lines that were not due since the last one.
    suppressed: AtomicU64,
}

impl LogThrottle {
    /// A line every ten seconds.
    #[must_use]
    pub const fn new() -> Self {
        LogThrottle::every_seconds(10)
    }

    /// A line in each interval of `seconds`.
    #[must_use]
    pub const fn every_seconds(seconds: u32) -> Self {
        LogThrottle {
            interval_ms: seconds as u64 * 1000,
            next_ms: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Returns the number of lines that were suppressed since the last one, if the line may be written now. It then
    /// counts as written; otherwise it counts as suppressed.
    pub fn due(&self) -> Option<u64> {
        // The system clock can be set back, which would silence the line.
        static START: OnceLock<Instant> = OnceLock::new();
        self.due_at(START.get_or_init(Instant::now).elapsed())
    }

    fn due_at(&self, now: Duration) -> Option<u64> {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let next = now.saturating_add(self.interval_ms);
        let later = |due| (due <= now).then_some(next);
        match self.next_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later) {
            Ok(_) => Some(self.suppressed.swap(0, Ordering::Relaxed)),
            Err(_) => {
                self.suppressed.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }
}

impl Default for LogThrottle {
    fn default() -> Self {
        LogThrottle::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_in_each_interval_with_the_number_of_suppressed_ones() {
        let line = LogThrottle::new();
        let due = [0, 1, 9_999, 10_000, 10_001, 19_999, 20_000, 30_000].map(Duration::from_millis);
        let due = due.map(|now| line.due_at(now));
        let none = None;
        assert_eq!(due, [Some(0), none, none, Some(2), none, none, Some(2), Some(0)]);
    }

    #[test]
    fn lines_are_limited_independently() {
        let (one, other) = (LogThrottle::new(), LogThrottle::every_seconds(60));
        assert_eq!([one.due(), one.due(), other.due()], [Some(0), None, Some(0)]);
    }
}
