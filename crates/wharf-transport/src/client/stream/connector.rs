//! How connections are opened, and what carries their messages.

use std::{fmt, future::Future, io};

use bytes::{BufMut, BytesMut};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    sync::Mutex,
    task::coop::consume_budget,
    time::timeout,
};
use wharf_model::{Error, ErrorKind};
use wharf_wire::{Line, Lines};

use crate::client::ClientTransportOptions;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 << 10;

/// Opens connections to one server.
pub(crate) trait Connector: Send + Sync + Sized + 'static {
    type Source: MessageSource;
    type Sink: MessageSink;
    type Guard: PeerGuard;

    /// What people are told that the server is.
    fn name(&self) -> String;

    /// What the server is remembered by, if it can be met again.
    fn key(&self) -> Option<String>;

    /// Opens a fresh connection.
    fn open(
        &self,
        options: &ClientTransportOptions,
    ) -> impl Future<Output = Result<ConnectionParts<Self>, Error>> + Send;

    /// Whether there can be another connection after the first.
    fn can_reconnect(&self) -> bool {
        true
    }
}

/// The ends of a fresh connection.
pub(crate) struct ConnectionParts<D: Connector> {
    pub(crate) source: D::Source,
    pub(crate) sink: D::Sink,
    pub(crate) guard: D::Guard,
}

/// Where messages come from.
pub(crate) trait MessageSource: Send + 'static {
    /// The next message; none at the end. Dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Option<Line>, Error>> + Send;
}

/// Where messages go.
pub(crate) trait MessageSink: Send + 'static {
    /// Sends messages, in order.
    fn send(&mut self, messages: Vec<Vec<u8>>) -> impl Future<Output = io::Result<()>> + Send;

    /// Says that nothing more will come.
    fn close(&mut self) -> impl Future<Output = ()> + Send;
}

/// What lives as long as a connection does.
pub(crate) trait PeerGuard: Send + 'static {
    /// Why the connection ended, if that can be known soon.
    fn exit_reason(&mut self) -> impl Future<Output = Option<String>> + Send;

    /// Ends what is behind the connection, in good order, after it was told that nothing more will
    /// come. Dropping the keeper ends it at once.
    fn end(&mut self) -> impl Future<Output = ()> + Send;
}

/// Nothing is behind a connection but the connection.
impl PeerGuard for () {
    async fn exit_reason(&mut self) -> Option<String> {
        None
    }

    async fn end(&mut self) {}
}

/// Messages in lines.
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
        // A server that never pauses must not keep the task from anything else.
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
            // A server that is gone without a word is no different from one that closed its end.
            self.ended = read.unwrap_or(0) == 0;
        }
    }
}

impl<R> LineSource<R> {
    /// What follows a long line must not keep its buffer.
    fn release_large_buffer(&mut self, line: &Line) {
        if matches!(line, Line::Message(message) if message.len() > CHUNK_BYTES) {
            let buffer = self.lines.buffer();
            *buffer = BytesMut::from(&buffer[..]);
        }
    }
}

/// Messages into lines.
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
            // A caller's own JSON may be laid out over lines; between its tokens a blank will do.
            // Not DEL, which may stand in a text as it is.
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

/// One pair of streams, used once.
pub(crate) struct StreamPair<R, W>(Mutex<Option<(R, W)>>);

impl<R, W> StreamPair<R, W> {
    pub(crate) fn new(reader: R, writer: W) -> Self {
        StreamPair(Mutex::new(Some((reader, writer))))
    }
}

impl<R, W> Connector for StreamPair<R, W>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Source = LineSource<R>;
    type Sink = LineSink<W>;
    type Guard = ();

    fn name(&self) -> String {
        "the server".into()
    }

    fn key(&self) -> Option<String> {
        None
    }

    async fn open(&self, options: &ClientTransportOptions) -> Result<ConnectionParts<Self>, Error> {
        let Some((reader, writer)) = self.0.lock().await.take() else {
            return Err(Error::new(ErrorKind::ConnectionClosed).with_message(
                "Connection closed: a pair of streams cannot be opened again; connect anew",
            ));
        };
        let (source, sink) = (LineSource::new(reader, options), LineSink::new(writer));
        Ok(ConnectionParts { source, sink, guard: () })
    }

    fn can_reconnect(&self) -> bool {
        false
    }
}

/// Lines over TCP, to a host and port.
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
        // Messages are written whole, so waiting for more to send only delays them.
        let _ = stream.set_nodelay(true);
        let (reader, writer) = stream.into_split();
        let (source, sink) = (LineSource::new(reader, options), LineSink::new(writer));
        Ok(ConnectionParts { source, sink, guard: () })
    }
}

/// Lines over a Unix socket.
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

/// Connects within the time for a handshake, or says what to look at.
async fn connect_within_timeout<T>(
    connector: &impl Connector,
    options: &ClientTransportOptions,
    connecting: impl Future<Output = io::Result<T>>,
) -> Result<T, Error> {
    match timeout(options.handshake, connecting).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(error)) => Err(unreachable(connector.name(), error)),
        Err(_) => {
            let problem = format!("nobody answered within {} s", options.handshake.as_secs());
            Err(unreachable(connector.name(), problem))
        }
    }
}

/// There is no connection to `name`, because of `problem`.
pub(crate) fn unreachable(name: impl fmt::Display, problem: impl fmt::Display) -> Error {
    Error::new(ErrorKind::TransportError).with_message(format!(
        "Cannot connect to {name}: {problem}; check the address, and that the server is running"
    ))
}
