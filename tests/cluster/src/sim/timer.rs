//! Skewed clocks.

use std::time::{Duration, Instant, SystemTime};

use wharf_model::{BoxFuture, Timer};

/// The clock of a node: slightly too fast or too slow, with a wrong time of day.
#[derive(Clone, Copy, Debug)]
pub struct SkewedTimer {
    start: tokio::time::Instant,
    rate: f64,
    ahead: Duration,
}

impl SkewedTimer {
    /// A clock that counts `rate` seconds per second, and is `ahead` of the others.
    #[must_use]
    pub fn new(rate: f64, ahead: Duration) -> Self {
        SkewedTimer { start: tokio::time::Instant::now(), rate, ahead }
    }
}

impl Timer for SkewedTimer {
    fn now(&self) -> Instant {
        self.start.into_std() + self.start.elapsed().mul_f64(self.rate)
    }

    fn wall(&self) -> SystemTime {
        let now = Duration::from_millis(super::BEGIN + super::now());
        SystemTime::UNIX_EPOCH + self.ahead + now
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        let wait = deadline.saturating_duration_since(self.start.into_std());
        Box::pin(tokio::time::sleep_until(self.start + wait.div_f64(self.rate)))
    }
}
