//! Client transports: connections from a client to a server.
//!
//! A transport negotiates the revision, exchanges messages and reconnects when a connection breaks.
//! Stream transports (a child process, a socket, a WebSocket, any pair of streams) share one
//! implementation; they differ in how a connection is opened.

mod connect_deadline;
mod handshake;
#[cfg(feature = "http")]
mod http;
mod limits;
mod options;
mod pending;
mod reconnect_backoff;
mod revision_cache;
mod stream;
mod subscription;
mod trace;
mod unsolicited_requests;
mod upstream_state;

#[cfg(unix)]
use std::path::PathBuf;
use std::sync::Arc;

use wharf_client::ClientTransport;
#[cfg(feature = "http")]
use wharf_connect::{ConnectionError, ConnectionErrorKind};
use wharf_model::{Error, ErrorKind, FailureOrigin};

#[cfg(feature = "http")]
pub use self::http::connect_http;
pub use self::{
    connect_deadline::{Deadline, DeadlinePause},
    limits::ClientLimits,
    options::ClientTransportOptions,
    trace::{Trace, TraceEvent},
    unsolicited_requests::UnsolicitedRequestHandler,
};
pub use crate::client::{
    revision_cache::RevisionCache,
    stream::{
        child::{ChildCommand, Environment, Stderr, kill_children},
        stream_connector::StreamConnector,
    },
};

/// Starts a server as a child process and connects to its stdin and stdout.
///
/// # Errors
/// If it cannot be started, exits immediately, or is not an MCP server.
pub async fn connect_child(
    command: ChildCommand,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(command, options).await
}

/// Connects over TCP to `address`, a host and a port, with JSON lines. Nothing is encrypted. Addresses are resolved,
/// checked and tried by [`ClientTransportOptions::connector`], without its proxy.
///
/// # Errors
/// If the address is invalid, not allowed, cannot be reached, or is not an MCP server.
pub async fn connect_tcp(
    address: String,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(crate::client::stream::socket::TcpConnector::new(&address)?, options).await
}

/// Connects to the Unix socket `path`, with JSON lines.
///
/// # Errors
/// If the socket cannot be reached, or is not an MCP server.
#[cfg(unix)]
pub async fn connect_unix(
    path: impl Into<PathBuf>,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(crate::client::stream::socket::UnixConnector(path.into()), options).await
}

/// Connects over byte streams, with JSON lines: those of a [`StreamConnector`], or a pair of a
/// reader and a writer, which cannot be opened again.
///
/// ```no_run
/// # async fn example(options: wharf_transport::client::ClientTransportOptions) -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::net::TcpStream;
/// use wharf_transport::client::connect_stream;
///
/// let stream = TcpStream::connect("localhost:9000").await?;
/// let transport = connect_stream(stream.into_split(), options).await?;
/// println!("{}", transport.about().info.name);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If a connection cannot be opened, or the peer is not an MCP server.
pub async fn connect_stream(
    streams: impl Into<StreamConnector>,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    stream::connect(streams.into(), options).await
}

/// Connects over WebSocket to a `ws://` or `wss://` URL, with additional `headers` in the
/// handshake.
///
/// # Errors
/// If the URL or a header is invalid, the server cannot be reached, or is not an MCP server.
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

/// Error of a client that its caller closed.
fn closed_error() -> Error {
    Error::new(ErrorKind::ConnectionClosed)
        .with_message("Connection closed: this client was closed; create a new one")
        .from_client(FailureOrigin::Usage)
}

/// Error of a connection that was not made. Where the user has to change something, the request is not repeated.
#[cfg(feature = "http")]
fn not_connected(problem: &ConnectionError, message: String) -> Error {
    let (kind, origin) = match problem.kind() {
        ConnectionErrorKind::Settings
        | ConnectionErrorKind::Forbidden
        | ConnectionErrorKind::ProxyAuthentication => {
            (ErrorKind::InvalidParams, FailureOrigin::Target)
        }
        _ => (ErrorKind::TransportError, FailureOrigin::NotSent),
    };
    let source = Arc::new(problem.clone());
    Error::new(kind).with_message(message).from_client_because(origin, source)
}

/// Error of a request without a connection.
fn no_connection() -> Error {
    Error::new(ErrorKind::ConnectionClosed).from_client(FailureOrigin::NotSent)
}

/// Error of a request for which no connection was opened, because the runtime ended.
fn opening_failed() -> Error {
    Error::new(ErrorKind::InternalError).from_client(FailureOrigin::NotSent)
}
