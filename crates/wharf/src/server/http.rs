//! Server over HTTP.

use std::{io, sync::Arc};

use tokio::net::{TcpListener, ToSocketAddrs};
use wharf_model::{
    Authenticator, BoxFuture, ChangeVersion, Observers, Outbox, Outcome, RateStore, RemoteAddress,
    Request, Service,
};
use wharf_server::{RateKey, RateLimit, Rates, layered};
use wharf_transport::{
    ServerContext,
    server::{
        http,
        http::{Http, HttpService},
        tcp,
        tcp::Exposure,
    },
};

use crate::{Endpoint, Result, Server};

impl Server {
    /// Sets the HTTP options: path, allowed clients, TLS.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// use wharf::{Server, http::Http};
    ///
    /// let http = Http::new().host("mcp.example.com").cors(["https://app.example.com"]);
    /// Server::new("harbour", "1.0.0").http(http).serve_http("127.0.0.1:8000").await
    /// # }
    /// ```
    pub fn http(mut self, http: Http) -> Self {
        self.http = http;
        self
    }

    /// Requires authentication by `authority` for each HTTP request, on every route. Handlers
    /// receive the caller as [`Principal`](crate::Principal). Stdin and line sockets are not
    /// authenticated: a process that can start the server or connect to it may call it.
    ///
    /// ```
    /// use wharf::{Principal, Server};
    /// use wharf::auth::{AuthDecision, AuthRejection, AuthRequest, Authenticated, Authenticator};
    ///
    /// struct Badge;
    ///
    /// impl Authenticator for Badge {
    ///     fn admit(&self, knock: &AuthRequest<'_>) -> AuthDecision {
    ///         AuthDecision::Now(match knock.headers.get("x-badge") {
    ///             Some(badge) if badge == "alice's" => Ok(Authenticated::new(Principal::new("alice"))),
    ///             _ => Err(AuthRejection::new(401, "Show your badge")),
    ///         })
    ///     }
    /// }
    ///
    /// let server = Server::new("harbour", "1.0.0").auth(Badge);
    /// # let _ = server.build();
    /// ```
    pub fn auth(mut self, authority: impl Authenticator) -> Self {
        self.authority = Some(Arc::new(authority));
        self
    }

    /// [Builds](Server::build) the server and [serves](Endpoint::serve_http) it over HTTP.
    ///
    /// # Errors
    /// If the server cannot be built, or the address cannot be bound.
    pub async fn serve_http(self, address: impl ToSocketAddrs) -> Result<()> {
        Ok(self.build()?.serve_http(address).await?)
    }

    /// [Builds](Server::build) the server and [routes](Endpoint::axum) its path to it.
    ///
    /// Streams stay open until the server is stopped. For graceful shutdown, an application builds
    /// the server itself, keeps the [`Endpoint`], and ends with
    /// [`shutdown_on_signals`](Endpoint::shutdown_on_signals) or [`shutdown`](Endpoint::shutdown).
    ///
    /// ```
    /// # fn main() -> wharf::Result<()> {
    /// # use wharf::Server;
    /// let app: axum::Router = Server::new("harbour", "1.0.0").into_axum()?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// If the server cannot be built.
    #[cfg(feature = "axum")]
    pub fn into_axum(self) -> Result<axum::Router, crate::server::BuildError> {
        Ok(self.build()?.axum())
    }
}

impl Endpoint {
    /// Server as a tower service over `http::Request`. It handles every request as one to the
    /// endpoint, regardless of its path; the request's extensions reach handlers as `Extension<T>`.
    #[must_use]
    pub fn http(&self) -> HttpService {
        self.start_tasks();
        self.http.clone()
    }

    /// Axum application that routes only the endpoint's path to the server. Nest it, merge it, and
    /// put layers around it. A nested server with an authenticator needs [its
    /// pages](Endpoint::axum_pages) beside it.
    ///
    /// Connection timeouts are up to the code that serves the application: `axum::serve` has none,
    /// so a public server needs a reverse proxy. Callers are rate-limited by their principal, or by
    /// the [`RemoteAddress`] that a layer put into the request's extensions.
    #[cfg(feature = "axum")]
    pub fn axum(&self) -> axum::Router {
        self.routed(self.http.options().paths())
    }

    /// Axum application that routes only the pages at the root of the origin: the metadata of the authenticator, the
    /// pages of an OAuth proxy, the catalog of server cards. An application that nests
    /// the endpoint merges them there:
    ///
    /// ```
    /// # fn main() -> wharf::Result<()> {
    /// # use wharf::Server;
    /// let endpoint = Server::new("harbour", "1.0.0").build()?;
    /// let app: axum::Router = axum::Router::new()
    ///     .nest("/api", endpoint.axum())
    ///     .merge(endpoint.axum_pages());
    /// # Ok(()) }
    /// ```
    ///
    /// Two servers at one origin would both have the metadata page without a path: [`Http::pages`]
    /// names all pages, to route each explicitly.
    #[cfg(feature = "axum")]
    pub fn axum_pages(&self) -> axum::Router {
        self.routed(self.http.options().pages())
    }

    #[cfg(feature = "axum")]
    fn routed(&self, paths: Vec<&str>) -> axum::Router {
        let route = |app: axum::Router, path: &str| app.route_service(path, self.http());
        paths.into_iter().fold(axum::Router::new(), route)
    }

    /// Serves HTTP at `address` until shut down.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn serve_http(&self, address: impl ToSocketAddrs) -> io::Result<()> {
        self.serve_http_on(Endpoint::listen_http(address).await?).await;
        Ok(())
    }

    /// Binds `address`, for [`serve_http_on`](Endpoint::serve_http_on): the listener has the
    /// assigned port.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn listen_http(address: impl ToSocketAddrs) -> io::Result<TcpListener> {
        tcp::bind(address, Exposure::Anyone).await
    }

    /// Serves HTTP to all clients of `listener`, until shut down.
    pub async fn serve_http_on(&self, listener: TcpListener) {
        http::serve(self.http(), listener).await;
    }
}

/// Adds a rate limit for callers that are not on the loopback.
pub(crate) fn with_remote_rate_limit(
    context: &ServerContext,
    rates: Option<Rates>,
    counts: Option<Arc<dyn RateStore>>,
) -> Arc<ServerContext> {
    let unlimited = context.service.clone();
    let limit = |rates| match counts {
        Some(store) => RateLimit::new(rates).store(store),
        None => RateLimit::new(rates),
    };
    let limited = match rates {
        Some(rates) => layered(unlimited.clone(), limit(rates)),
        None => unlimited.clone(),
    };
    let mut context = context.clone();
    context.service = Arc::new(RemoteRateLimit { unlimited, limited });
    Arc::new(context)
}

struct RemoteRateLimit {
    unlimited: Arc<dyn Service>,
    limited: Arc<dyn Service>,
}

impl Service for RemoteRateLimit {
    fn call(&self, mut request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let address = request.scope.get::<RemoteAddress>().map(|it| it.0.ip().to_canonical());
        match address {
            Some(ip) if ip.is_loopback() => self.unlimited.call(request, outbox),
            Some(ip) => {
                request.scope.insert(RateKey(ip.to_string().into()));
                self.limited.call(request, outbox)
            }
            // Limited by its principal, if it has one.
            None => self.limited.call(request, outbox),
        }
    }

    fn change_version(&self) -> Option<ChangeVersion> {
        self.unlimited.change_version()
    }

    fn observers(&self) -> &Observers {
        self.unlimited.observers()
    }

    fn has_target(&self, request: &Request) -> bool {
        self.unlimited.has_target(request)
    }
}
