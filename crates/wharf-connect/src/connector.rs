//! Connector: resolves, checks, connects and encrypts, within one deadline.

use std::{fmt, io, net::SocketAddr, sync::Arc, time::Duration};

use socket2::{SockRef, TcpKeepalive};
use tokio::{
    net::TcpStream,
    time::{Instant, timeout_at},
};

use crate::{
    AddressPolicy, ConnectionError, ConnectionErrorKind, HostStream, Origin, ProxySettings,
    Resolve,
    happy_eyeballs::connect_first,
    proxy::{ProxyServer, tunnel},
    resolve::{SystemResolver, addresses},
    stream::StreamLayer,
};
#[cfg(feature = "tls")]
use crate::{
    TlsProblem,
    tls::{TlsIdentity, TlsSettings},
};

/// Default timeout of a connection: name resolution, proxy and TLS handshake together.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Upper limit of the timeout: the clock has an end.
const MAX_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);
/// Interval of TCP keep-alive probes; the connection is dropped after four without an answer.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(30);
/// Addresses that are tried through a proxy, one after the other.
const MAX_PROXIED_ADDRESSES: usize = 4;

/// Connects to hosts. Clones share the loaded certificates.
///
/// By default every address is allowed, the system's root certificates are trusted, and the proxies of the
/// environment are used. Of a name with more than eight addresses, eight are tried; `localhost` is always
/// `127.0.0.1` first, then `::1`.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use std::time::Duration;
/// use wharf_connect::{HostConnector, Origin, ProxySettings};
///
/// let connector = HostConnector::new().proxy(ProxySettings::none()).timeout(Duration::from_secs(3));
/// let stream = connector.connect(&Origin::parse("http://127.0.0.1:8000")?).await?;
/// # let _ = stream;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct HostConnector {
    addresses: AddressPolicy,
    resolver: Arc<dyn Resolve>,
    proxy: ProxySettings,
    /// A proxy may forward requests of plain HTTP instead of a tunnel for them.
    forwards: bool,
    timeout: Duration,
    #[cfg(feature = "tls")]
    tls: TlsSettings,
    /// For proxies with `https`. They are not the origin: the system's certificates are trusted as well.
    #[cfg(feature = "tls")]
    proxy_tls: TlsSettings,
    /// Client certificates (mutual TLS) by the origin that they are for.
    #[cfg(feature = "tls")]
    identities: Vec<(Origin, TlsSettings)>,
}

impl Default for HostConnector {
    fn default() -> Self {
        HostConnector {
            addresses: AddressPolicy::ANY,
            resolver: Arc::new(SystemResolver),
            proxy: ProxySettings::from_env(),
            forwards: false,
            timeout: CONNECT_TIMEOUT,
            #[cfg(feature = "tls")]
            tls: TlsSettings::default(),
            // HTTP/2 has another form of tunnel.
            #[cfg(feature = "tls")]
            proxy_tls: TlsSettings::default().with_protocols(&[b"http/1.1"]),
            #[cfg(feature = "tls")]
            identities: Vec::new(),
        }
    }
}

impl HostConnector {
    /// Creates a connector with the defaults.
    #[must_use]
    pub fn new() -> HostConnector {
        HostConnector::default()
    }

    /// Sets the addresses that are allowed: any by default.
    #[must_use]
    pub fn addresses(self, addresses: AddressPolicy) -> HostConnector {
        HostConnector { addresses, ..self }
    }

    /// Returns the addresses that are allowed.
    pub fn address_policy(&self) -> AddressPolicy {
        self.addresses
    }

    /// Resolves names with `resolver` instead of the system's resolver.
    #[must_use]
    pub fn resolver(self, resolver: impl Resolve) -> HostConnector {
        HostConnector { resolver: Arc::new(resolver), ..self }
    }

    /// Sets the proxy: those of the environment by default.
    #[must_use]
    pub fn proxy(self, proxy: ProxySettings) -> HostConnector {
        HostConnector { proxy, ..self }
    }

    /// Lets a proxy forward requests of plain HTTP ([`HostStream::is_forwarded`]): for HTTP clients. Many
    /// proxies tunnel to port 443 only.
    #[must_use]
    pub fn forwards(self, forwards: bool) -> HostConnector {
        HostConnector { forwards, ..self }
    }

    /// Sets the timeout of a connection, with name resolution, proxy and TLS handshake: 10 seconds by default,
    /// 24 hours at most.
    #[must_use]
    pub fn timeout(self, timeout: Duration) -> HostConnector {
        HostConnector { timeout: timeout.min(MAX_TIMEOUT), ..self }
    }

    /// Returns the value of `Proxy-Authorization` for requests to `origin` that a proxy forwards.
    pub fn forward_authorization(&self, origin: &Origin) -> Option<&str> {
        let proxy = self.proxy.server_for(origin).ok().flatten();
        proxy.filter(|_| self.is_forwarded(origin))?.authorization.as_deref()
    }

    /// Connects to `origin`, with TLS if its scheme requires it.
    ///
    /// # Errors
    /// If an address is not allowed, or there is no connection before the timeout.
    pub async fn connect(&self, origin: &Origin) -> Result<HostStream, ConnectionError> {
        let deadline = Instant::now() + self.timeout;
        let (layer, is_forwarded) = self.open(origin, deadline).await?;
        if !origin.is_encrypted() {
            return Ok(HostStream::new(layer, is_forwarded));
        }
        #[cfg(feature = "tls")]
        {
            // Apart from the rest: a server without TLS may wait for more bytes.
            let late = || {
                let message = format!(
                    "{origin} did not answer the TLS handshake in time; does it speak TLS at this port?"
                );
                ConnectionError::new(ConnectionErrorKind::Tls(TlsProblem::NoReply), message)
            };
            let layer = until(deadline, self.encrypt(origin, layer), late).await?;
            Ok(HostStream::new(layer, false))
        }
        #[cfg(not(feature = "tls"))]
        Err(without_tls())
    }

    /// Connects to the host and port of `origin` without TLS and without a proxy, for protocols other than HTTP.
    ///
    /// # Errors
    /// If an address is not allowed, or there is no connection before the timeout.
    pub async fn connect_tcp(&self, origin: &Origin) -> Result<TcpStream, ConnectionError> {
        self.connect_direct(origin, Instant::now() + self.timeout).await
    }

    async fn connect_direct(
        &self,
        origin: &Origin,
        deadline: Instant,
    ) -> Result<TcpStream, ConnectionError> {
        let connecting = async {
            let addresses = self.checked_addresses(origin).await?;
            connect_tcp(origin, &addresses).await
        };
        until(deadline, connecting, || self.late(origin)).await
    }

    /// Resolves `origin` and checks its addresses, without a connection.
    ///
    /// # Errors
    /// If an address is not allowed, or the name cannot be resolved before the timeout.
    pub async fn check(&self, origin: &Origin) -> Result<(), ConnectionError> {
        let deadline = Instant::now() + self.timeout;
        until(deadline, self.checked_addresses(origin), || self.late(origin)).await.map(drop)
    }

    fn late(&self, origin: &Origin) -> ConnectionError {
        let message = format!("{} did not respond within {:?}", origin.authority(), self.timeout);
        ConnectionError::new(ConnectionErrorKind::TimedOut, message)
    }

    /// Forwarding is for unrestricted addresses only: the proxy would resolve the name again.
    fn is_forwarded(&self, origin: &Origin) -> bool {
        self.forwards && !origin.is_encrypted() && self.addresses.is_unrestricted()
    }

    async fn checked_addresses(&self, origin: &Origin) -> Result<Vec<SocketAddr>, ConnectionError> {
        let found = addresses(&self.resolver, origin).await?;
        self.addresses.check(origin, &found)?;
        Ok(found)
    }

    /// Opens the connection that carries TLS, or the messages; returns whether a proxy forwards them.
    async fn open(
        &self,
        origin: &Origin,
        deadline: Instant,
    ) -> Result<(StreamLayer, bool), ConnectionError> {
        #[cfg(not(feature = "tls"))]
        if origin.is_encrypted() {
            return Err(without_tls());
        }
        let Some(proxy) = self.proxy.server_for(origin)? else {
            let stream = self.connect_direct(origin, deadline).await?;
            return Ok((StreamLayer::Plain(stream), false));
        };
        if self.is_forwarded(origin) {
            return Ok((self.connect_proxy(proxy, deadline).await?, true));
        }
        if self.addresses.is_unrestricted() {
            let stream = self.connect_proxy(proxy, deadline).await?;
            return Ok((tunnel_to(&origin.authority(), stream, proxy, deadline).await?, false));
        }
        // SSRF protection: the proxy gets a checked address and no name, which it would resolve again.
        let resolving = self.checked_addresses(origin);
        let found = until(deadline, resolving, || self.late(origin)).await?;
        let mut problem = None;
        let most = found.len().min(MAX_PROXIED_ADDRESSES);
        for (index, address) in found.iter().take(most).enumerate() {
            let stream = self.connect_proxy(proxy, deadline).await?;
            // Each address has an equal part of the time that is left.
            let now = Instant::now();
            let share = deadline.saturating_duration_since(now) / (most - index) as u32;
            match tunnel_to(&address.to_string(), stream, proxy, now + share).await {
                Ok(stream) => return Ok((stream, false)),
                // The next attempt would fail the same way, and proxies lock users out.
                Err(error) if error.kind() == ConnectionErrorKind::ProxyAuthentication => {
                    return Err(error);
                }
                Err(error) => problem = Some(error),
            }
        }
        Err(problem.unwrap_or_else(|| self.late(origin)))
    }

    /// Connects to a proxy. The user named it, so the address policy does not apply.
    async fn connect_proxy(
        &self,
        proxy: &ProxyServer,
        deadline: Instant,
    ) -> Result<StreamLayer, ConnectionError> {
        let connecting = async {
            let found = addresses(&self.resolver, &proxy.origin).await?;
            let stream = StreamLayer::Plain(connect_tcp(&proxy.origin, &found).await?);
            if !proxy.origin.is_encrypted() {
                return Ok(stream);
            }
            #[cfg(feature = "tls")]
            {
                let stream = self.proxy_tls.encrypt(&proxy.origin, stream).await?;
                Ok(StreamLayer::Encrypted(Box::new(stream)))
            }
            #[cfg(not(feature = "tls"))]
            Err(without_tls())
        };
        let connecting = async { connecting.await.map_err(ConnectionError::of_proxy) };
        until(deadline, connecting, || late_proxy(proxy, "respond")).await
    }
}

#[cfg(feature = "tls")]
impl HostConnector {
    /// Trusts the certificates in `pem` in addition to the system's.
    ///
    /// # Errors
    /// If `pem` contains no certificate, or an invalid one.
    pub fn trust_pem(self, pem: &str) -> Result<HostConnector, ConnectionError> {
        let identities = self.identities.iter();
        let identities = identities.map(|(origin, tls)| Ok((origin.clone(), tls.with_roots(pem)?)));
        let identities = identities.collect::<Result<_, ConnectionError>>()?;
        let (tls, proxy_tls) = (self.tls.with_roots(pem)?, self.proxy_tls.with_roots(pem)?);
        Ok(HostConnector { tls, proxy_tls, identities, ..self })
    }

    /// Trusts only the certificates of [`trust_pem`](HostConnector::trust_pem), and not the system's, which
    /// remain trusted for a proxy with `https`.
    #[must_use]
    pub fn without_system_roots(self) -> HostConnector {
        self.with_tls(TlsSettings::without_system_roots)
    }

    /// Presents a client certificate to `origin`, if it requests one (mutual TLS). No other origin receives it.
    #[must_use]
    pub fn identity(mut self, origin: &Origin, identity: TlsIdentity) -> HostConnector {
        self.identities.retain(|(it, _)| it != origin);
        self.identities.push((origin.clone(), self.tls.with_identity(identity)));
        self
    }

    /// Sets the application protocols to offer (ALPN), the preferred one first: none by default.
    #[must_use]
    pub fn protocols(self, protocols: &[&[u8]]) -> HostConnector {
        self.with_tls(|tls| tls.with_protocols(protocols))
    }

    /// Loads certificates and key now, and not with the first connection.
    ///
    /// # Errors
    /// If they are invalid or do not belong together, or this system has no root certificates.
    pub async fn load(&self) -> Result<(), ConnectionError> {
        for (_, tls) in &self.identities {
            tls.load().await?;
        }
        self.tls.load().await.map(drop)
    }

    fn with_tls(self, change: impl Fn(&TlsSettings) -> TlsSettings) -> HostConnector {
        let identities = self.identities.iter().map(|(origin, tls)| (origin.clone(), change(tls)));
        HostConnector { tls: change(&self.tls), identities: identities.collect(), ..self }
    }

    async fn encrypt(
        &self,
        origin: &Origin,
        stream: StreamLayer,
    ) -> Result<StreamLayer, ConnectionError> {
        let identity = self.identities.iter().find(|(it, _)| it == origin);
        let tls = identity.map_or(&self.tls, |(_, tls)| tls);
        Ok(StreamLayer::Encrypted(Box::new(tls.encrypt(origin, stream).await?)))
    }
}

impl fmt::Debug for HostConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostConnector")
            .field("addresses", &self.addresses)
            .field("proxy", &self.proxy)
            .finish_non_exhaustive()
    }
}

/// Runs a step of a connection until a deadline.
async fn until<T>(
    deadline: Instant,
    step: impl Future<Output = Result<T, ConnectionError>>,
    late: impl FnOnce() -> ConnectionError,
) -> Result<T, ConnectionError> {
    timeout_at(deadline, step).await.unwrap_or_else(|_| Err(late()))
}

/// Opens a tunnel to `authority` through the connection to a proxy.
async fn tunnel_to(
    authority: &str,
    mut stream: StreamLayer,
    proxy: &ProxyServer,
    deadline: Instant,
) -> Result<StreamLayer, ConnectionError> {
    let late = || late_proxy(proxy, &format!("connect to {authority}"));
    until(deadline, tunnel::open(&mut stream, proxy, authority), late).await?;
    Ok(stream)
}

fn late_proxy(proxy: &ProxyServer, step: &str) -> ConnectionError {
    let message = format!("the proxy {} did not {step} in time", proxy.origin);
    ConnectionError::new(ConnectionErrorKind::TimedOut, message)
}

#[cfg(not(feature = "tls"))]
fn without_tls() -> ConnectionError {
    ConnectionError::settings(
        "https needs the feature `tls`, and this program was built without it",
    )
}

async fn connect_tcp(
    origin: &Origin,
    addresses: &[SocketAddr],
) -> Result<TcpStream, ConnectionError> {
    let authority = origin.authority();
    let stream = connect_first(addresses, TcpStream::connect).await.map_err(|error| {
        let problem = match error.kind() {
            io::ErrorKind::ConnectionRefused => {
                format!("nothing listens at {authority} (connection refused)")
            }
            _ => format!("{authority} cannot be reached ({error})"),
        };
        ConnectionError::new(ConnectionErrorKind::Unreachable, problem).because(error)
    })?;
    // Messages are written whole, so Nagle's algorithm would only delay them.
    let _ = stream.set_nodelay(true);
    // A server that vanished would otherwise leave its streams open for ever.
    let probes = TcpKeepalive::new()
        .with_time(KEEPALIVE_INTERVAL)
        .with_interval(KEEPALIVE_INTERVAL)
        .with_retries(3);
    let _ = SockRef::from(&stream).set_tcp_keepalive(&probes);
    Ok(stream)
}
