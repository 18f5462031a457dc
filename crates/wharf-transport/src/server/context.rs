//! Service, protocol and limits that a server transport uses.

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Waker},
    time::Duration,
};

use wharf_model::{ActiveCall, Deadlines, Outcome, Request, Service, Timer, setters};
use wharf_wire::ServerProtocol;

use crate::{
    TokioTimer,
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

/// Limits of one connection.
///
/// ```
/// # mod wharf { pub mod server { pub use wharf_transport::*; } }
/// use std::time::Duration;
/// use wharf::server::LineLimits;
///
/// let patient = LineLimits::default().calls(64).grace(Duration::from_secs(30));
/// assert_eq!(patient.listens, 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineLimits {
    /// Maximum number of calls in flight. At that number, reading pauses until a call ends
    /// (back-pressure).
    pub calls: usize,
    /// Maximum time for which reading pauses. A call that still exceeds the limit is then rejected.
    pub patience: Duration,
    /// Maximum number of subscriptions. One more is rejected.
    pub listens: usize,
    /// Maximum number of bytes that the messages of calls in flight may hold. At that number,
    /// reading pauses as it does at the limit of calls.
    pub held: usize,
    /// Maximum number of bytes queued for a slow client. At that number, calls wait
    /// (back-pressure).
    pub output: usize,
    /// Graceful shutdown timeout: time for calls in flight after the client has disconnected or the
    /// server shuts down.
    pub grace: Duration,
    /// Maximum time from a message's first byte to its last, plus its length at 64 KiB per second,
    /// and maximum time between two reads of it. Does not apply to stdio.
    pub arrival: Duration,
    /// Maximum time in which the client must read something while output waits for it. Then the
    /// connection is closed. Does not apply to stdio, where the client may be stopped in a debugger,
    /// nor to connections within the process. WebSockets have `HttpLimits::write` instead.
    pub write: Duration,
    /// Maximum number of bytes of partially received messages, on all connections of a listening
    /// socket or of an HTTP endpoint; at least twice the maximum message length. One caller gets at
    /// most half of it. A message beyond it is answered with an error.
    pub unfinished: usize,
    /// Maximum number of bytes of all messages that are being read or handled, on all connections
    /// of a listening socket. WebSockets share `HttpLimits::bodies` instead.
    pub messages: usize,
}

impl Default for LineLimits {
    fn default() -> Self {
        LineLimits {
            calls: 1024,
            patience: Duration::from_secs(5),
            listens: 1024,
            held: 64 << 20,
            output: 256 << 10,
            grace: Duration::from_secs(5),
            arrival: Duration::from_secs(10),
            write: Duration::from_secs(10),
            unfinished: 48 << 20,
            messages: 256 << 20,
        }
    }
}

setters!(LineLimits {
    calls: usize,
    patience: Duration,
    listens: usize,
    held: usize,
    output: usize,
    grace: Duration,
    arrival: Duration,
    write: Duration,
    unfinished: usize,
    messages: usize,
});
