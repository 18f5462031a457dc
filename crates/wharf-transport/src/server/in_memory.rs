//! In-process connection, for tests and for embedding.

use std::sync::Arc;

use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf, duplex, split},
    task::JoinHandle,
};
use wharf_model::{ObservedTransport, RequestExtensions};

use crate::{ServerContext, Shutdown, server::jsonl::serve_without_write_timeout};

/// Maximum number of unread bytes in each direction.
const BUFFER_BYTES: usize = 64 << 10;

/// The client's end of an in-process connection.
pub type ClientEnd = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// Serves a client in this process; returns the client's reader and writer, and the task that
/// serves it.
pub fn connect(
    context: Arc<ServerContext>,
    mut scope: RequestExtensions,
    shutdown: Shutdown,
) -> (ClientEnd, JoinHandle<()>) {
    scope.insert(ObservedTransport::InMemory);
    let (client, server) = duplex(BUFFER_BYTES);
    let (reader, writer) = split(server);
    let serving =
        tokio::spawn(serve_without_write_timeout(context, scope, reader, writer, shutdown));
    (split(client), serving)
}
