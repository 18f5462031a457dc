//! Opens stream connections, and frames messages as lines.

use std::{fmt, future::Future, io};

use bytes::{BufMut, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::coop::consume_budget,
    time::timeout,
};
use wharf_model::{Error, ErrorKind, FailureOrigin};
use wharf_wire::{Line, Lines};

use crate::client::ClientTransportOptions;

/// Bytes per read.
const CHUNK_BYTES: usize = 64 << 10;

/// Opens connections to one server.
pub(crate) trait Connector: Send + Sync + Sized + 'static {
    type Source: MessageSource;
    type Sink: MessageSink;
    type Guard: PeerGuard;

    /// The server's name in errors.
    fn name(&self) -> String;

    /// The server's key in the revision cache; `None` if it cannot be reconnected to.
    fn key(&self) -> Option<String>;

    /// Opens a new connection.
    fn open(
        &self,
        options: &ClientTransportOptions,
    ) -> impl Future<Output = Result<ConnectionParts<Self>, Error>> + Send;

    /// Returns whether another connection can follow the first.
    fn can_reconnect(&self) -> bool {
        true
    }
}

/// The parts of a new connection.
pub(crate) struct ConnectionParts<D: Connector> {
    pub(crate) source: D::Source,
    pub(crate) sink: D::Sink,
    pub(crate) guard: D::Guard,
}

/// Reads messages.
pub(crate) trait MessageSource: Send + 'static {
    /// The next message; `None` at the end. Cancel-safe.
    fn next(&mut self) -> impl Future<Output = Result<Option<Line>, Error>> + Send;
}

/// Writes messages.
pub(crate) trait MessageSink: Send + 'static {
    /// Sends messages, in order.
    fn send(&mut self, messages: Vec<Vec<u8>>) -> impl Future<Output = io::Result<()>> + Send;

    /// Closes the writing side.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// Guard of the process behind a connection.
pub(crate) trait PeerGuard: Send + 'static {
    /// The reason why the connection ended, if it is available soon.
    fn exit_reason(&mut self) -> impl Future<Output = Option<String>> + Send;

    /// Shuts the process down gracefully, after its stdin was closed. Dropping the guard kills it.
    fn end(&mut self) -> impl Future<Output = ()> + Send;
}

/// Sockets have no process to guard.
impl PeerGuard for () {
    async fn exit_reason(&mut self) -> Option<String> {
        None
    }

    async fn end(&mut self) {}
}

/// Reads messages from lines.
pub(crate) struct LineSource<R> {
    reader: R,
    lines: Lines,
    ended: bool,
}

impl<R> LineSource<R> {
    pub(crate) fn new(reader: R, options: &ClientTransportOptions) -> Self {
        LineSource { reader, lines: Lines::new(options.limits.message), ended: false }
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> MessageSource for LineSource<R> {
    async fn next(&mut self) -> Result<Option<Line>, Error> {
        // A server that never pauses must not starve other futures of the task.
        consume_budget().await;
        loop {
            if let Some(line) = self.lines.next() {
                self.release_large_buffer(&line);
                return Ok(Some(line));
            }
            if self.ended {
                return Ok(self.lines.finish());
            }
            let buffer = self.lines.buffer();
            buffer.reserve(CHUNK_BYTES);
            let read = self.reader.read_buf(&mut buffer.limit(CHUNK_BYTES)).await;
            // A read error counts as the end of the stream.
            self.ended = read.unwrap_or(0) == 0;
        }
    }
}

impl<R> LineSource<R> {
    /// Frees the large buffer after a long line.
    fn release_large_buffer(&mut self, line: &Line) {
        if matches!(line, Line::Message(message) if message.len() > CHUNK_BYTES) {
            let buffer = self.lines.buffer();
            *buffer = BytesMut::from(&buffer[..]);
        }
    }
}

/// Writes messages as lines.
pub(crate) struct LineSink<W> {
    writer: W,
    lines: Vec<u8>,
}

impl<W> LineSink<W> {
    pub(crate) fn new(writer: W) -> Self {
        LineSink { writer, lines: Vec::new() }
    }
}

impl<W: AsyncWrite + Send + Unpin + 'static> MessageSink for LineSink<W> {
    async fn send(&mut self, messages: Vec<Vec<u8>>) -> io::Result<()> {
        self.lines.clear();
        for message in messages {
            // JSON of the caller may contain line breaks between tokens, which are replaced by
            // spaces. DEL is kept, because it may be part of a string.
            let flat = message.iter().map(|byte| if *byte < b' ' { b' ' } else { *byte });
            self.lines.extend(flat);
            self.lines.push(b'\n');
        }
        self.writer.write_all(&self.lines).await?;
        self.lines.shrink_to(CHUNK_BYTES);
        self.writer.flush().await
    }

    async fn close(&mut self) {
        let _ = self.writer.shutdown().await;
    }
}

/// JSON lines over TCP, to a host and port.
pub(crate) struct TcpConnector(pub(crate) String);

impl Connector for TcpConnector {
    type Source = LineSource<tokio::net::tcp::OwnedReadHalf>;
    type Sink = LineSink<tokio::net::tcp::OwnedWriteHalf>;
    type Guard = ();

    fn name(&self) -> String {
        format!("tcp://{}", self.0)
    }

    fn key(&self) -> Option<String> {
        Some(self.name())
    }

    async fn open(&self, options: &ClientTransportOptions) -> Result<ConnectionParts<Self>, Error> {
        let stream = connect_within_timeout(self, options, TcpStream::connect(&self.0)).await?;
        // Messages are written whole, so Nagle's algorithm would only delay them.
        let _ = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        let (source, sink) = (LineSource::new(reader, options), LineSink::new(writer));
        Ok(ConnectionParts { source, sink, guard: () })
    }
}

/// JSON lines over a Unix socket.
#[cfg(unix)]
pub(crate) struct UnixConnector(pub(crate) std::path::PathBuf);

#[cfg(unix)]
impl Connector for UnixConnector {
    type Source = LineSource<tokio::net::unix::OwnedReadHalf>;
    type Sink = LineSink<tokio::net::unix::OwnedWriteHalf>;
    type Guard = ();

    fn name(&self) -> String {
        format!("unix:{}", self.0.display())
    }

    fn key(&self) -> Option<String> {
        Some(self.name())
    }

    async fn open(&self, options: &ClientTransportOptions) -> Result<ConnectionParts<Self>, Error> {
        let connecting = tokio::net::UnixStream::connect(&self.0);
        let (reader, writer) =
            connect_within_timeout(self, options, connecting).await?.into_split();
        let (source, sink) = (LineSource::new(reader, options), LineSink::new(writer));
        Ok(ConnectionParts { source, sink, guard: () })
    }
}

/// Connects within the handshake timeout, or fails with advice.
pub(super) async fn connect_within_timeout<T>(
    connector: &impl Connector,
    options: &ClientTransportOptions,
    connecting: impl Future<Output = io::Result<T>>,
) -> Result<T, Error> {
    match timeout(options.handshake, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(unreachable_because(connector.name(), error)),
        Err(_) => {
            let problem = format!("no response within {} s", options.handshake.as_secs());
            Err(unreachable(connector.name(), problem))
        }
    }
}

/// Error: cannot connect to `name`, because of `problem`.
pub(crate) fn unreachable(name: impl fmt::Display, problem: impl fmt::Display) -> Error {
    let error = Error::new(ErrorKind::TransportError).with_message(format!(
        "Cannot connect to {name}: {problem}; check the address, and that the server is running"
    ));
    error.from_client(FailureOrigin::NotSent)
}

/// Error: cannot connect to `name`; `error` is the source.
pub(crate) fn unreachable_because(
    name: impl fmt::Display,
    error: impl std::error::Error + Send + Sync + 'static,
) -> Error {
    unreachable(name, &error).with_source(error)
}
