//! Options of a client transport.

use std::{fmt, sync::Arc, time::Duration};

use wharf_connect::HostConnector;
use wharf_model::CredentialsProvider;
use wharf_wire::{AllowedRevisions, ClientIdentity, NegotiationTimeout};

use crate::client::{
    RevisionCache,
    limits::ClientLimits,
    trace::{Trace, TraceEvent},
    unsolicited_requests::{NoHandler, UnsolicitedRequestHandler},
};

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
    /// Revisions that may be used: the newest common one is.
    pub revisions: AllowedRevisions,
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
            revisions: AllowedRevisions::Any,
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

    /// Sets the revisions that may be used.
    #[must_use]
    pub fn revisions(mut self, revisions: AllowedRevisions) -> Self {
        self.revisions = revisions;
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

    /// Timeout of a step of the handshake.
    pub(crate) fn time(&self, patience: NegotiationTimeout) -> Duration {
        let time = match patience {
            NegotiationTimeout::Probe => self.probe,
            NegotiationTimeout::Handshake => self.handshake,
        };
        time.min(MAX_TIMEOUT)
    }
}

impl fmt::Debug for ClientTransportOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientTransportOptions")
            .field("client", &self.client)
            .field("revisions", &self.revisions)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}
