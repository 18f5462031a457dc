//! A time limit that stands still while people are asked.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Notify,
    time::{Instant, sleep_until},
};

/// A time limit that begins when it is made, and stands still while it is paused: the time that
/// people take for an answer is not the server's. Clones share it.
///
/// ```
/// use std::time::Duration;
/// use wharf_transport::client::Deadline;
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
    pauses: Arc<Mutex<PauseTotals>>,
    resumed: Arc<Notify>,
}

#[derive(Debug, Default)]
struct PauseTotals {
    /// How many are open, and since when.
    open: usize,
    since: Option<Instant>,
    /// How long the others were.
    past: Duration,
}

impl Deadline {
    /// A limit that counts from now on; without one, the time is never up.
    #[must_use]
    pub fn new(limit: Option<Duration>) -> Self {
        let (pauses, resumed) = Default::default();
        Deadline { limit, started_at: Instant::now(), pauses, resumed }
    }

    /// Whether the time is up.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.end().is_some_and(|end| end <= Instant::now())
    }

    /// Completes when the time is up.
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

    /// Stands still until what this gives is dropped.
    #[must_use]
    pub fn pause(&self) -> Pause {
        let mut pauses = self.lock();
        pauses.open += 1;
        pauses.since.get_or_insert_with(Instant::now);
        Pause(self.clone())
    }

    /// When the time is up, as far as is known; none while it stands still, and if it never is.
    fn end(&self) -> Option<Instant> {
        let pauses = self.lock();
        let limit = self.limit.filter(|_| pauses.open == 0)?;
        self.started_at.checked_add(limit.checked_add(pauses.past)?)
    }

    fn lock(&self) -> MutexGuard<'_, PauseTotals> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A [`Deadline`] goes on when this is dropped.
#[derive(Debug)]
pub struct Pause(Deadline);

impl Drop for Pause {
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
