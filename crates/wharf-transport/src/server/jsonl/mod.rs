//! One connection of lines: read, poll in place, write when the input is drained.

pub(crate) mod batch;
pub(crate) mod call;
pub(crate) mod client_requests;
pub(crate) mod in_flight;
pub(crate) mod reader;
pub(crate) mod write_queue;
pub(crate) mod writer;

use std::{
    future::Future,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use tokio::{
    io::{self as async_io, AsyncRead, AsyncWrite},
    sync::oneshot,
    task::JoinHandle,
    time::{Instant, timeout, timeout_at},
};
use wharf_model::RequestExtensions;

use crate::{
    ServerContext, Shutdown,
    server::{
        jsonl::{
            call::ConnectionState,
            in_flight::InFlight,
            reader::LineReader,
            write_queue::WriteQueue,
            writer::{LineWriter, SharedWriter},
        },
        limits::{
            connection_slots::{ConnectionActivity, ConnectionSlot},
            message_memory::MessageBudget,
        },
    },
};

/// How long the last bytes may take to be read once the calls are over.
const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Makes JSON one line. A line break becomes what JSON takes for the same: between its parts a tab
/// is white space too, and within a string it is as forbidden.
#[cfg(feature = "http")]
pub(crate) fn replace_line_breaks(json: &mut [u8]) {
    for byte in json {
        if matches!(byte, b'\n' | b'\r') {
            *byte = b'\t';
        }
    }
}

/// Serves one client over a pair of byte streams, one message a line, until the client is gone or
/// `shutdown` stops. What `scope` holds goes along with every request.
///
/// Needs a tokio runtime with time enabled. Dropping the future drops every call under way.
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
    let budget =
        scope.get::<Arc<MessageBudget>>().cloned().unwrap_or_else(|| context.limits.budget());
    let slot = scope.get::<Arc<ConnectionSlot>>().cloned();
    serve_with_budget(budget, slot, context, scope, (reader, writer), shutdown).await;
}

/// Serves one client whose messages share `budget`. A connection that carries nothing else is in use while this is.
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
        // A socket that is closed with input unread takes back what the client has not read yet.
        let _ = async_io::copy(&mut reader, &mut async_io::sink()).await;
    }));
    let mut writing = AbortOnDrop(tokio::spawn(outgoing.run()));
    let all_written = async {
        writing.ended().await;
        let _ = timeout(FINAL_WRITE_TIMEOUT, reading.ended()).await;
    };
    line.supervise(async { drop(end.await) }, all_written, shutdown).await;
}

/// A task that ends with its owner: one that waits for a client that neither reads nor leaves.
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

/// Sets a connection up. Its two halves may run wherever their streams want to be polled.
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
        context,
    });
    let sink = Arc::new(SharedWriter::new(writer));
    let incoming = LineReader::new(shared.clone(), scope, sink.clone());
    (ConnectionSupervisor(shared.clone()), incoming, LineWriter::new(shared, sink))
}

/// Ends a connection in good order, or at once when it is dropped.
pub(crate) struct ConnectionSupervisor(Arc<ConnectionState>);

impl ConnectionSupervisor {
    /// Waits for the end of the connection, then for the calls under way, within their grace, and
    /// until everything is said.
    pub(crate) async fn supervise(
        self,
        reading: impl Future<Output = ()>,
        all_written: impl Future<Output = ()>,
        shutdown: Shutdown,
    ) {
        let ConnectionState { context, output, in_flight, closing, .. } = &*self.0;
        tokio::select! {
            () = reading => {}
            () = shutdown.stopped() => {}
            () = output.broken() => {}
        }
        let deadline = Instant::now() + context.limits.grace;
        closing.stop();
        in_flight.close();
        let drained = async {
            tokio::select! {
                () = in_flight.idle() => {}
                () = output.broken() => {}
            }
        };
        if timeout_at(deadline, drained).await.is_err() {
            // Calls answer as they are dropped. One that does not yield cannot be, and is not waited for.
            in_flight.abort_all_with_reply();
            let _ = timeout_at(deadline + FINAL_WRITE_TIMEOUT / 2, in_flight.idle()).await;
        }
        in_flight.abort_all();
        output.close();
        let _ = timeout_at(deadline + FINAL_WRITE_TIMEOUT, all_written).await;
    }
}

impl Drop for ConnectionSupervisor {
    fn drop(&mut self) {
        self.0.closing.stop();
        self.0.in_flight.abort_all();
        self.0.output.fail();
    }
}
