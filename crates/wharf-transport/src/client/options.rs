//! Options of a client transport.

use std::{fmt, sync::Arc, time::Duration};

use wharf_connect::HostConnector;
use wharf_model::{BoxFuture, ClientRequest, CredentialsProvider, Error};
use wharf_wire::{ClientIdentity, NegotiationTimeout, Revision};

use super::RevisionCache;

/// Upper limit of timeouts: the clock has an end.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// Options of a client transport.
///
/// ```
/// use wharf_model::Implementation;
/// use wharf_transport::client::{ClientLimits, ClientTransportOptions};
/// use wharf_wire::ClientIdentity;
///
/// let client = ClientIdentity { info: Implementation::new("tug", "1.0.0"), ..ClientIdentity::default() };
/// let options = ClientTransportOptions::new(client).limits(ClientLimits::default().message(1 << 20));
/// assert_eq!(options.limits.message, 1 << 20);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct ClientTransportOptions {
    /// The client's name, version and capabilities.
    pub client: Arc<ClientIdentity>,
    /// The only revision to use; without one, the newest common revision.
    pub protocol_version: Option<Revision>,
    /// Timeout of the probe for a modern server: 5 seconds.
    pub probe: Duration,
    /// Timeout of the handshake: 30 seconds.
    pub handshake: Duration,
    /// Limits for what a server may use.
    pub limits: ClientLimits,
    /// Callback for all messages and events.
    pub trace: Option<Trace>,
    /// Cache of the revisions that servers use.
    pub revision_cache: Arc<RevisionCache>,
    /// Handler of server requests that belong to no call.
    pub unsolicited_requests: Arc<dyn UnsolicitedRequestHandler>,
    /// Provider of credentials, for HTTP and WebSocket. They are sent to the server's own origin
    /// only.
    pub credentials: Option<Arc<dyn CredentialsProvider>>,
    /// Connector for URLs: proxy, trusted certificates, client certificate.
    pub connector: HostConnector,
}

impl ClientTransportOptions {
    /// Options with defaults, for this client.
    #[must_use]
    pub fn new(client: impl Into<Arc<ClientIdentity>>) -> Self {
        ClientTransportOptions {
            client: client.into(),
            protocol_version: None,
            probe: Duration::from_secs(5),
            handshake: Duration::from_secs(30),
            limits: ClientLimits::default(),
            trace: None,
            revision_cache: Arc::new(RevisionCache::in_memory()),
            unsolicited_requests: Arc::new(NoHandler),
            credentials: None,
            connector: HostConnector::new(),
        }
    }

    /// Sets the only revision to use.
    #[must_use]
    pub fn protocol_version(mut self, revision: Revision) -> Self {
        self.protocol_version = Some(revision);
        self
    }

    /// Sets the timeout of the probe for a modern server.
    #[must_use]
    pub fn probe(mut self, timeout: Duration) -> Self {
        self.probe = timeout;
        self
    }

    /// Sets the timeout of the handshake.
    #[must_use]
    pub fn handshake(mut self, timeout: Duration) -> Self {
        self.handshake = timeout;
        self
    }

    /// Sets the limits for what a server may use.
    #[must_use]
    pub fn limits(mut self, limits: ClientLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Sets the callback for all messages and events.
    #[must_use]
    pub fn trace(mut self, trace: impl Fn(TraceEvent<'_>) + Send + Sync + 'static) -> Self {
        self.trace = Some(Arc::new(trace));
        self
    }

    /// Sets the cache of the revisions that servers use.
    #[must_use]
    pub fn revision_cache(mut self, cache: impl Into<Arc<RevisionCache>>) -> Self {
        self.revision_cache = cache.into();
        self
    }

    /// Sets the handler of server requests that belong to no call.
    #[must_use]
    pub fn unsolicited_requests(mut self, handler: impl UnsolicitedRequestHandler) -> Self {
        self.unsolicited_requests = Arc::new(handler);
        self
    }

    /// Sets the provider of credentials.
    #[must_use]
    pub fn credentials(mut self, credentials: impl CredentialsProvider) -> Self {
        self.credentials = Some(Arc::new(credentials));
        self
    }

    /// Sets the connector for URLs.
    #[must_use]
    pub fn connector(mut self, connector: HostConnector) -> Self {
        self.connector = connector;
        self
    }

    /// Passes an event to the trace callback.
    pub(crate) fn record(&self, what: TraceEvent<'_>) {
        if let Some(trace) = &self.trace {
            trace(what);
        }
    }

    /// Timeout of a step of the handshake.
    pub(crate) fn time(&self, patience: NegotiationTimeout) -> Duration {
        let time = match patience {
            NegotiationTimeout::Probe => self.probe,
            NegotiationTimeout::Handshake => self.handshake,
        };
        time.min(MAX_TIMEOUT)
    }

    /// Passes a note to the trace callback.
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
            .field("protocol_version", &self.protocol_version)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Limits for what a server may use.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::ClientLimits;
///
/// let limits = ClientLimits::default().message(1 << 20).in_flight(100);
/// assert_eq!(limits.asks, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// Maximum length of a message, in bytes: a line, a body, an event. 16 MiB.
    pub message: usize,
    /// Maximum number of calls and subscriptions in flight. One more fails. 4,096.
    pub in_flight: usize,
    /// Maximum number of open requests of the server. One more is rejected. 64.
    pub asks: usize,
    /// Maximum number of messages waiting to be written, before callers wait (back-pressure). 256.
    pub outgoing: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits { message: 16 << 20, in_flight: 4096, asks: 64, outgoing: 256 }
    }
}

impl ClientLimits {
    /// Sets the maximum length of a message, in bytes.
    #[must_use]
    pub fn message(mut self, bytes: usize) -> Self {
        self.message = bytes;
        self
    }

    /// Sets the maximum number of calls and subscriptions in flight.
    #[must_use]
    pub fn in_flight(mut self, calls: usize) -> Self {
        self.in_flight = calls;
        self
    }

    /// Sets the maximum number of open requests of the server.
    #[must_use]
    pub fn asks(mut self, requests: usize) -> Self {
        self.asks = requests;
        self
    }

    /// Sets the maximum number of messages waiting to be written.
    #[must_use]
    pub fn outgoing(mut self, messages: usize) -> Self {
        self.outgoing = messages;
        self
    }
}

/// Trace callback of a transport. It must not block.
pub type Trace = Arc<dyn Fn(TraceEvent<'_>) + Send + Sync>;

/// A message on a transport, or another event.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::TraceEvent;
///
/// /// Prints an event, as the trace callback of a client.
/// fn print(event: TraceEvent<'_>) {
///     match event {
///         TraceEvent::Sent(message) => eprintln!("> {}", String::from_utf8_lossy(message)),
///         TraceEvent::Received(message) => eprintln!("< {}", String::from_utf8_lossy(message)),
///         TraceEvent::Note(note) => eprintln!("# {note}"),
///         _ => {}
///     }
/// }
/// # print(TraceEvent::Note("connected"));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A message to the server.
    Sent(&'a [u8]),
    /// A message from the server.
    Received(&'a [u8]),
    /// Another event: a status line, a line of a child's stderr, a new connection.
    Note(&'a str),
}

/// Answers requests of a legacy server that belong to no call, or cannot be attributed to one.
///
/// ```
/// use wharf_model::{BoxFuture, ClientRequest, Error};
/// use wharf_transport::client::UnsolicitedRequestHandler;
///
/// struct Refuse;
///
/// impl UnsolicitedRequestHandler for Refuse {
///     fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>> {
///         Box::pin(async move { Err(Error::method_not_found(ask.method().name())) })
///     }
/// }
/// ```
pub trait UnsolicitedRequestHandler: Send + Sync + 'static {
    /// Answers a request: the result as JSON text. Dropping the future withdraws the request.
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>>;
}

/// Rejects every request.
struct NoHandler;

impl UnsolicitedRequestHandler for NoHandler {
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>> {
        Box::pin(std::future::ready(Err(Error::method_not_found(ask.method().name()))))
    }
}
