//! Links: the ways from a client to a server, whatever carries the messages.
//!
//! A link finds out which revision the server speaks, moves messages, and finds its way back when a
//! connection breaks. Lines of messages (a child process, a socket, a WebSocket, any pair of
//! streams) share one implementation; what differs is how a connection is opened.

mod backoff;
mod deadline;
mod handshake;
#[cfg(feature = "http")]
mod http;
mod options;
mod pending;
mod revision_cache;
mod stream;
mod subscription;

#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};
use wharf_client::ClientTransport;
use wharf_model::Error;

#[cfg(feature = "http")]
pub use self::http::connect_http;
pub use self::{
    deadline::{Deadline, Pause},
    options::{ClientLimits, ClientTransportOptions, Trace, TraceEvent, UnsolicitedRequestHandler},
};
pub use crate::client::{
    revision_cache::RevisionCache,
    stream::child::{ChildCommand, Environment, Stderr},
};

/// Starts a server and speaks with it over its stdin and stdout.
///
/// # Errors
/// If it cannot be started, ends at once, or does not speak the protocol.
pub async fn connect_child(
    command: ChildCommand,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(command, options).await
}

/// Speaks in lines over TCP with a server at `address`, a host and a port. Nothing is encrypted.
///
/// # Errors
/// If nobody is there, or nobody who speaks the protocol.
pub async fn connect_tcp(
    address: String,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(crate::client::stream::connector::TcpConnector(address), options).await
}

/// Speaks in lines with a server at the Unix socket `path`.
///
/// # Errors
/// If nobody is there, or nobody who speaks the protocol.
#[cfg(unix)]
pub async fn connect_unix(
    path: impl Into<PathBuf>,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(crate::client::stream::connector::UnixConnector(path.into()), options).await
}

/// Speaks in lines over a pair of streams. When they end, so does the link.
///
/// # Errors
/// If nobody at the other end speaks the protocol.
pub async fn connect_stream<R, W>(
    reader: R,
    writer: W,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    stream::connect(crate::client::stream::connector::StreamPair::new(reader, writer), options)
        .await
}

/// Speaks over WebSocket with a server at a `ws://` or `wss://` URL, with `headers` of the caller's
/// own in the handshake.
///
/// # Errors
/// If the URL or a header cannot be used, nobody is there, or nobody who speaks the protocol.
#[cfg(feature = "websocket")]
pub async fn connect_websocket(
    url: &str,
    headers: Vec<(String, String)>,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(
        crate::client::stream::websocket::WebSocketConnector::new(url, &headers)?,
        options,
    )
    .await
}
