//! Graceful shutdown signal for servers.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Poll, Waker},
};

use tokio::{sync::watch, task::coop::unconstrained};

/// Requests a graceful shutdown of all servers that share it. Clones share one state.
///
/// ```
/// let shutdown = wharf_transport::Shutdown::new();
/// assert!(!shutdown.is_stopped());
/// shutdown.stop();
/// assert!(shutdown.is_stopped());
/// ```
#[derive(Clone, Debug)]
pub struct Shutdown(Arc<ShutdownState>);

#[derive(Debug)]
struct ShutdownState {
    stopped: watch::Sender<bool>,
    /// Number of calls that did not end within the graceful shutdown timeout.
    cut: AtomicUsize,
}

impl Shutdown {
    /// Creates a handle that is not stopped.
    #[must_use]
    pub fn new() -> Self {
        Shutdown(Arc::new(ShutdownState {
            stopped: watch::Sender::new(false),
            cut: AtomicUsize::new(0),
        }))
    }

    /// Requests the shutdown: no more messages are read, calls in flight get the graceful shutdown
    /// timeout, and subscriptions end.
    pub fn stop(&self) {
        self.0.stopped.send_replace(true);
    }

    /// True if the shutdown was requested.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.stopped.borrow()
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
        let (shutdown, mut receiver) = (self.clone(), self.0.stopped.subscribe());
        async move {
            // Exempt from tokio's cooperative budget, because it is polled only once per registered
            // waker.
            let mut changed = pin!(unconstrained(receiver.changed()));
            let mut registered: Option<Waker> = None;
            poll_fn(|cx| {
                if shutdown.is_stopped() {
                    return Poll::Ready(());
                }
                // A select loop polls this often; the waker is registered only once.
                if registered.as_ref().is_some_and(|waker| waker.will_wake(cx.waker())) {
                    return Poll::Pending;
                }
                registered = Some(cx.waker().clone());
                changed.as_mut().poll(cx).map(|_| ())
            })
            .await;
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown::new()
    }
}
