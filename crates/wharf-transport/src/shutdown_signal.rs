//! Graceful shutdown signal for servers.

use std::{
    collections::HashMap,
    fmt,
    future::Future,
    pin::Pin,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};
use wharf_model::Lock;

use foldhash::fast::RandomState;

/// Number of tables of wakers, so that calls on many threads seldom wait for each other.
const SHARDS: usize = 4;
/// Capacity that an empty table keeps.
const MAX_KEPT_WAKERS: usize = 64;

/// Requests a graceful shutdown of all servers that share it. Clones share one state.
///
/// ```
/// let shutdown = wharf_transport::Shutdown::new();
/// assert!(!shutdown.is_stopped());
/// shutdown.stop();
/// assert!(shutdown.is_stopped());
/// ```
#[derive(Clone, Default)]
pub struct Shutdown(Arc<ShutdownState>);

#[derive(Default)]
struct ShutdownState {
    is_stopped: AtomicBool,
    tickets: AtomicU64,
    /// Wakers of the pending futures by ticket.
    waiting: [Lock<HashMap<u64, Waker, RandomState>>; SHARDS],
    /// Number of calls that did not end within the graceful shutdown timeout.
    cut: AtomicUsize,
}

impl ShutdownState {
    fn waiting(&self, ticket: u64) -> MutexGuard<'_, HashMap<u64, Waker, RandomState>> {
        let shard = &self.waiting[ticket as usize % SHARDS];
        shard.lock()
    }
}

impl Shutdown {
    /// Creates a handle that is not stopped.
    #[must_use]
    pub fn new() -> Self {
        Shutdown::default()
    }

    /// Requests the shutdown: no more messages are read, calls in flight get the graceful shutdown
    /// timeout, and subscriptions end.
    pub fn stop(&self) {
        self.stop_first();
    }

    /// As [`stop`](Shutdown::stop); returns true if the shutdown was not requested before.
    pub(crate) fn stop_first(&self) -> bool {
        let is_first = !self.0.is_stopped.swap(true, Ordering::AcqRel);
        for shard in 0..SHARDS as u64 {
            // A statement of its own, so that no waker runs under the lock.
            let wakers = std::mem::take(&mut *self.0.waiting(shard));
            wakers.into_values().for_each(Waker::wake);
        }
        is_first
    }

    /// True if the shutdown was requested.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }

    /// Returns the number of calls that did not end within the graceful shutdown timeout, so far.
    #[must_use]
    pub fn cut_calls(&self) -> usize {
        self.0.cut.load(Ordering::Relaxed)
    }

    /// Logs that a server has finished, with the number of calls that it cut off.
    #[cfg(feature = "server")]
    pub fn log_end(&self) {
        tracing::info!(cut_calls = self.cut_calls(), "finished serving");
    }

    #[cfg(feature = "server")]
    pub(crate) fn count_cut_calls(&self, calls: usize) {
        // A connection that its client closed has calls to cut, too.
        if self.is_stopped() {
            self.0.cut.fetch_add(calls, Ordering::Relaxed);
        }
    }

    /// Completes when the shutdown is requested.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        self.wait()
    }

    /// Completes when the shutdown is requested. Its type has a name, so that a pending call holds it without a box.
    pub(crate) fn wait(&self) -> Stopped {
        let ticket = self.0.tickets.fetch_add(1, Ordering::Relaxed);
        Stopped { shutdown: self.clone(), ticket, waker: None }
    }
}

impl fmt::Debug for Shutdown {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shutdown").field(&self.is_stopped()).finish()
    }
}

/// Future that completes when a shutdown is requested.
pub(crate) struct Stopped {
    shutdown: Shutdown,
    ticket: u64,
    /// The waker that is registered, if this was polled.
    waker: Option<Waker>,
}

#[cfg(feature = "server")]
impl Stopped {
    pub(crate) fn shutdown(&self) -> &Shutdown {
        &self.shutdown
    }
}

impl Future for Stopped {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        // A select loop polls this often; the waker is registered only once.
        if !this.waker.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
            let waker = cx.waker().clone();
            let before = this.shutdown.0.waiting(this.ticket).insert(this.ticket, waker.clone());
            // Without the lock, because it may be the last reference to a task.
            drop(before);
            this.waker = Some(waker);
        }
        // After the registration: a shutdown before it would wake nothing.
        if this.shutdown.is_stopped() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        if self.waker.is_some() {
            let mut waiting = self.shutdown.0.waiting(self.ticket);
            let waker = waiting.remove(&self.ticket);
            if waiting.is_empty() && waiting.capacity() > MAX_KEPT_WAKERS {
                waiting.shrink_to_fit();
            }
            drop(waiting);
            drop(waker);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicU64);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn poll(stopped: &mut Stopped, count: &Arc<Count>) -> Poll<()> {
        let waker = Waker::from(count.clone());
        Pin::new(stopped).poll(&mut Context::from_waker(&waker))
    }

    fn registered(shutdown: &Shutdown) -> usize {
        (0..SHARDS as u64).map(|shard| shutdown.0.waiting(shard).len()).sum()
    }

    #[test]
    fn a_stop_wakes_each_future_once_with_its_last_waker() {
        let shutdown = Shutdown::new();
        let (first, last) = (Arc::<Count>::default(), Arc::<Count>::default());
        let mut many: Vec<_> = (0..20).map(|_| shutdown.wait()).collect();
        for stopped in &mut many {
            assert!(poll(stopped, &first).is_pending());
            assert!(poll(stopped, &last).is_pending());
        }
        shutdown.stop();
        assert_eq!((first.0.load(Ordering::SeqCst), last.0.load(Ordering::SeqCst)), (0, 20));
        assert!(many.iter_mut().all(|stopped| poll(stopped, &last).is_ready()));
        assert!(poll(&mut shutdown.wait(), &last).is_ready(), "one that began after the stop");
    }

    #[test]
    fn a_dropped_future_leaves_no_waker() {
        let shutdown = Shutdown::new();
        let mut stopped = shutdown.wait();
        assert!(poll(&mut stopped, &Arc::default()).is_pending());
        assert_eq!(registered(&shutdown), 1);
        drop(stopped);
        assert_eq!(registered(&shutdown), 0);
    }
}
