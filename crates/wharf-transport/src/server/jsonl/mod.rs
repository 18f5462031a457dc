//! JSON lines connection: reads, polls calls in place, writes when the input is drained.

pub(crate) mod batch;
pub(crate) mod call;
mod drain;
pub(crate) mod in_flight;
pub(crate) mod limits;
pub(crate) mod reader;
pub(crate) mod write_queue;
pub(crate) mod writer;

use std::sync::{Arc, atomic::AtomicBool};

use tokio::{
    io::{self as async_io, AsyncRead, AsyncWrite},
    sync::oneshot,
    task::JoinHandle,
    time::timeout,
};
use wharf_model::RequestExtensions;

use crate::{
    ServerContext, Shutdown,
    server::{
        jsonl::{
            call::ConnectionState,
            drain::{ConnectionSupervisor, FINAL_WRITE_TIMEOUT},
            in_flight::InFlight,
            reader::LineReader,
            write_queue::WriteQueue,
            writer::{LineWriter, SharedWriter},
        },
        limits::{
            connection_slots::{ConnectionActivity, ConnectionSlot},
            message_memory::MessageBudget,
            write_timeout::TimedWriter,
        },
        observed::{ObservedConnection, ObservedPeer},
    },
};

/// Puts JSON on one line by replacing line breaks with tabs. Between tokens both are white space,
/// and inside strings both are invalid.
#[cfg(feature = "http")]
pub(crate) fn replace_line_breaks(json: &mut [u8]) {
    for byte in json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b'\t';
        }
    }
}

/// Serves one client over a pair of byte streams, one message per line, until the client
/// disconnects, does not read for [`LineLimits::write`](crate::LineLimits::write), or `shutdown`
/// stops. Every request carries the values of `scope`.
///
/// Needs a tokio runtime with time enabled. Dropping the future drops all calls in flight.
pub async fn serve_lines<R, W>(
    context: Arc<ServerContext>,
    scope: RequestExtensions,
    reader: R,
    writer: W,
    shutdown: Shutdown,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let peer = ObservedPeer::new(&context, &scope);
    let writer = TimedWriter::new(writer, context.limits.write, peer);
    serve_without_write_timeout(context, scope, reader, writer, shutdown).await;
}

/// As [`serve_lines`], for clients that may stop reading, or whose transport has a write timeout.
pub(crate) async fn serve_without_write_timeout<R, W>(
    context: Arc<ServerContext>,
    scope: RequestExtensions,
    reader: R,
    writer: W,
    shutdown: Shutdown,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let budget = scope.get::<Arc<MessageBudget>>().cloned().unwrap_or_else(|| context.budget());
    let slot = scope.get::<Arc<ConnectionSlot>>().cloned();
    serve_with_budget(budget, slot, context, scope, (reader, writer), shutdown).await;
}

/// Serves one client whose messages share `budget`. The activity of `slot` is that of this
/// connection.
pub(crate) async fn serve_with_budget<R, W>(
    budget: Arc<MessageBudget>,
    slot: Option<Arc<ConnectionSlot>>,
    context: Arc<ServerContext>,
    scope: RequestExtensions,
    (mut reader, writer): (R, W),
    shutdown: Shutdown,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (line, incoming, outgoing) = open(context, scope, writer);
    if let Some(slot) = slot {
        slot.set_activity(ConnectionActivity::Lines(Arc::downgrade(&line.0)));
    }
    let incoming = incoming.with_budget(budget);
    let (ended, end) = oneshot::channel::<()>();
    let mut reading = AbortOnDrop(tokio::spawn(async move {
        incoming.run(&mut reader).await;
        drop(ended);
        // Closing a socket with unread input discards sent bytes that the client has not read yet.
        let _ = async_io::copy(&mut reader, &mut async_io::sink()).await;
    }));
    let mut writing = AbortOnDrop(tokio::spawn(outgoing.run()));
    let all_written = async {
        writing.ended().await;
        let _ = timeout(FINAL_WRITE_TIMEOUT, reading.ended()).await;
    };
    line.supervise(async { drop(end.await) }, all_written, shutdown).await;
}

/// Aborts its task on drop. The task may be waiting for a client that neither reads nor
/// disconnects.
struct AbortOnDrop(JoinHandle<()>);

impl AbortOnDrop {
    async fn ended(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for AbortOnDrop {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Creates a connection. Its two halves may be polled on different threads.
pub(crate) fn open<W: AsyncWrite + Unpin>(
    context: Arc<ServerContext>,
    scope: RequestExtensions,
    writer: W,
) -> (ConnectionSupervisor, LineReader<W>, LineWriter<W>) {
    let shared = Arc::new(ConnectionState {
        output: WriteQueue::new(context.limits.output),
        in_flight: InFlight::default(),
        closing: Shutdown::new(),
        used: AtomicBool::new(false),
        observed: ObservedConnection::start(ObservedPeer::new(&context, &scope)),
        context,
    });
    let sink = Arc::new(SharedWriter::new(writer));
    let incoming = LineReader::new(shared.clone(), scope, sink.clone());
    (ConnectionSupervisor(shared.clone()), incoming, LineWriter::new(shared, sink))
}
