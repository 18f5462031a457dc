//! Progress of a call: reported if the client requested it, and throttled.

use std::time::{Duration, Instant};

use wharf_model::{Notification, Rate};

use crate::{context::Ctx, tasks::promotion_state::TaskPromotion};

/// One token, less the rounding error of floats.
const ONE_TOKEN: f64 = 1.0 - 1e-6;

/// Progress update.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProgressUpdate {
    pub(crate) progress: f64,
    pub(crate) total: Option<f64>,
    pub(crate) message: Option<String>,
}

impl From<ProgressUpdate> for Notification {
    fn from(ProgressUpdate { progress, total, message }: ProgressUpdate) -> Self {
        Notification::Progress { progress, total: total.filter(|t| t.is_finite()), message }
    }
}

/// Token bucket: a burst, then a rate. Of updates that come faster, the last one wins.
#[derive(Debug)]
pub(crate) struct ProgressThrottle {
    rate: Rate,
    tokens: f64,
    counted: Option<Instant>,
    last: f64,
    held: Option<ProgressUpdate>,
}

impl ProgressThrottle {
    pub(crate) fn new(rate: Rate) -> Self {
        ProgressThrottle {
            rate,
            tokens: rate.burst,
            counted: None,
            last: f64::NEG_INFINITY,
            held: None,
        }
    }

    /// Takes an update; returns it if it may be sent now. A value that does not increase is
    /// dropped.
    pub(crate) fn offer(&mut self, update: ProgressUpdate, now: Instant) -> Option<ProgressUpdate> {
        if !update.progress.is_finite() || update.progress <= self.last {
            return None;
        }
        self.last = update.progress;
        self.held = Some(update);
        self.release(now)
    }

    /// Returns the time when the delayed update may be sent.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.held.as_ref()?;
        let wait = Duration::try_from_secs_f64((1.0 - self.tokens) / self.rate.per_second).ok()?;
        self.counted?.checked_add(wait)
    }

    /// Returns the delayed update, if it is due.
    pub(crate) fn release(&mut self, now: Instant) -> Option<ProgressUpdate> {
        let past = self.counted.map_or(Duration::ZERO, |counted| now.duration_since(counted));
        self.tokens =
            (self.tokens + past.as_secs_f64() * self.rate.per_second).min(self.rate.burst);
        self.counted = Some(now);
        if self.tokens < ONE_TOKEN {
            return None;
        }
        let update = self.held.take()?;
        self.tokens -= 1.0;
        Some(update)
    }

    /// Returns the delayed update at the end of the call.
    pub(crate) fn flush(&mut self) -> Option<ProgressUpdate> {
        self.held.take()
    }
}

/// # Progress
impl Ctx {
    /// Reports progress, if the client requested it. Progress of a task is always stored, and is
    /// what its owner reads while it runs.
    ///
    /// A value that is not above the last one is dropped. After a burst, updates are sent at a
    /// limited rate; of those in between, only the last is sent. The final one is always sent.
    pub async fn progress(&self, progress: f64) {
        self.report(ProgressUpdate { progress, total: None, message: None }).await;
    }

    /// Reports progress towards a known total.
    pub async fn progress_of(&self, progress: f64, total: f64) {
        self.report(ProgressUpdate { progress, total: Some(total), message: None }).await;
    }

    /// Reports progress with a message for users.
    pub async fn progress_message(
        &self,
        progress: f64,
        total: impl Into<Option<f64>>,
        message: impl Into<String>,
    ) {
        let (total, message) = (total.into(), Some(message.into()));
        self.report(ProgressUpdate { progress, total, message }).await;
    }

    async fn report(&self, update: ProgressUpdate) {
        let outbox = self.outbox();
        let wanted = self.request().is_some_and(|request| request.progress);
        if !wanted && !self.promotion().is_some_and(TaskPromotion::is_task) {
            return outbox.touch();
        }
        let now = outbox.timer().now();
        let (sent, held) = {
            let mut run = self.run();
            (run.throttle.offer(update, now), run.throttle.due().is_some())
        };
        match sent {
            Some(update) => {
                // Wait first: otherwise a handler that reports from many futures at once would
                // never see back-pressure.
                outbox.wait_for_capacity().await;
                outbox.notify(update.into());
                outbox.wait_for_capacity().await;
            }
            None => outbox.touch(),
        }
        if held {
            // The driver of the call must set its timer.
            self.wake_driver();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(progress: f64) -> ProgressUpdate {
        ProgressUpdate { progress, total: None, message: None }
    }

    #[test]
    fn a_burst_then_a_rate_and_the_last_value_wins() {
        let start = Instant::now();
        let at = |millis: u64| start + Duration::from_millis(millis);
        let mut throttle = ProgressThrottle::new(Rate { per_second: 10.0, burst: 2.0 });
        assert_eq!(throttle.offer(update(1.0), start), Some(update(1.0)));
        assert_eq!(throttle.offer(update(2.0), start), Some(update(2.0)));
        assert_eq!(throttle.due(), None);
        assert_eq!(throttle.offer(update(3.0), start), None);
        assert_eq!(throttle.offer(update(4.0), at(50)), None);
        let due = throttle.due().unwrap();
        assert!(due > at(99) && due < at(101));
        assert_eq!(throttle.release(at(60)), None);
        assert_eq!(throttle.release(due), Some(update(4.0)));
        assert_eq!(throttle.offer(update(5.0), due), None);
        assert_eq!(throttle.flush(), Some(update(5.0)));
        assert_eq!((throttle.flush(), throttle.due()), (None, None));
    }

    #[test]
    fn values_that_do_not_increase_are_dropped() {
        let (now, rate) = (Instant::now(), Rate { per_second: 0.0, burst: 9.0 });
        let mut throttle = ProgressThrottle::new(rate);
        let mut sent = |progress| throttle.offer(update(progress), now).is_some();
        assert!(sent(-1.0) && sent(0.5));
        assert!(!sent(0.5) && !sent(0.1) && !sent(f64::NAN) && !sent(f64::INFINITY));
        assert!(sent(0.6));
    }

    #[test]
    fn with_no_rate_the_rest_waits_for_the_end() {
        let now = Instant::now();
        let mut throttle = ProgressThrottle::new(Rate { per_second: 0.0, burst: 0.0 });
        assert_eq!(throttle.offer(update(1.0), now), None);
        assert_eq!((throttle.due(), throttle.flush()), (None, Some(update(1.0))));
    }
}
