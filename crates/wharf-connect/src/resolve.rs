//! Name resolution.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use tokio::net::lookup_host;
use wharf_model::BoxFuture;

use crate::{ConnectionError, ConnectionErrorKind, Origin};

/// Resolves host names.
///
/// ```
/// use std::{io, net::SocketAddr};
/// use wharf_connect::Resolve;
/// use wharf_model::BoxFuture;
///
/// /// Resolves every name to one address.
/// struct Fixed(std::net::IpAddr);
///
/// impl Resolve for Fixed {
///     fn resolve(&self, _host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
///         let address = SocketAddr::new(self.0, port);
///         Box::pin(async move { Ok(vec![address]) })
///     }
/// }
/// # let _ = Fixed([127, 0, 0, 1].into()).resolve("a", 1);
/// ```
pub trait Resolve: Send + Sync + 'static {
    /// Returns the addresses of `host`, with `port`.
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>>;
}

/// The system's resolver.
pub(crate) struct SystemResolver;

impl Resolve for SystemResolver {
    fn resolve(&self, host: &str, port: u16) -> BoxFuture<io::Result<Vec<SocketAddr>>> {
        let host = host.to_owned();
        Box::pin(async move { Ok(lookup_host((host, port)).await?.collect()) })
    }
}

/// Returns the addresses of the origin's host. Only names are resolved, and `localhost` is not one: its
/// addresses are fixed (RFC 6761).
pub(crate) async fn addresses(
    resolver: &Arc<dyn Resolve>,
    origin: &Origin,
) -> Result<Vec<SocketAddr>, ConnectionError> {
    let port = origin.port();
    if let Some(address) = origin.address() {
        return Ok(vec![SocketAddr::new(address, port)]);
    }
    if origin.is_loopback() {
        let both = [Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        return Ok(both.map(|it| SocketAddr::new(it, port)).to_vec());
    }
    let host = origin.host();
    let fail = |why: &dyn std::fmt::Display| {
        ConnectionError::new(
            ConnectionErrorKind::Resolve,
            format!("cannot resolve host {host:?}: {why}"),
        )
    };
    let found = resolver.resolve(&host, port).await.map_err(|error| fail(&error).because(error))?;
    if found.is_empty() { Err(fail(&"the name has no address")) } else { Ok(found) }
}
