//! Asking servers to stop.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::{Poll, Waker},
};

use tokio::{sync::watch, task::coop::unconstrained};
use wharf_model::{Error, ErrorKind};

use crate::server::jsonl::in_flight::RETRY_AFTER;

/// Asks whatever serves with it to stop in good order. Clones stop together.
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
    /// A handle nobody has used yet.
    #[must_use]
    pub fn new() -> Self {
        Shutdown(Arc::new(watch::Sender::new(false)))
    }

    /// No more messages are read; calls under way have their grace period, and listens end.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }

    /// Whether somebody asked to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when somebody asks to stop.
    pub fn stopped(&self) -> impl Future<Output = ()> + Send + use<> {
        let (shutdown, mut receiver) = (self.clone(), self.0.subscribe());
        async move {
            // Its turn must not be put off: it is asked only once.
            let mut changed = pin!(unconstrained(receiver.changed()));
            let mut registered: Option<Waker> = None;
            poll_fn(|cx| {
                if shutdown.is_stopped() {
                    return Poll::Ready(());
                }
                // Whoever waits for other things too is polled often, and noted only once.
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

/// What a call is answered with that is still under way when the grace period is over.
pub(crate) fn shutting_down() -> Error {
    let mut error = Error::overloaded(RETRY_AFTER);
    error.kind = ErrorKind::TemporarilyUnavailable;
    error.with_message(
        "The server is shutting down, and the call did not end in time: send it again if repeating it does no harm",
    )
}

#[cfg(feature = "http")]
impl Shutdown {
    /// Completes when calls that are under way have had their grace period.
    pub(crate) fn after_grace(
        &self,
        grace: std::time::Duration,
    ) -> impl Future<Output = ()> + Send + use<> {
        let stopped = self.stopped();
        async move {
            stopped.await;
            tokio::time::sleep(grace).await;
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown::new()
    }
}
