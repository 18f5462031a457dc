//! Log lines about floods, which must not become floods themselves.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime},
};

/// How often one line is written at most.
const EVERY: Duration = Duration::from_secs(10);

/// When a line was written last.
#[derive(Debug)]
pub(crate) struct Seldom(AtomicU64);

impl Seldom {
    pub(crate) const fn new() -> Self {
        Seldom(AtomicU64::new(0))
    }

    /// Whether the line may be written again. If so, it counts as written.
    pub(crate) fn is_due(&self) -> bool {
        let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |it| it.as_secs());
        let last = self.0.load(Ordering::Relaxed);
        let due = now.saturating_sub(last) >= EVERY.as_secs() || now < last;
        due && self.0.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_due_once_in_a_while() {
        let line = Seldom::new();
        assert!(line.is_due());
        assert!(!line.is_due());
    }
}
