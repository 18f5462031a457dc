//! Interface of the kinds of stream connections: how one is opened, read, written and guarded.

use std::{future::Future, io};

use wharf_model::Error;
use wharf_wire::Line;

use crate::client::ClientTransportOptions;

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

    /// Returns whether opening a connection starts a process.
    fn is_process(&self) -> bool {
        false
    }

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
