//! Service, protocol and limits that a server transport uses.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Waker},
};

use wharf_model::{ActiveCall, Deadlines, Outcome, Request, Service, Timer, setters};
use wharf_wire::ServerProtocol;

use crate::{
    LineLimits, TokioTimer,
    server::limits::{descriptor_shortage::DescriptorShortage, message_memory::MessageBudget},
};

/// Rest of the handler of a notification. It must be polled again at once.
pub(crate) type PendingNotification = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Everything that a server transport needs: the service, the protocol codec, and the limits.
#[derive(Clone)]
#[non_exhaustive]
pub struct ServerContext {
    /// Decodes messages into calls and encodes outcomes.
    pub wire: Arc<ServerProtocol>,
    /// Handles the calls.
    pub service: Arc<dyn Service>,
    /// Timer for call deadlines.
    pub timer: Arc<dyn Timer>,
    /// Maximum duration of a call, unless the service sets another one.
    pub deadlines: Deadlines,
    /// Limits of one connection.
    pub limits: LineLimits,
    /// Limits of the HTTP endpoint.
    #[cfg(feature = "http")]
    pub http_limits: crate::server::http::HttpLimits,
    /// Records a shortage of file descriptors at any listener; clones of the context share it.
    pub(crate) shortage: DescriptorShortage,
}

impl ServerContext {
    /// Creates a context with the default limits and tokio's timer.
    #[must_use]
    pub fn new(wire: Arc<ServerProtocol>, service: impl Service) -> Self {
        ServerContext {
            wire,
            service: Arc::new(service),
            timer: Arc::new(TokioTimer),
            deadlines: Deadlines::default(),
            limits: LineLimits::default(),
            #[cfg(feature = "http")]
            http_limits: crate::server::http::HttpLimits::default(),
            shortage: DescriptorShortage::default(),
        }
    }

    /// Sets the timer for call deadlines.
    #[must_use]
    pub fn timer(mut self, timer: impl Timer) -> Self {
        self.timer = Arc::new(timer);
        self
    }

    /// Starts the handler of a notification of a client, and returns the rest of it if it is pending: the transport runs
    /// that as long as the client is there. It has no reply, and the limit of concurrent calls bounds how many run.
    pub(crate) fn start_notification(&self, request: Request) -> Option<PendingNotification> {
        let call = ActiveCall::start(&*self.service, request, self.timer.clone(), self.deadlines);
        let mut run: PendingNotification = Box::pin(async {
            if let Outcome::Failed(error) = call.run_alone().await {
                tracing::debug!(%error, "ignored the error of a notification handler");
            }
        });
        // Most handlers end with the first poll: then the next message finds their effect.
        let first = run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        first.is_pending().then_some(run)
    }

    /// Maximum length of a message in bytes.
    pub(crate) fn max_message(&self) -> usize {
        self.wire.max_message()
    }

    /// Budget for partially received messages. One caller must be able to send a message of maximum
    /// length.
    pub(crate) fn unfinished(&self) -> usize {
        self.limits.unfinished.max(self.max_message().saturating_mul(2))
    }

    /// Message budget of a listening socket.
    pub(crate) fn budget(&self) -> Arc<MessageBudget> {
        let unfinished = self.unfinished();
        MessageBudget::new(self.limits.messages.max(unfinished), unfinished)
    }
}

setters!(ServerContext {
    wire: Arc<ServerProtocol>,
    deadlines: Deadlines,
    limits: LineLimits,
    #[cfg(feature = "http")]
    http_limits: crate::server::http::HttpLimits,
});

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerContext").field("limits", &self.limits).finish_non_exhaustive()
    }
}
