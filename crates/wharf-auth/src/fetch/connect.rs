//! Connections to addresses that passed the SSRF check.

use std::{
    fmt, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpStream, lookup_host},
    time::timeout,
};
use wharf_model::BoxFuture;

use crate::fetch::{
    FetchError,
    ssrf_check::forbidden,
    target_url::{TargetHost, TargetUrl},
    tls::TlsSettings,
};

/// Addresses of a host name that are tried.
const MAX_ADDRESSES: usize = 4;
/// Time limit for one address, except the last.
const ATTEMPT_TIMEOUT: Duration = Duration::from_millis(2500);

/// Resolves host names.
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of `host`, with `port`.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}

/// Opens connections.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) resolver: Arc<dyn Resolve>,
    tls: TlsSettings,
    /// Client certificates (mutual TLS) by the origin that they are for.
    client_identities: Vec<(String, TlsSettings)>,
    /// Allows loopback addresses: where the URL names them literally, unless `private` is set as well.
    pub(super) loopback: bool,
    /// Allows private addresses.
    pub(super) private: bool,
}

impl Default for Connector {
    fn default() -> Self {
        let (resolver, tls) = (Arc::new(SystemResolver), TlsSettings::default());
        Connector { resolver, tls, client_identities: Vec::new(), loopback: true, private: false }
    }
}

impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connector")
            .field("loopback", &self.loopback)
            .field("private", &self.private)
            .finish_non_exhaustive()
    }
}

impl Connector {
    /// Trusts the certificates in `pem`, for all origins.
    pub(super) fn add_root_certificates(&mut self, pem: &str) -> Result<(), FetchError> {
        self.tls = self.tls.with_roots(pem)?;
        for (_, tls) in &mut self.client_identities {
            *tls = tls.with_roots(pem)?;
        }
        Ok(())
    }

    /// Presents a client certificate to `origin`.
    pub(super) fn add_client_certificate(
        &mut self,
        origin: String,
        pem: &str,
        key: &str,
    ) -> Result<(), FetchError> {
        let tls = self.tls.with_identity(pem, key)?;
        self.client_identities.retain(|(it, _)| *it != origin);
        self.client_identities.push((origin, tls));
        Ok(())
    }

    pub(super) async fn connect(&self, target: &TargetUrl) -> Result<BoxedStream, FetchError> {
        let addresses = self.addresses(target).await?;
        let stream = connect_first(target, &addresses).await?;
        let _ = stream.set_nodelay(true);
        if !target.encrypted {
            return Ok(Box::new(stream));
        }
        let origin = target.origin();
        let identity = self.client_identities.iter().find(|(it, _)| *it == origin);
        let tls = identity.map_or(&self.tls, |(_, tls)| tls);
        match tls.connect(target.name(), stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => {
                Err(FetchError::Unreachable(format!("TLS handshake with {target} failed: {error}")))
            }
        }
    }

    /// Resolves the addresses of `target`; fails unless all of them are allowed.
    pub(super) async fn addresses(
        &self,
        target: &TargetUrl,
    ) -> Result<Vec<SocketAddr>, FetchError> {
        let addresses = match &target.host {
            TargetHost::Localhost => [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                .map(|it| SocketAddr::new(it, target.port))
                .to_vec(),
            TargetHost::Address(address) => vec![SocketAddr::new(*address, target.port)],
            TargetHost::Name(name) => {
                let found = self.resolver.resolve(name, target.port).await;
                found.map_err(|error| {
                    FetchError::Unreachable(format!("cannot resolve host {name:?}: {error}"))
                })?
            }
        };
        // One forbidden address rejects the whole name: genuine names do not mix public and private
        // addresses.
        match addresses.iter().find(|it| !self.is_allowed(&target.host, it)) {
            Some(address) => Err(forbidden(target, address)),
            None => Ok(addresses),
        }
    }
}

/// Connects to the first address that responds. A name may have addresses that are down.
async fn connect_first(
    target: &TargetUrl,
    addresses: &[SocketAddr],
) -> Result<TcpStream, FetchError> {
    let mut why = String::from("the name has no address");
    for (at, address) in addresses.iter().take(MAX_ADDRESSES).enumerate() {
        let is_last = at + 1 == addresses.len().min(MAX_ADDRESSES);
        let limit = if is_last { Duration::from_secs(3600) } else { ATTEMPT_TIMEOUT };
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = "the connection timed out".into(),
        }
    }
    Err(FetchError::Unreachable(format!("cannot connect to {target}: {why}")))
}

/// A connection, with or without TLS.
pub(super) type BoxedStream = Box<dyn AsyncStream>;

pub(super) trait AsyncStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> AsyncStream for T {}
