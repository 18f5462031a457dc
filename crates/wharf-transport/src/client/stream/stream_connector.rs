//! [`StreamConnector`]: byte streams that the application opens itself.

use std::{fmt, future::Future, io, pin::Pin, sync::Arc};

use tokio::io::{AsyncRead, AsyncWrite};
use wharf_model::{BoxFuture, Error, ErrorKind, FailureOrigin, Lock};

use super::{
    connector::{ConnectionParts, Connector},
    json_lines::{LineSink, LineSource},
    socket::connect_within_timeout,
};
use crate::client::ClientTransportOptions;

/// Connects to a server over byte streams that the application opens, with JSON lines.
///
/// The function is called for each connection: a connection that breaks is opened again, with a
/// backoff, and each attempt is limited by the handshake timeout. A pair of streams converts to a
/// connector as well, but cannot be opened again.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use tokio::net::TcpStream;
/// use wharf::client::StreamConnector;
///
/// let tunnel = StreamConnector::new(async || {
///     let mut stream = TcpStream::connect("localhost:9000").await?;
///     // Authenticate here, or wrap the stream in TLS.
///     stream.set_nodelay(true)?;
///     Ok(stream.into_split())
/// })
/// .name("tunnel to localhost:9000");
/// assert_eq!(tunnel.to_string(), "tunnel to localhost:9000");
/// ```
#[derive(Clone)]
pub struct StreamConnector {
    source: Arc<StreamSource>,
    name: Option<Arc<str>>,
}

type Reader = Pin<Box<dyn AsyncRead + Send>>;
type Writer = Pin<Box<dyn AsyncWrite + Send>>;

type OpenFn = dyn Fn() -> BoxFuture<io::Result<(Reader, Writer)>> + Send + Sync;

enum StreamSource {
    /// Opens a pair of streams for each connection.
    Function(Box<OpenFn>),
    /// One pair of streams; `None` after the first connection.
    Pair(Lock<Option<(Reader, Writer)>>),
}

impl StreamConnector {
    /// Opens each connection with `open`, which returns a reader and a writer.
    #[must_use]
    pub fn new<F, Fut, R, W>(open: F) -> Self
    where
        F: Fn() -> Fut + Send + Sync + 'static,
        Fut: Future<Output = io::Result<(R, W)>> + Send + 'static,
        R: AsyncRead + Send + 'static,
        W: AsyncWrite + Send + 'static,
    {
        let open = move || -> BoxFuture<io::Result<(Reader, Writer)>> {
            let opening = open();
            Box::pin(async move { opening.await.map(boxed) })
        };
        let source = Arc::new(StreamSource::Function(Box::new(open)));
        StreamConnector { source, name: None }
    }

    /// Sets the name of the server: errors mention it, and its protocol version is cached by it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into().into());
        self
    }
}

fn boxed<R, W>((reader, writer): (R, W)) -> (Reader, Writer)
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    (Box::pin(reader), Box::pin(writer))
}

impl<R, W> From<(R, W)> for StreamConnector
where
    R: AsyncRead + Send + 'static,
    W: AsyncWrite + Send + 'static,
{
    fn from(pair: (R, W)) -> Self {
        let source = Arc::new(StreamSource::Pair(Lock::new(Some(boxed(pair)))));
        StreamConnector { source, name: None }
    }
}

impl Connector for StreamConnector {
    type Source = LineSource<Reader>;
    type Sink = LineSink<Writer>;
    type Guard = ();

    fn name(&self) -> String {
        self.to_string()
    }

    fn key(&self) -> Option<String> {
        self.name.as_ref().filter(|_| self.can_reconnect()).map(|name| format!("streams:{name}"))
    }

    async fn open(&self, options: &ClientTransportOptions) -> Result<ConnectionParts<Self>, Error> {
        let (reader, writer) = match &*self.source {
            StreamSource::Function(open) => connect_within_timeout(self, options, open()).await?,
            StreamSource::Pair(pair) => {
                let pair = pair.lock().take();
                pair.ok_or_else(used_pair)?
            }
        };
        let (source, sink) = (LineSource::new(reader, options), LineSink::new(writer));
        Ok(ConnectionParts { source, sink, guard: () })
    }

    fn can_reconnect(&self) -> bool {
        matches!(*self.source, StreamSource::Function(_))
    }
}

fn used_pair() -> Error {
    let error = Error::new(ErrorKind::ConnectionClosed).with_message(
        "Connection closed: a pair of streams cannot be reopened; create a new client, or use a \
         `StreamConnector`",
    );
    // Another attempt would find the same pair.
    error.from_client(FailureOrigin::Usage)
}

/// The name in errors.
impl fmt::Display for StreamConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or("the server"))
    }
}

impl fmt::Debug for StreamConnector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StreamConnector").field("name", &self.name).finish_non_exhaustive()
    }
}
