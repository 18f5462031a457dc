//! [`Deadline`] of connecting or of a whole command, paused while the user is asked. That of a call:
//! `wharf-model/src/call/call_timeouts.rs`.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};
use wharf_model::Lock;

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A timeout that starts when it is created and can be paused, because the time that a user takes
/// to answer does not count against the server. Clones share the state.
///
/// ```
/// use std::time::Duration;
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::Deadline;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() {
/// let deadline = Deadline::new(Some(Duration::from_secs(5)));
/// let pause = deadline.pause();
/// tokio::time::sleep(Duration::from_secs(60)).await;
/// drop(pause);
/// assert!(!deadline.is_up());
/// deadline.up().await;
/// assert!(deadline.is_up());
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Deadline {
    limit: Option<Duration>,
    started_at: Instant,
    pauses: Arc<Lock<PauseTotals>>,
    resumed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct PauseTotals {
    /// Number of open pauses, and the start of the first.
    open: usize,
    since: Option<Instant>,
    /// Total length of the earlier pauses.
    past: Duration,
}

impl Deadline {
    /// Starts a timeout; `None` never expires.
    #[must_use]
    pub fn new(limit: Option<Duration>) -> Self {
        let (pauses, resumed) = Default::default();
        Deadline { limit, started_at: Instant::now(), pauses, resumed }
    }

    /// Returns whether the timeout has expired.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.end().is_some_and(|end| end <= Instant::now())
    }

    /// Completes when the timeout expires.
    pub async fn up(&self) {
        loop {
            let resumed = self.resumed.notified();
            match self.end() {
                Some(end) if end > Instant::now() => sleep_until(end).await,
                Some(_) => return,
                None => resumed.await,
            }
        }
    }

    /// Pauses the timeout until the returned guard is dropped.
    #[must_use]
    pub fn pause(&self) -> DeadlinePause {
        let mut pauses = self.lock();
        pauses.open += 1;
        pauses.since.get_or_insert_with(Instant::now);
        DeadlinePause(self.clone())
    }

    /// The time of expiry; `None` while paused, and without a limit.
    fn end(&self) -> Option<Instant> {
        let pauses = self.lock();
        let limit = self.limit.filter(|_| pauses.open == 0)?;
        self.started_at.checked_add(limit.checked_add(pauses.past)?)
    }

    fn lock(&self) -> MutexGuard<'_, PauseTotals> {
        self.pauses.lock()
    }
}

/// Guard that pauses a [`Deadline`] until it is dropped.
///
/// ```
/// use wharf_transport::client::Deadline;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let deadline = Deadline::new(Some(std::time::Duration::ZERO));
/// let pause = deadline.pause();
/// assert!(!deadline.is_up());
/// drop(pause);
/// assert!(deadline.is_up());
/// # }
/// ```
#[derive(Debug)]
pub struct DeadlinePause(Deadline);

impl Drop for DeadlinePause {
    fn drop(&mut self) {
        let mut pauses = self.0.lock();
        pauses.open -= 1;
        if pauses.open == 0 {
            let since = pauses.since.take();
            pauses.past += since.map_or(Duration::ZERO, |since| since.elapsed());
            self.0.resumed.notify_waiters();
        }
    }
}
