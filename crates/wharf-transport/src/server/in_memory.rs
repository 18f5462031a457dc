//! A connection within one process, for tests and for embedding.

use std::sync::Arc;

use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf, duplex, split},
    task::JoinHandle,
};
use wharf_model::RequestExtensions;

use crate::{ServerContext, Shutdown, serve_lines};

/// How much either side may write before the other has read.
const BUFFER_BYTES: usize = 64 << 10;

/// The client's end of a connection within one process.
pub type ClientEnd = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

/// Serves a client within this process: what it gets to read from and to write to, and the task
/// that serves it.
pub fn connect(
    context: Arc<ServerContext>,
    scope: RequestExtensions,
    shutdown: Shutdown,
) -> (ClientEnd, JoinHandle<()>) {
    let (client, server) = duplex(BUFFER_BYTES);
    let (reader, writer) = split(server);
    let serving = tokio::spawn(serve_lines(context, scope, reader, writer, shutdown));
    (split(client), serving)
}
