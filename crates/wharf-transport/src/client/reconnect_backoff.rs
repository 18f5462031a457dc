//! Reconnect backoff.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::time::Instant;

const FIRST_DELAY: Duration = Duration::from_millis(100);
const MAX_DELAY: Duration = Duration::from_secs(5);
/// A connection that lasted this long counts as stable.
const STABLE_AFTER: Duration = Duration::from_secs(5);
/// After this many short connections in a row, calls fail instead of waiting.
const MAX_FAILURES: u32 = 5;

/// Exponential delay after `failures` in a row, with jitter so that many clients of one server do
/// not reconnect at the same time.
pub(crate) fn delay(failures: u32) -> Duration {
    let doubled = FIRST_DELAY.saturating_mul(1 << failures.saturating_sub(1).min(10));
    let most = doubled.min(MAX_DELAY);
    let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    most.mul_f64(0.75 + f64::from(clock.subsec_nanos() % 1000) / 4000.0)
}

/// History of a transport's connections, to delay reconnects.
#[derive(Debug, Default)]
pub(crate) struct ReconnectBackoff {
    failures: u32,
    not_before: Option<Instant>,
}

/// The time at which the next connection may be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryTiming {
    Now,
    /// Soon enough for calls to wait.
    At(Instant),
    /// Calls fail: the remaining delay, and the number of failures in a row.
    Refused(Duration, u32),
}

impl ReconnectBackoff {
    /// Records that a connection ended after `lived`, or could not be opened.
    pub(crate) fn record_end(&mut self, lived: Duration) {
        self.failures = if lived >= STABLE_AFTER { 1 } else { self.failures.saturating_add(1) };
        self.not_before = Some(Instant::now() + delay(self.failures));
    }

    pub(crate) fn next_attempt(&self) -> RetryTiming {
        let now = Instant::now();
        match self.not_before.filter(|then| *then > now) {
            None => RetryTiming::Now,
            Some(then) if self.failures >= MAX_FAILURES => {
                RetryTiming::Refused(then - now, self.failures)
            }
            Some(then) => RetryTiming::At(then),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_few_failures_wait_many_refuse_and_a_good_connection_counts_anew() {
        let mut backoff = ReconnectBackoff::default();
        assert_eq!(backoff.next_attempt(), RetryTiming::Now);
        for _ in 1..MAX_FAILURES {
            backoff.record_end(Duration::ZERO);
            assert!(matches!(backoff.next_attempt(), RetryTiming::At(_)), "{backoff:?}");
        }
        backoff.record_end(Duration::ZERO);
        assert!(
            matches!(backoff.next_attempt(), RetryTiming::Refused(_, MAX_FAILURES)),
            "{backoff:?}"
        );
        tokio::time::advance(MAX_DELAY).await;
        assert_eq!(backoff.next_attempt(), RetryTiming::Now);
        backoff.record_end(STABLE_AFTER);
        assert!(matches!(backoff.next_attempt(), RetryTiming::At(_)), "{backoff:?}");
    }

    #[test]
    fn delays_grow_and_stay_within_bounds() {
        assert!(delay(0) <= FIRST_DELAY && delay(1) <= FIRST_DELAY && delay(1) >= FIRST_DELAY / 2);
        assert!(delay(3) > delay(1));
        assert!(delay(u32::MAX) <= MAX_DELAY && delay(u32::MAX) > MAX_DELAY / 2);
    }
}
