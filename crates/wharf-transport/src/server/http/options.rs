//! Options of the HTTP server.

use std::{fmt, sync::Arc};

use wharf_model::{Authenticator, Stores};

use crate::server::http::{
    documents::PublicDocument,
    forwarded::{InvalidNetwork, TrustedProxies},
};

/// Selects between one JSON object and a stream of events as the response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Streaming {
    /// A stream if a call sends a message before its reply, else JSON.
    #[default]
    Smart,
    /// A stream only for `subscriptions/listen`. Messages of other calls before the reply are dropped.
    ListenOnly,
    /// JSON only, for platforms that cannot stream. Features that need a stream are not offered.
    Never,
}

/// Options of an HTTP server.
///
/// ```
/// # mod wharf { pub use wharf_transport::server::http::*; pub mod http { pub use super::*; } }
/// use wharf::http::Http;
///
/// let http = Http::new().path("/tools").host("mcp.example.com").cors(["https://app.example.com"]);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Http {
    pub(crate) path: String,
    pub(crate) hosts: Vec<String>,
    pub(crate) any_host: bool,
    pub(crate) origins: Vec<String>,
    pub(crate) cors: Vec<String>,
    pub(crate) streaming: Streaming,
    pub(crate) stateless: bool,
    pub(crate) sse_2024: bool,
    pub(crate) stores: Option<Stores>,
    pub(crate) health: bool,
    pub(crate) authority: Option<AuthConfig>,
    pub(crate) proxies: TrustedProxies,
    documents: Vec<PublicDocument>,
    #[cfg(feature = "websocket")]
    pub(crate) websocket: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<crate::server::http::Tls>,
}

impl Default for Http {
    fn default() -> Self {
        Http::new()
    }
}

impl Http {
    /// Creates options: path `/mcp`, requests from this machine only, sessions for legacy clients.
    pub fn new() -> Self {
        Http {
            path: "/mcp".into(),
            hosts: Vec::new(),
            any_host: false,
            origins: Vec::new(),
            cors: Vec::new(),
            streaming: Streaming::Smart,
            stateless: false,
            sse_2024: false,
            stores: None,
            health: false,
            authority: None,
            proxies: TrustedProxies::default(),
            documents: Vec::new(),
            #[cfg(feature = "websocket")]
            websocket: true,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }

    /// Sets the path of the endpoint.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        let path = path.into();
        self.path = if path.starts_with('/') { path } else { format!("/{path}") };
        self
    }

    /// Allows requests for this host: a name for any port, or `name:port`. The names of the loopback are always
    /// allowed.
    ///
    /// Rejecting other hosts protects against DNS rebinding, where a web page makes a browser send requests
    /// here under the page's own host name.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Allows requests for any host. For servers behind a proxy that checks the host.
    pub fn any_host(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// Allows requests from pages of this origin, such as `https://app.example.com`. The origins of the
    /// loopback and of the host itself are always allowed.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into().trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// Lets pages of these origins read responses in a browser (CORS), and allows their requests.
    pub fn cors<I>(mut self, origins: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        for origin in origins {
            self = self.origin(origin);
            self.cors.extend(self.origins.last().cloned());
        }
        self
    }

    /// Selects the form of responses. Anything other than [`Streaming::Smart`] also turns legacy sessions off.
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }

    /// Turns legacy sessions off: any process can handle any request, but handlers cannot send requests or
    /// change notifications to legacy clients.
    pub fn stateless(mut self) -> Self {
        self.stateless = true;
        self
    }

    /// Serves clients of revision 2024-11-05 over HTTP+SSE too, at `/sse` and `/messages`.
    pub fn sse_2024(mut self) -> Self {
        self.sse_2024 = true;
        self
    }

    /// Keeps legacy sessions and their streams in these stores, if their sharing is
    /// [`Cluster`](wharf_model::Sharing::Cluster): then every process that shares them serves every session.
    /// Otherwise sessions end with this process.
    pub fn stores(mut self, stores: Stores) -> Self {
        self.stores = Some(stores);
        self
    }

    /// Serves health checks for load balancers: `/live` while the process runs, and `/ready` while it accepts
    /// requests. It is not ready during shutdown, while its store is unavailable, and for ten seconds after a
    /// connection could not be accepted for lack of file descriptors. Both accept any host and have no body.
    pub fn health(mut self) -> Self {
        self.health = true;
        self
    }

    /// Rejects requests that this authenticator does not accept. Its pages are served beside the endpoint.
    pub fn authority(mut self, authority: impl Authenticator) -> Self {
        let pages = authority.paths();
        self.authority = Some(AuthConfig { authority: Arc::new(authority), pages });
        self
    }

    /// Trusts the header `Forwarded` (RFC 7239), or else `X-Forwarded-For`, of these reverse proxies. Each is an
    /// address or a network in CIDR notation, such as `10.0.0.0/8`.
    ///
    /// The right-most address in the header that is not a trusted proxy becomes the
    /// [`RemoteAddress`](wharf_model::RemoteAddress) of the request, for rate limits, limits per caller and the limits
    /// of an OAuth proxy. The headers of requests from other addresses are ignored. A request whose two headers name
    /// different clients is rejected, because one of them may come from the client: let the proxy set one and remove
    /// the other.
    ///
    /// ```
    /// # mod wharf { pub use wharf_transport::server::http::*; pub mod http { pub use super::*; } }
    /// use wharf::http::Http;
    ///
    /// let http = Http::new().host("mcp.example.com").trusted_proxies(["127.0.0.1", "10.0.0.0/8"])?;
    /// # Ok::<(), wharf::http::InvalidNetwork>(())
    /// ```
    ///
    /// # Errors
    /// If one of them is neither an address nor a network.
    pub fn trusted_proxies<I>(mut self, proxies: I) -> Result<Self, InvalidNetwork>
    where
        I: IntoIterator,
        I::Item: AsRef<str>,
    {
        for proxy in proxies {
            self.proxies.extend([proxy.as_ref().parse()?]);
        }
        Ok(self)
    }

    /// Serves a document beside the endpoint, without authentication unless it needs it. Set the
    /// [path](Http::path) of the endpoint before.
    pub fn document(mut self, document: PublicDocument) -> Self {
        self.documents.push(document.place(&self.path));
        self
    }

    /// Returns the document that a request is for. The application may have mounted the endpoint below a prefix.
    pub(crate) fn document_at(&self, path: &str) -> Option<&PublicDocument> {
        // The endpoint itself may have such a path.
        let found = self.documents.iter().find(|it| path.ends_with(it.path()));
        found.filter(|_| path != self.path)
    }

    /// Returns true if an authenticator is configured.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.authority.is_some()
    }

    /// Enables or disables WebSocket at the same path. Enabled by default.
    #[cfg(feature = "websocket")]
    pub fn websocket(mut self, on: bool) -> Self {
        self.websocket = on;
        self
    }

    /// Enables TLS for connections that [`serve`](crate::server::http::serve) accepts.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::server::http::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// Returns the paths that an application must route to the service.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let old: &[&str] = if self.sse_2024 { &[SSE, MESSAGES] } else { &[] };
        let health: &[&str] = if self.health { &[LIVE, READY] } else { &[] };
        let own = std::iter::once(&*self.path).chain(old.iter().chain(health).copied());
        let beside = self.documents.iter().filter(|it| !it.is_at_root());
        own.chain(beside.map(PublicDocument::path)).chain(self.pages()).collect()
    }

    /// Returns the paths of the authenticator's pages, and of documents below `/.well-known`. Clients look for them at
    /// the root of the origin, wherever the application mounts the endpoint.
    #[must_use]
    pub fn pages(&self) -> Vec<&str> {
        let pages = self.authority.iter().flat_map(|it| it.pages.iter().map(String::as_str));
        let documents = self.documents.iter().filter(|it| it.is_at_root());
        pages.chain(documents.map(PublicDocument::path)).collect()
    }

    pub(crate) fn serves(&self, path: &str) -> bool {
        path == self.path
            || self.sse_2024 && (path == SSE || path == MESSAGES)
            || self.health && (path == LIVE || path == READY)
            || self.authority.as_ref().is_some_and(|it| it.has_page(path))
            || self.documents.iter().any(|it| it.path() == path)
    }

    /// Returns true if legacy clients have sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        !self.stateless && self.streaming == Streaming::Smart
    }

    /// Returns true if only requests for the loopback are allowed.
    #[must_use]
    pub fn is_for_loopback_only(&self) -> bool {
        self.hosts.is_empty() && !self.any_host
    }

    /// Returns true if connections use TLS.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// Authenticator of an endpoint, and the paths of its pages.
#[derive(Clone)]
pub(crate) struct AuthConfig {
    pub(crate) authority: Arc<dyn Authenticator>,
    pages: Vec<String>,
}

impl AuthConfig {
    /// Returns true if the path is one of its pages.
    pub(crate) fn has_page(&self, path: &str) -> bool {
        self.pages.iter().any(|page| page == path)
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.pages).finish()
    }
}

/// Path of the event stream of HTTP+SSE.
pub(crate) const SSE: &str = "/sse";
/// Path for the POSTs of HTTP+SSE.
pub(crate) const MESSAGES: &str = "/messages";

/// Path of the liveness check.
pub(crate) const LIVE: &str = "/live";
/// Path of the readiness check.
pub(crate) const READY: &str = "/ready";
