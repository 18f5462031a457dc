//! Location of a server.

use std::{fmt, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use wharf_client::ClientTransport;
use wharf_transport::client::{ChildCommand, StreamConnector};

#[cfg(feature = "server")]
use crate::Endpoint;
use crate::client::config::Entry;

/// Location of a server, or the way to connect to it.
///
/// ```
/// use tokio::net::TcpStream;
/// use wharf::client::{ChildCommand, StreamConnector, Target};
///
/// let remote: Target = "https://example.com/mcp".into();
/// let child: Target = ChildCommand::new("my-server").args(["--verbose"]).into();
/// let (ours, _theirs) = tokio::io::duplex(1024);
/// let streams: Target = tokio::io::split(ours).into();
/// let tunnel: Target = StreamConnector::new(async || {
///     Ok(TcpStream::connect("localhost:9000").await?.into_split())
/// })
/// .into();
/// # let _ = (remote, child, streams, tunnel);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Target {
    /// URL: `http`, `https`, `ws`, `wss`, `tcp://HOST:PORT` or `unix:PATH`.
    Url(String),
    /// Program to start, which communicates over its stdin and stdout.
    Command(ChildCommand),
    /// Server in this process.
    #[cfg(feature = "server")]
    Server(Box<Endpoint>),
    /// Entry of a configuration file.
    Entry(Box<Entry>),
    /// Byte streams that the application opens, with JSON lines. A pair of a reader and a writer
    /// is used for one connection only.
    Streams(StreamConnector),
    /// Transport of the application. It is connected already, so the builder's options for
    /// connecting do not apply: identity, protocol version, headers, limits, trace.
    Transport(Arc<dyn ClientTransport>),
}

impl From<&str> for Target {
    fn from(url: &str) -> Self {
        Target::Url(url.into())
    }
}

impl From<String> for Target {
    fn from(url: String) -> Self {
        Target::Url(url)
    }
}

impl From<ChildCommand> for Target {
    fn from(command: ChildCommand) -> Self {
        Target::Command(command)
    }
}

#[cfg(feature = "server")]
impl From<Endpoint> for Target {
    fn from(server: Endpoint) -> Self {
        Target::Server(Box::new(server))
    }
}

#[cfg(feature = "server")]
impl From<&Endpoint> for Target {
    fn from(server: &Endpoint) -> Self {
        server.clone().into()
    }
}

impl From<Entry> for Target {
    fn from(entry: Entry) -> Self {
        Target::Entry(Box::new(entry))
    }
}

impl From<StreamConnector> for Target {
    fn from(connector: StreamConnector) -> Self {
        Target::Streams(connector)
    }
}

impl<R, W> From<(R, W)> for Target
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    fn from(pair: (R, W)) -> Self {
        Target::Streams(pair.into())
    }
}

impl<T: ClientTransport> From<Arc<T>> for Target {
    fn from(transport: Arc<T>) -> Self {
        Target::Transport(transport)
    }
}

impl From<Arc<dyn ClientTransport>> for Target {
    fn from(transport: Arc<dyn ClientTransport>) -> Self {
        Target::Transport(transport)
    }
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Target({self})")
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Url(url) => f.write_str(url),
            Target::Command(command) => write!(f, "{command}"),
            #[cfg(feature = "server")]
            Target::Server(_) => f.write_str("a server in this process"),
            Target::Entry(entry) => f.write_str(&entry.name),
            Target::Streams(connector) => write!(f, "{connector}"),
            Target::Transport(transport) => f.write_str(&transport.about().info.name),
        }
    }
}
