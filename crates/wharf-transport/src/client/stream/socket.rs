//! Connects to TCP and Unix sockets.

use std::{fmt, future::Future, io};

use tokio::time::timeout;
use wharf_connect::Origin;
use wharf_model::{Error, ErrorKind, FailureOrigin, excerpt};

use crate::client::{
    ClientTransportOptions,
    stream::{
        connector::{ConnectionParts, Connector},
        json_lines::{LineSink, LineSource},
    },
};

/// JSON lines over TCP, to a host and port.
pub(crate) struct TcpConnector(Origin);

impl TcpConnector {
    /// Parses `address`, a host and a port.
    pub(crate) fn new(address: &str) -> Result<Self, Error> {
        let invalid = |problem: &dyn fmt::Display| {
            let message = format!("{:?} is not an address: {problem}", excerpt(address));
            let error = Error::new(ErrorKind::TransportError).with_message(message);
            error.from_client(FailureOrigin::Target)
        };
        let parts = address.rsplit_once(':');
        let parts = parts.and_then(|(host, port)| Some((host, port.parse().ok()?)));
        let (host, port) = parts.ok_or_else(|| invalid(&"write tcp://HOST:PORT"))?;
        let origin = Origin::new(host, port, false);
        origin.map(TcpConnector).map_err(|error| invalid(&error).with_source(error))
    }
}

impl Connector for TcpConnector {
    type Source = LineSource<tokio::net::tcp::OwnedReadHalf>;
    type Sink = LineSink<tokio::net::tcp::OwnedWriteHalf>;
    type Guard = ();

    fn name(&self) -> String {
        format!("tcp://{}", self.0.authority())
    }

    fn key(&self) -> Option<String> {
        Some(self.name())
    }

    async fn open(&self, options: &ClientTransportOptions) -> Result<ConnectionParts<Self>, Error> {
        let connector = options.connector.clone().timeout(options.handshake);
        let stream = connector.connect_tcp(&self.0).await;
        let stream = stream.map_err(|error| unreachable_because(self.name(), error))?;
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
