//! How long to wait before another connection is tried.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);
/// A connection that lasted this long was a good one.
const GOOD: Duration = Duration::from_secs(5);
/// After this many bad ones in a row, calls no longer wait.
const MANY: u32 = 5;

/// How long to wait after `failures` in a row: twice as long each time, and never quite the same,
/// so that many clients of one server do not come back at once.
pub(crate) fn delay(failures: u32) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(10));
    let most = doubled.min(LONGEST);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    most.mul_f64(0.75 + f64::from(clock.subsec_nanos() % 1000) / 4000.0)
}

/// How the connections of a link have fared.
#[derive(Debug, Default)]
pub(crate) struct ReconnectBackoff {
    failures: u32,
    not_before: Option<Instant>,
}

/// When another connection may be tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryTiming {
    Now,
    /// Soon enough to wait for it.
    At(Instant),
    /// Not for this long, after so many failures in a row.
    Refused(Duration, u32),
}

impl ReconnectBackoff {
    /// A connection ended after it `lived` so long, or could not be had at all.
    pub(crate) fn ended(&mut self, lived: Duration) {
        self.failures = if lived >= GOOD { 1 } else { self.failures.saturating_add(1) };
        self.not_before = Some(Instant::now() + delay(self.failures));
    }

    pub(crate) fn turn(&self) -> RetryTiming {
        let now = Instant::now();
        match self.not_before.filter(|then| *then > now) {
            None => RetryTiming::Now,
            Some(then) if self.failures >= MANY => RetryTiming::Refused(then - now, self.failures),
            Some(then) => RetryTiming::At(then),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_few_failures_wait_many_refuse_and_a_good_connection_counts_anew() {
        let mut health = ReconnectBackoff::default();
        assert_eq!(health.turn(), RetryTiming::Now);
        for _ in 1..MANY {
            health.ended(Duration::ZERO);
            assert!(matches!(health.turn(), RetryTiming::At(_)), "{health:?}");
        }
        health.ended(Duration::ZERO);
        assert!(matches!(health.turn(), RetryTiming::Refused(_, MANY)), "{health:?}");
        tokio::time::advance(LONGEST).await;
        assert_eq!(health.turn(), RetryTiming::Now);
        health.ended(GOOD);
        assert!(matches!(health.turn(), RetryTiming::At(_)), "{health:?}");
    }

    #[test]
    fn delays_grow_and_stay_within_bounds() {
        assert!(delay(0) <= FIRST && delay(1) <= FIRST && delay(1) >= FIRST / 2);
        assert!(delay(3) > delay(1));
        assert!(delay(u32::MAX) <= LONGEST && delay(u32::MAX) > LONGEST / 2);
    }
}
