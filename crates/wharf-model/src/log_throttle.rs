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
/// Log lines about refused requests need one. A client that sends many requests would otherwise fill the log.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::LogThrottle;
///
/// static REFUSED: LogThrottle = LogThrottle::new();
/// assert!(REFUSED.is_due());
/// assert!(!REFUSED.is_due());
/// ```
#[derive(Debug)]
pub struct LogThrottle {
    interval_ms: u64,
    /// Earliest time of the next line, in milliseconds since the first use of any throttle.
    next_ms: AtomicU64,
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
        LogThrottle { interval_ms: seconds as u64 * 1000, next_ms: AtomicU64::new(0) }
    }

    /// True if the line may be written now. It then counts as written.
    pub fn is_due(&self) -> bool {
        // The system clock can be set back, which would silence the line.
        static START: OnceLock<Instant> = OnceLock::new();
        self.is_due_at(START.get_or_init(Instant::now).elapsed())
    }

    fn is_due_at(&self, now: Duration) -> bool {
        let now = u64::try_from(now.as_millis()).unwrap_or(u64::MAX);
        let next = now.saturating_add(self.interval_ms);
        let later = |due| (due <= now).then_some(next);
        self.next_ms.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
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
    fn a_line_is_due_once_in_each_interval() {
        let line = LogThrottle::new();
        let due = [0, 1, 9_999, 10_000, 10_001, 19_999, 20_000].map(Duration::from_millis);
        let due = due.map(|now| line.is_due_at(now));
        assert_eq!(due, [true, false, false, true, false, false, true]);
    }

    #[test]
    fn lines_are_limited_independently() {
        let (one, other) = (LogThrottle::new(), LogThrottle::every_seconds(60));
        assert_eq!([one.is_due(), one.is_due(), other.is_due()], [true, false, true]);
    }
}
