//! Log lines about what happens often, written seldom.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// How often one of them is written at most.
const EVERY: Duration = Duration::from_secs(10);

/// Says when a log line is due again.
#[derive(Debug, Default)]
pub(crate) struct Notice {
    /// When it is, in milliseconds since the first notice of the process.
    next: AtomicU64,
}

impl Notice {
    /// Whether the line is to be written now: true at most once in ten seconds.
    pub(crate) fn is_due(&self) -> bool {
        static START: OnceLock<Instant> = OnceLock::new();
        let now = START.get_or_init(Instant::now).elapsed();
        let (now, next) = (millis(now), millis(now + EVERY));
        let later = |due| (due <= now).then_some(next);
        self.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, later).is_ok()
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_written_once_in_a_while() {
        let (one, other) = (Notice::default(), Notice::default());
        assert_eq!([one.is_due(), one.is_due(), other.is_due()], [true, false, true]);
    }
}
