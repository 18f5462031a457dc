//! JSON lines over TCP.

use std::{io, net::SocketAddr, sync::Arc};

use tokio::net::{TcpListener, TcpStream, ToSocketAddrs, lookup_host};
use wharf_model::{ObservedTransport, RemoteAddress, RequestExtensions};

use crate::{
    ServerContext, Shutdown,
    server::{
        limits::write_timeout::limit_unsent_bytes,
        listener,
        listener::{SocketListener, with_subject},
    },
};

pub use crate::server::listener::CONNECTIONS;

/// Reachability of a listening socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Exposure {
    /// Only programs on this machine.
    #[default]
    Loopback,
    /// All hosts that can reach the address, without authentication or encryption.
    Anyone,
}

/// Listens at `address`; with [`Exposure::Loopback`] only if it is a loopback address.
pub async fn bind(address: impl ToSocketAddrs, reach: Exposure) -> io::Result<TcpListener> {
    let addresses: Vec<SocketAddr> = lookup_host(address).await?.collect();
    let remote = addresses.iter().find(|address| !address.ip().is_loopback());
    if let (Exposure::Loopback, Some(remote)) = (reach, remote) {
        let refusal = format!(
            "{remote} is not a loopback address: listen at 127.0.0.1 or [::1], or serve a \
             listener of your own"
        );
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, refusal));
    }
    let shown = addresses.iter().map(SocketAddr::to_string).collect::<Vec<_>>().join(", ");
    TcpListener::bind(&*addresses).await.map_err(with_subject(shown))
}

/// Serves all connections, at most `connections` at a time (see [`CONNECTIONS`]), until `shutdown`
/// stops.
pub async fn serve(
    context: Arc<ServerContext>,
    listener: TcpListener,
    connections: usize,
    shutdown: Shutdown,
) {
    let listener = (listener, ObservedTransport::Tcp);
    listener::serve(context, listener, connections, shutdown).await;
}

impl SocketListener for TcpListener {
    type Stream = TcpStream;

    fn address(&self) -> String {
        self.local_addr().map(|address| address.to_string()).unwrap_or_default()
    }

    async fn accept(&self) -> io::Result<(TcpStream, RequestExtensions)> {
        let (stream, address) = TcpListener::accept(self).await?;
        // Messages are written whole, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        limit_unsent_bytes(&stream);
        let mut scope = RequestExtensions::new();
        scope.insert(RemoteAddress(address));
        scope.insert(ObservedTransport::Tcp);
        Ok((stream, scope))
    }
}
