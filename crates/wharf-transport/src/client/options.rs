//! What a link is told when it is made.

use std::{fmt, sync::Arc, time::Duration};

use wharf_model::{BoxFuture, ClientRequest, CredentialsProvider, Error};
use wharf_wire::{ClientIdentity, Patience, Revision};

use super::RevisionCache;

/// Nobody waits longer, whatever the options say: the clock has an end.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a link is told when it is made.
///
/// ```
/// use wharf_model::Implementation;
/// use wharf_transport::client::ClientTransportOptions;
/// use wharf_wire::ClientIdentity;
///
/// let client = ClientIdentity { info: Implementation::new("tug", "1.0.0"), ..ClientIdentity::default() };
/// let mut options = ClientTransportOptions::new(client);
/// options.limits.message = 1 << 20;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientTransportOptions {
    /// What the client says about itself.
    pub client: Arc<ClientIdentity>,
    /// The only revision to speak; without one, the newest that both sides know.
    pub pin: Option<Revision>,
    /// How long a server may take to answer a question it may not know: 5 seconds.
    pub probe: Duration,
    /// How long a server may take to open the conversation: 30 seconds.
    pub handshake: Duration,
    /// What a server may make the link use.
    pub limits: ClientLimits,
    /// Sees everything that goes by.
    pub trace: Option<Trace>,
    /// Which revision each server spoke the last time.
    pub revision_cache: Arc<RevisionCache>,
    /// Answers questions that belong to no call.
    pub unsolicited_requests: Arc<dyn UnsolicitedRequestHandler>,
    /// Gets in where a server wants to know who is calling, over HTTP and WebSocket. What it shows
    /// goes to the server's own origin only.
    pub credentials: Option<Arc<dyn CredentialsProvider>>,
}

impl ClientTransportOptions {
    /// Options with defaults, for a client that says `client` about itself.
    #[must_use]
    pub fn new(client: impl Into<Arc<ClientIdentity>>) -> Self {
        ClientTransportOptions {
            client: client.into(),
            pin: None,
            probe: Duration::from_secs(5),
            handshake: Duration::from_secs(30),
            limits: ClientLimits::default(),
            trace: None,
            revision_cache: Arc::new(RevisionCache::in_memory()),
            unsolicited_requests: Arc::new(NoHandler),
            credentials: None,
        }
    }

    /// Shows `what` to whoever traces the link.
    pub(crate) fn trace(&self, what: TraceEvent<'_>) {
        if let Some(trace) = &self.trace {
            trace(what);
        }
    }

    /// How long to wait while a conversation is opened.
    pub(crate) fn time(&self, patience: Patience) -> Duration {
        let time = match patience {
            Patience::Probe => self.probe,
            Patience::Handshake => self.handshake,
        };
        time.min(MAX_TIMEOUT)
    }

    /// Tells whoever traces the link what happened.
    pub(crate) fn note(&self, note: impl fmt::Display) {
        if let Some(trace) = &self.trace {
            trace(TraceEvent::Note(&note.to_string()));
        }
    }
}

impl fmt::Debug for ClientTransportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTransportOptions")
            .field("client", &self.client)
            .field("pin", &self.pin)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// What a server may make a link use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// The longest message, in bytes: a line, a body, an event. 16 MiB.
    pub message: usize,
    /// How many calls and listens may be under way. One more fails. 4,096.
    pub in_flight: usize,
    /// How many questions of the server may be open. One more is refused. 64.
    pub asks: usize,
    /// How many messages may wait to be written before callers are held back. 256.
    pub outgoing: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits { message: 16 << 20, in_flight: 4096, asks: 64, outgoing: 256 }
    }
}

/// Sees what goes over a link. It must not block.
pub type Trace = Arc<dyn Fn(TraceEvent<'_>) + Send + Sync>;

/// One thing that went over a link, or happened to it.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A message to the server.
    Sent(&'a [u8]),
    /// A message from the server.
    Received(&'a [u8]),
    /// Something else: a status line, a line of a child's stderr, a new connection.
    Note(&'a str),
}

/// Answers a legacy server's questions that belong to no call, or to nobody knows which.
pub trait UnsolicitedRequestHandler: Send + Sync + 'static {
    /// The JSON text of the answer. Dropping the future withdraws the question.
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>>;
}

/// Has no answers.
struct NoHandler;

impl UnsolicitedRequestHandler for NoHandler {
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>> {
        Box::pin(std::future::ready(Err(Error::method_not_found(ask.method().name()))))
    }
}
