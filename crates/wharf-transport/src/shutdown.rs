//! Asking servers to stop.

use std::{future::Future, sync::Arc};

use tokio::sync::watch;

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
        let (sender, mut receiver) = (self.0.clone(), self.0.subscribe());
        async move {
            // The sender lives as long as this future, so the wait ends only by the flag.
            let _ = receiver.wait_for(|stopped| *stopped).await;
            drop(sender);
        }
    }
}

impl Default for Shutdown {
    fn default() -> Self {
        Shutdown::new()
    }
}
