//! How a server is served over HTTP.

use std::{fmt, sync::Arc, time::Duration};

use wharf_model::{Authenticator, Stores};

use crate::server::http::forwarded::{InvalidNetwork, TrustedProxies};

/// When a reply is a stream of events instead of one JSON object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Streaming {
    /// From the first message on that a call sends before its end.
    #[default]
    Smart,
    /// Only for `subscriptions/listen`. What other calls send before their end is dropped.
    ListenOnly,
    /// Never, for hosts that cannot stream. Nothing that needs it is offered.
    Never,
}

/// How a server is served over HTTP.
///
/// ```
/// # mod wharf { pub use wharf_transport::server::http::*; }
/// use wharf::Http;
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
    pub(crate) limits: HttpLimits,
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
    /// At `/mcp`, for programs and pages on this machine, with sessions for legacy clients.
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
            limits: HttpLimits::default(),
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

    /// The path of the endpoint.
    pub fn path(mut self, path: impl Into<String>) -> Self {
        let path = path.into();
        self.path = if path.starts_with('/') { path } else { format!("/{path}") };
        self
    }

    /// Answers requests for this host too: a name for any port, or `name:port`. The names of this
    /// machine's loopback are always allowed.
    ///
    /// A page can make a browser send requests here under a name of its own (DNS rebinding); that
    /// such a name is refused is what keeps it out.
    pub fn host(mut self, host: impl Into<String>) -> Self {
        self.hosts.push(host.into().to_ascii_lowercase());
        self
    }

    /// Answers requests for any host, because something else checks it: a proxy, for one.
    pub fn any_host(mut self) -> Self {
        self.any_host = true;
        self
    }

    /// Answers requests from pages of this origin too, such as `https://app.example.com`. Those of
    /// this machine's loopback, and of the host itself, are always allowed.
    pub fn origin(mut self, origin: impl Into<String>) -> Self {
        self.origins.push(origin.into().trim_end_matches('/').to_ascii_lowercase());
        self
    }

    /// Lets pages of these origins read the replies, as browsers demand it (CORS).
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

    /// When replies are streams. Whatever is not [`Streaming::Smart`] is stateless too.
    pub fn streaming(mut self, streaming: Streaming) -> Self {
        self.streaming = streaming;
        self
    }

    /// Gives legacy clients no session: any process can answer any request, but handlers cannot ask
    /// these clients anything, nor tell them what has changed.
    pub fn stateless(mut self) -> Self {
        self.stateless = true;
        self
    }

    /// Serves clients of 2024-11-05 over HTTP+SSE too, at `/sse` and `/messages`.
    pub fn sse_2024(mut self) -> Self {
        self.sse_2024 = true;
        self
    }

    /// What the endpoint takes on.
    pub fn limits(mut self, limits: HttpLimits) -> Self {
        self.limits = limits;
        self
    }

    /// Keeps legacy sessions and their streams in these stores, if they are a
    /// [cluster's](wharf_model::Sharing::Fleet): then every process that shares them serves every
    /// session. Otherwise sessions end with this process, and cost it nothing more.
    pub fn stores(mut self, stores: Stores) -> Self {
        self.stores = Some(stores);
        self
    }

    /// Answers at `/live` whether the process is alive, and at `/ready` whether it should be sent
    /// requests: not while it stops, nor while its store is gone, nor for ten seconds after a connection could not be
    /// accepted for lack of file descriptors. Both are for balancers, whatever
    /// host they ask for, and say nothing else.
    pub fn health(mut self) -> Self {
        self.health = true;
        self
    }

    /// Lets nobody in whom this authority does not let in. Its own pages are served beside the endpoint.
    pub fn authority(mut self, authority: impl Authenticator) -> Self {
        let pages = authority.paths();
        self.authority = Some(AuthConfig { authority: Arc::new(authority), pages });
        self
    }

    /// Takes the client's address from what these reverse proxies say, in `Forwarded` (RFC 7239) or else in
    /// `X-Forwarded-For`. Each is an address or a network in CIDR notation, such as `10.0.0.0/8`.
    ///
    /// The right-most address in the header that is not itself a trusted proxy counts: as the
    /// [`RemoteAddress`](wharf_model::RemoteAddress) of the request, for rates, shares per caller and the limits of an
    /// OAuth proxy. Requests from other addresses are taken as they come, whatever their headers say. A request whose two
    /// headers name different clients is refused, because one of them may be the client's own: let the proxy set one and
    /// remove the other.
    ///
    /// ```
    /// # mod wharf { pub use wharf_transport::server::http::*; }
    /// use wharf::Http;
    ///
    /// let http = Http::new().host("mcp.example.com").trusted_proxies(["127.0.0.1", "10.0.0.0/8"])?;
    /// # Ok::<(), wharf::InvalidNetwork>(())
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

    /// Whether somebody decides who may come in.
    #[must_use]
    pub fn is_guarded(&self) -> bool {
        self.authority.is_some()
    }

    /// Whether WebSockets are served at the same path. They are, unless switched off.
    #[cfg(feature = "websocket")]
    pub fn websocket(mut self, on: bool) -> Self {
        self.websocket = on;
        self
    }

    /// Encrypts, where our own accept loop serves the endpoint.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, tls: crate::server::http::Tls) -> Self {
        self.tls = Some(tls);
        self
    }

    /// The paths that an application must route to the service.
    #[must_use]
    pub fn paths(&self) -> Vec<&str> {
        let old: &[&str] = if self.sse_2024 { &[SSE, MESSAGES] } else { &[] };
        let health: &[&str] = if self.health { &[LIVE, READY] } else { &[] };
        let own = std::iter::once(&*self.path).chain(old.iter().chain(health).copied());
        own.chain(self.pages()).collect()
    }

    /// Those of them that are pages of the authority. Clients look for them at the root of the origin, wherever the
    /// application has the endpoint.
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

    /// Whether legacy clients have sessions.
    pub(crate) fn has_sessions(&self) -> bool {
        !self.stateless && self.streaming == Streaming::Smart
    }

    /// Whether requests for other hosts than this machine's loopback are refused.
    #[must_use]
    pub fn is_for_loopback_only(&self) -> bool {
        self.hosts.is_empty() && !self.any_host
    }

    /// Whether messages are sent over `https`.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_some();
        #[cfg(not(feature = "tls"))]
        false
    }
}

/// Who decides who may come in, and which pages are its own.
#[derive(Clone)]
pub(crate) struct AuthConfig {
    pub(crate) authority: Arc<dyn Authenticator>,
    pages: Vec<String>,
}

impl AuthConfig {
    /// Whether this path is that of one of its pages.
    pub(crate) fn has_page(&self, path: &str) -> bool {
        self.pages.iter().any(|page| page == path)
    }
}

impl fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&self.pages).finish()
    }
}

/// Where a client of 2024-11-05 listens.
pub(crate) const SSE: &str = "/sse";
/// Where a client of 2024-11-05 posts.
pub(crate) const MESSAGES: &str = "/messages";

/// Where balancers ask whether the process is alive.
pub(crate) const LIVE: &str = "/live";
/// Where balancers ask whether it should be sent requests.
pub(crate) const READY: &str = "/ready";

/// What an HTTP endpoint takes on, at most.
///
/// ```
/// # mod wharf { pub use wharf_transport::server::http::*; }
/// use wharf::{Http, HttpLimits};
///
/// let mut limits = HttpLimits::default();
/// limits.sessions = 100;
/// let http = Http::new().limits(limits);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HttpLimits {
    /// Connections at a time. For one more, the connection is closed that was idle for longest, of the caller that has
    /// most; if all of them are in use, it is refused.
    pub connections: usize,
    /// Requests at a time on one HTTP/2 connection.
    pub streams: usize,
    /// Bytes in the headers of a request.
    pub headers: usize,
    /// How long the first byte, and then the headers of each request, may take to come. An idle
    /// connection ends after it too.
    pub head: Duration,
    /// How long a request's body may take to come, beside what it needs at 64 KiB a second.
    pub body: Duration,
    /// Bytes that all bodies take which are being read or answered. One of more than 64 KiB counts three times: as it
    /// came, as the arguments that are read from it, and as the reply. It waits for its turn for as long as `body` says, and
    /// one caller gets no more than is left for the others. Shorter ones count for their caller too while all of them
    /// take more than half. Messages on WebSockets and HTTP+SSE are among them.
    pub bodies: usize,
    /// How long a client may read nothing of what is sent to it.
    pub write: Duration,
    /// After how long a silent stream shows that it is alive.
    pub keep_alive: Duration,
    /// Legacy sessions at a time. For one more, the session ends that was idle for longest, of the caller that has
    /// most, and of those first that the client never came back to; if all of them are in use, it is refused. Where several processes share them, those of one principal, in
    /// all processes together, and those that one process has in its memory.
    pub sessions: usize,
    /// Bytes that legacy sessions keep of what clients said about themselves. Each session counts as its part of it at
    /// least, so that there are never more than `sessions`.
    pub session_bytes: usize,
    /// Legacy sessions of unauthenticated callers, where several processes share them, in all processes
    /// together. Their addresses form 16 groups. Each group may have a quarter of this number, all of them up to four times it.
    pub anonymous_sessions: usize,
    /// How long a legacy session may be idle.
    pub session_idle: Duration,
    /// Calls under way in one legacy session.
    pub session_calls: usize,
    /// Events that one stream of a legacy session keeps for a client that comes back.
    pub replay_events: usize,
    /// Bytes that one stream of a legacy session keeps for a client that comes back.
    pub replay_bytes: usize,
    /// How long a stream of a legacy session that has ended is kept for a client that comes back.
    pub replay_time: Duration,
    /// Bytes that all legacy sessions keep for clients that come back, with what clients have yet to read. Beyond it,
    /// streams that have ended are forgotten, the first to end first, then calls wait for their clients to read.
    pub replay_total: usize,
    /// How long a client should wait before it comes back to a stream.
    pub retry: Duration,
    /// How long calls under way may go on once the server shuts down.
    pub grace: Duration,
}

impl HttpLimits {
    /// How many bytes a session counts as at least.
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
