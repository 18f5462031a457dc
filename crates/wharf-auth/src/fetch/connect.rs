//! Connections, to addresses that were looked at first.

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
    AddressClass, FetchError, reach_of,
    target_url::{Place, Who},
    tls::Trust,
};

/// How many addresses of a name are tried.
const TRIED: usize = 4;
/// How long one of them may take, unless it is the last.
const ATTEMPT: Duration = Duration::from_millis(2500);

/// Looks up names.
pub trait Resolve: Send + Sync + 'static {
    /// The addresses of `host`, with `port`.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>>;
}

/// As the system does it.
struct System;

impl Resolve for System {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}

/// Opens connections.
#[derive(Clone)]
pub(super) struct Dialer {
    pub(super) resolver: Arc<dyn Resolve>,
    trust: Trust,
    /// Who gets to see a certificate of ours: origins.
    known: Vec<(String, Trust)>,
    /// Whether this machine is reached at all: where a URL names it, if `private` is not said.
    pub(super) loopback: bool,
    /// Whether private addresses are reached.
    pub(super) private: bool,
}

impl Default for Dialer {
    fn default() -> Self {
        let (resolver, trust) = (Arc::new(System), Trust::default());
        Dialer { resolver, trust, known: Vec::new(), loopback: true, private: false }
    }
}

impl fmt::Debug for Dialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialer")
            .field("loopback", &self.loopback)
            .field("private", &self.private)
            .finish_non_exhaustive()
    }
}

impl Dialer {
    /// Trusts the certificates in `pem`, wherever they are shown.
    pub(super) fn trust_too(&mut self, pem: &str) -> Result<(), FetchError> {
        self.trust = self.trust.and_roots(pem)?;
        for (_, trust) in &mut self.known {
            *trust = trust.and_roots(pem)?;
        }
        Ok(())
    }

    /// Shows a certificate to `origin`.
    pub(super) fn identify(
        &mut self,
        origin: String,
        pem: &str,
        key: &str,
    ) -> Result<(), FetchError> {
        let trust = self.trust.and_identity(pem, key)?;
        self.known.retain(|(known, _)| *known != origin);
        self.known.push((origin, trust));
        Ok(())
    }

    pub(super) async fn dial(&self, place: &Place) -> Result<Stream, FetchError> {
        let addresses = self.addresses(place).await?;
        let stream = first_of(place, &addresses).await?;
        let _ = stream.set_nodelay(true);
        if !place.encrypted {
            return Ok(Box::new(stream));
        }
        let origin = place.origin();
        let known = self.known.iter().find(|(known, _)| *known == origin);
        let trust = known.map_or(&self.trust, |(_, trust)| trust);
        match trust.encrypt(place.name(), stream).await {
            Ok(stream) => Ok(Box::new(stream)),
            Err(error) => {
                Err(FetchError::Unreachable(format!("{place} cannot be trusted ({error})")))
            }
        }
    }

    /// The addresses that `place` has, if all of them may be reached.
    pub(super) async fn addresses(&self, place: &Place) -> Result<Vec<SocketAddr>, FetchError> {
        let addresses = match &place.host {
            Who::Localhost => [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()]
                .map(|it| SocketAddr::new(it, place.port))
                .to_vec(),
            Who::Address(address) => vec![SocketAddr::new(*address, place.port)],
            Who::Name(name) => {
                let found = self.resolver.resolve(name, place.port).await;
                found.map_err(|error| {
                    FetchError::Unreachable(format!("There is no host {name:?} ({error})"))
                })?
            }
        };
        // One that may not be reached is enough: honest names have no such company.
        match addresses.iter().find(|it| !self.may_reach(&place.host, it)) {
            Some(address) => Err(forbidden(place, address)),
            None => Ok(addresses),
        }
    }

    fn may_reach(&self, host: &Who, address: &SocketAddr) -> bool {
        match reach_of(address.ip()) {
            AddressClass::Public => true,
            AddressClass::Loopback => self.loopback && (self.private || host.is_this_machine()),
            AddressClass::Private => self.private,
            AddressClass::Never => false,
        }
    }
}

fn forbidden(place: &Place, address: &SocketAddr) -> FetchError {
    let what = match reach_of(address.ip()) {
        AddressClass::Loopback => "this machine",
        AddressClass::Private => "a private network",
        _ => "an address that no server has",
    };
    FetchError::Forbidden(format!(
        "{place} is not asked: it leads to {what} ({}); only allow that if you know why",
        address.ip()
    ))
}

/// The first address that answers. A name may have some that nobody can reach.
async fn first_of(place: &Place, addresses: &[SocketAddr]) -> Result<TcpStream, FetchError> {
    let mut why = String::from("the name has no address");
    for (at, address) in addresses.iter().take(TRIED).enumerate() {
        let is_last = at + 1 == addresses.len().min(TRIED);
        let limit = if is_last { Duration::from_secs(3600) } else { ATTEMPT };
        match timeout(limit, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => why = error.to_string(),
            Err(_) => why = "it does not answer".into(),
        }
    }
    Err(FetchError::Unreachable(format!("{place} cannot be reached: {why}")))
}

/// A connection, encrypted or not.
pub(super) type Stream = Box<dyn Connection>;

pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}
