//! Options and limits of the HTTP server.

use std::{fmt, sync::Arc, time::Duration};

use wharf_model::{Authenticator, Stores, setters};

use crate::server::http::forwarded::{InvalidNetwork, TrustedProxies};

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
        own.chain(self.pages()).collect()
    }

    /// Returns the paths of the authenticator's pages. Clients look for them at the root of the origin,
    /// wherever the application mounts the endpoint.
    #[must_use]
    pub fn pages(&self) -> Vec<&str> {
        self.authority.iter().flat_map(|it| it.pages.iter().map(String::as_str)).collect()
    }

    pub(crate) fn serves(&self, path: &str) -> bool {
        path == self.path
            || self.sse_2024 && (path == SSE || path == MESSAGES)
            || self.health && (path == LIVE || path == READY)
            || self.authority.as_ref().is_some_and(|it| it.has_page(path))
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

/// Limits of an HTTP endpoint.
///
/// ```
/// # mod wharf { pub use wharf_transport::server::http::*; pub mod http { pub use super::*; } }
/// use wharf::http::HttpLimits;
///
/// let limits = HttpLimits::default().sessions(100).connections(1_000);
/// assert_eq!(limits.streams, 256);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Largest number of open connections. For one more, the longest idle connection of the caller with most
    /// connections is closed. If all are in use, the new one is refused.
    pub connections: usize,
    /// Largest number of concurrent requests on one HTTP/2 connection.
    pub streams: usize,
    /// Largest size of the headers of a request, in bytes.
    pub headers: usize,
    /// Timeout for the first byte, for the headers of each request, and of an idle connection.
    pub head: Duration,
    /// Timeout for the body of a request, in addition to the time it needs at 64 KiB a second.
    pub body: Duration,
    /// Memory of all bodies that are being read or answered, in bytes. A body of more than 64 KiB counts three
    /// times: for itself, for the arguments decoded from it, and for the reply. It waits for memory for the
    /// time of `body`, and one caller never gets all of it. Smaller bodies count for their caller too while
    /// more than half is in use. Messages on WebSockets and HTTP+SSE are included.
    pub bodies: usize,
    /// Timeout for a client that does not read.
    pub write: Duration,
    /// Interval of keep-alives on a silent stream.
    pub keep_alive: Duration,
    /// Largest number of legacy sessions. For one more, the longest idle session of the caller with most
    /// sessions ends. If all are in use, the new one is refused. Sessions count from the first request with
    /// their id. Until then they are in the handshake, for which there is room beside them: for an eighth of
    /// this number, at least eight. For one handshake more, the oldest of the caller with most handshakes ends.
    /// In a cluster: the largest number per principal in all processes, and the largest number in the memory
    /// of one process.
    pub sessions: usize,
    /// Memory for the client info and capabilities of all legacy sessions, in bytes. Each session counts at
    /// least as its share, so that there are never more than `sessions`.
    pub session_bytes: usize,
    /// Largest number of legacy sessions of unauthenticated callers in a cluster, in all processes. Their
    /// addresses form 16 groups, and each group may have a sixteenth of it, so one address cannot use up the
    /// sessions of all. Set [`Http::trusted_proxies`] behind a balancer, or else all clients have its address.
    /// Callers without an address, such as those of an application that does not pass it on, are one group that
    /// may have all.
    pub anonymous_sessions: usize,
    /// Time after which an idle legacy session expires.
    pub session_idle: Duration,
    /// Largest number of calls in flight in one legacy session.
    pub session_calls: usize,
    /// Number of events that one stream of a legacy session keeps for replay.
    pub replay_events: usize,
    /// Bytes that one stream of a legacy session keeps for replay.
    pub replay_bytes: usize,
    /// Time that an ended stream of a legacy session is kept for replay.
    pub replay_time: Duration,
    /// Bytes that all legacy sessions keep for replay, including events that are not read yet. When they are used
    /// up, streams that have ended are discarded, the oldest of the caller whose ended streams take the most. The
    /// open streams of one caller may take as much as is still free: half of it if it is alone. Beyond that, its
    /// calls wait for their clients to read (back-pressure).
    pub replay_total: usize,
    /// Delay that clients are asked to wait before they resume a stream (`retry` of server-sent events).
    pub retry: Duration,
    /// Grace period of calls in flight on shutdown.
    pub grace: Duration,
}

impl HttpLimits {
    /// Returns the smallest size that a session counts as, in bytes.
    pub(crate) fn session_unit(&self) -> usize {
        (self.session_bytes / self.sessions.max(1)).max(1)
    }
}

impl Default for HttpLimits {
    fn default() -> Self {
        HttpLimits {
            connections: 16_384,
            streams: 256,
            headers: 64 << 10,
            head: Duration::from_secs(10),
            body: Duration::from_secs(10),
            bodies: 256 << 20,
            write: Duration::from_secs(10),
            keep_alive: Duration::from_secs(15),
            sessions: 10_000,
            session_bytes: 64 << 20,
            anonymous_sessions: 100_000,
            session_idle: Duration::from_secs(30 * 60),
            session_calls: 1024,
            replay_events: 1_000,
            replay_bytes: 1 << 20,
            replay_time: Duration::from_secs(5 * 60),
            replay_total: 256 << 20,
            retry: Duration::from_secs(1),
            grace: Duration::from_secs(5),
        }
    }
}

setters!(HttpLimits {
    connections: usize,
    streams: usize,
    headers: usize,
    head: Duration,
    body: Duration,
    bodies: usize,
    write: Duration,
    keep_alive: Duration,
    sessions: usize,
    session_bytes: usize,
    anonymous_sessions: usize,
    session_idle: Duration,
    session_calls: usize,
    replay_events: usize,
    replay_bytes: usize,
    replay_time: Duration,
    replay_total: usize,
    retry: Duration,
    grace: Duration,
});
