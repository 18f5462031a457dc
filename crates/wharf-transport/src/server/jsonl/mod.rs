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
            call::Shared,
            in_flight::Flight,
            reader::Incoming,
            write_queue::Output,
            writer::{Outgoing, Sink},
        },
        limits::{
            connection_slots::{Seat, Spoken},
            message_memory::Room,
        },
    },
};

/// How long the last bytes may take to be read once the calls are over.
const FAREWELL: Duration = Duration::from_secs(1);

/// Makes JSON one line. A line break becomes what JSON takes for the same: between its parts a tab
/// is white space too, and within a string it is as forbidden.
#[cfg(feature = "http")]
pub(crate) fn unbreak(json: &mut [u8]) {
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
    host: Arc<ServerContext>,
    scope: RequestExtensions,
    reader: R,
    writer: W,
    shutdown: Shutdown,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let room = scope.get::<Arc<Room>>().cloned().unwrap_or_else(|| host.limits.room());
    let seat = scope.get::<Arc<Seat>>().cloned();
    serve_in(room, seat, host, scope, (reader, writer), shutdown).await;
}

/// Serves one client whose messages share `room`. A connection that carries nothing else is in use while this is.
pub(crate) async fn serve_in<R, W>(
    room: Arc<Room>,
    seat: Option<Arc<Seat>>,
    host: Arc<ServerContext>,
    scope: RequestExtensions,
    (mut reader, writer): (R, W),
    shutdown: Shutdown,
) where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let (line, incoming, outgoing) = open(host, scope, writer);
    if let Some(seat) = seat {
        seat.speaks(Spoken::Lines(Arc::downgrade(&line.0)));
    }
    let incoming = incoming.bounded(room);
    let (ended, end) = oneshot::channel::<()>();
    let mut reading = Owned(tokio::spawn(async move {
        incoming.run(&mut reader).await;
        drop(ended);
        // A socket that is closed with input unread takes back what the client has not read yet.
        let _ = async_io::copy(&mut reader, &mut async_io::sink()).await;
    }));
    let mut writing = Owned(tokio::spawn(outgoing.run()));
    let said = async {
        writing.ended().await;
        let _ = timeout(FAREWELL, reading.ended()).await;
    };
    line.supervise(async { drop(end.await) }, said, shutdown).await;
}

/// A task that ends with its owner: one that waits for a client that neither reads nor leaves.
struct Owned(JoinHandle<()>);

impl Owned {
    async fn ended(&mut self) {
        let _ = (&mut self.0).await;
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Sets a connection up. Its two halves may run wherever their streams want to be polled.
pub(crate) fn open<W: AsyncWrite + Unpin>(
    host: Arc<ServerContext>,
    scope: RequestExtensions,
    writer: W,
) -> (Supervisor, Incoming<W>, Outgoing<W>) {
    let shared = Arc::new(Shared {
        output: Output::new(host.limits.output),
        flight: Flight::default(),
        closing: Shutdown::new(),
        used: AtomicBool::new(false),
        host,
    });
    let sink = Arc::new(Sink::new(writer));
    let incoming = Incoming::new(shared.clone(), scope, sink.clone());
    (Supervisor(shared.clone()), incoming, Outgoing::new(shared, sink))
}

/// Ends a connection in good order, or at once when it is dropped.
pub(crate) struct Supervisor(Arc<Shared>);

impl Supervisor {
    /// Waits for the end of the connection, then for the calls under way, within their grace, and
    /// until everything is said.
    pub(crate) async fn supervise(
        self,
        reading: impl Future<Output = ()>,
        said: impl Future<Output = ()>,
        shutdown: Shutdown,
    ) {
        let Shared { host, output, flight, closing, .. } = &*self.0;
        tokio::select! {
            () = reading => {}
            () = shutdown.stopped() => {}
            () = output.broken() => {}
        }
        let deadline = Instant::now() + host.limits.grace;
        closing.stop();
        flight.close();
        let drained = async {
            tokio::select! {
                () = flight.idle() => {}
                () = output.broken() => {}
            }
        };
        if timeout_at(deadline, drained).await.is_err() {
            // Calls answer as they are dropped. One that does not yield cannot be, and is not waited for.
            flight.cut_all();
            let _ = timeout_at(deadline + FAREWELL / 2, flight.idle()).await;
        }
        flight.abort_all();
        output.close();
        let _ = timeout_at(deadline + FAREWELL, said).await;
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.0.closing.stop();
        self.0.flight.abort_all();
        self.0.output.fail();
    }
}
