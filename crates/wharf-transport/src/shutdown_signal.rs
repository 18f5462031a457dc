//! Graceful shutdown signal for servers.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
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
pub struct Shutdown(Arc<watch::Sender<bool>>);

impl Shutdown {
    /// Creates a handle that is not stopped.
    #[must_use]
    pub fn new() -> Self {
        Shutdown(Arc::new(watch::Sender::new(false)))
    }

    /// Requests the shutdown: no more messages are read, calls in flight get the graceful shutdown
    /// timeout, and subscriptions end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// True if the shutdown was requested.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when the shutdown is requested.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let (shutdown, mut receiver) = (self.clone(), self.0.subscribe());
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
