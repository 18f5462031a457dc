//! One stream connection: its reader task, its writer task and its shutdown.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::{Semaphore, mpsc},
    task::JoinHandle,
    time::{Instant, timeout},
};
use wharf_model::{Error, ErrorKind, FailureOrigin};
use wharf_wire::{ClientCodec, Line};

use crate::Shutdown;
use crate::client::{
    TraceEvent, no_connection,
    pending::{DispatchAction, PendingRequests},
    stream::connector::{ConnectionParts, Connector, MessageSink, MessageSource, PeerGuard},
};

/// Maximum number of lines in a row that are not messages: some servers print other output.
pub(crate) const MAX_INVALID_LINES: u32 = 1000;
/// Maximum number of messages per write.
const MAX_WRITE_BATCH: usize = 64;
/// Timeout for writing the last messages.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// An open connection. Clones share it.
#[derive(Clone)]
pub(crate) struct StreamConnection(Arc<StreamConnectionState>);

struct StreamConnectionState {
    codec: ClientCodec,
    outgoing: mpsc::Sender<Vec<u8>>,
    dead: AtomicBool,
    /// Stops both tasks.
    closing: Shutdown,
    /// Set once everything in flight has failed.
    pending_failed: Shutdown,
    /// Set once the process behind the connection has ended too.
    ended: Shutdown,
}

impl StreamConnection {
    /// Starts the tasks. `on_end` gets the lifetime of the connection, once everything in flight
    /// has failed.
    pub(crate) fn start<D: Connector>(
        pending: Arc<PendingRequests>,
        name: String,
        parts: ConnectionParts<D>,
        codec: ClientCodec,
        on_end: impl FnOnce(Duration) + Send + 'static,
    ) -> StreamConnection {
        let room = pending.options().limits.outgoing.clamp(1, Semaphore::MAX_PERMITS);
        let (outgoing, queue) = mpsc::channel(room);
        let connection = StreamConnection(Arc::new(StreamConnectionState {
            codec,
            outgoing,
            dead: AtomicBool::new(false),
            closing: Shutdown::new(),
            pending_failed: Shutdown::new(),
            ended: Shutdown::new(),
        }));
        let ConnectionParts { source, sink, guard } = parts;
        let writing = write(connection.0.closing.clone(), pending.clone(), sink, queue);
        let writing = tokio::spawn(writing);
        let cleanup = ConnectionCleanup {
            connection: connection.clone(),
            pending,
            error: Error::new(ErrorKind::ConnectionClosed).from_client(FailureOrigin::Interrupted),
            began: Instant::now(),
            on_end: Some(Box::new(on_end)),
            is_closed_here: false,
        };
        tokio::spawn(run_loop(cleanup, name, source, guard, writing));
        connection
    }

    pub(crate) fn codec(&self) -> &ClientCodec {
        &self.0.codec
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.0.dead.load(Ordering::Acquire)
    }

    /// Sends a message, once the queue has room.
    pub(crate) async fn send(&self, message: Vec<u8>) -> Result<(), Error> {
        if self.is_dead() || self.0.outgoing.send(message).await.is_err() {
            return Err(no_connection());
        }
        Ok(())
    }

    /// Sends a message without waiting; drops it if the server does not read.
    pub(crate) fn send_soon(&self, message: Vec<u8>) {
        if let Err(mpsc::error::TrySendError::Full(message)) = self.0.outgoing.try_send(message)
            && let Ok(runtime) = Handle::try_current()
        {
            let outgoing = self.0.outgoing.clone();
            runtime.spawn(async move { timeout(FLUSH_TIMEOUT, outgoing.send(message)).await });
        }
    }

    /// Closes the connection gracefully.
    pub(crate) fn close(&self) {
        self.0.closing.stop();
    }

    /// Completes when everything in flight has failed.
    pub(crate) async fn pending_failed(&self) {
        self.0.pending_failed.stopped().await;
    }

    /// Completes when the process behind the connection has ended too.
    pub(crate) async fn ended(&self) {
        self.0.ended.stopped().await;
    }
}

/// Fails everything in flight when the connection ends, also after a panic.
struct ConnectionCleanup {
    connection: StreamConnection,
    pending: Arc<PendingRequests>,
    error: Error,
    began: Instant,
    on_end: Option<Box<dyn FnOnce(Duration) + Send>>,
    /// True if this side closed the connection.
    is_closed_here: bool,
}

impl ConnectionCleanup {
    fn fail_pending(&mut self) {
        let Some(on_end) = self.on_end.take() else { return };
        let StreamConnectionState { dead, closing, pending_failed, .. } = &*self.connection.0;
        dead.store(true, Ordering::Release);
        closing.stop();
        on_end(self.began.elapsed());
        match self.is_closed_here {
            true => self.pending.upstream.close(),
            false => self.pending.upstream.down(&self.error),
        }
        self.pending.fail_all(&self.error);
        pending_failed.stop();
    }
}

impl Drop for ConnectionCleanup {
    fn drop(&mut self) {
        self.fail_pending();
        self.connection.0.ended.stop();
    }
}

/// Reads until the connection ends, then shuts it down.
async fn run_loop(
    mut cleanup: ConnectionCleanup,
    name: String,
    mut source: impl MessageSource,
    mut guard: impl PeerGuard,
    mut writing: JoinHandle<()>,
) {
    let (connection, pending) = (cleanup.connection.clone(), cleanup.pending.clone());
    let shared = &*connection.0;
    let why = read_until_closed(&connection, &pending, &mut source, &mut writing).await;
    // From here on no call is sent; those sent before fail below.
    shared.dead.store(true, Ordering::Release);
    shared.closing.stop();
    cleanup.is_closed_here = why.is_none();
    if let Some(why) = why {
        let words = guard.exit_reason().await;
        cleanup.error = why.err().unwrap_or_else(|| closed(&name, words));
        pending.options().note(&cleanup.error.message);
    }
    cleanup.fail_pending();
    let ending = async {
        if !writing.is_finished() && timeout(FLUSH_TIMEOUT, &mut writing).await.is_err() {
            writing.abort();
        }
        guard.end().await;
    };
    // The server must be able to write its remaining output while it shuts down.
    let draining = async {
        while let Ok(Some(_)) = source.next().await {}
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = ending => {}
        () = draining => {}
    }
}

/// Reads until the connection ends and returns the reason; `None` if this side closed it.
async fn read_until_closed(
    connection: &StreamConnection,
    pending: &Arc<PendingRequests>,
    source: &mut impl MessageSource,
    writing: &mut JoinHandle<()>,
) -> Option<Result<(), Error>> {
    let mut reading = pin!(read(connection, pending, source));
    tokio::select! {
        why = &mut reading => Some(why),
        () = connection.0.closing.stopped() => None,
        // A server that stopped reading will close its side soon.
        _ = writing => Some(timeout(FLUSH_TIMEOUT, reading).await.unwrap_or(Ok(()))),
    }
}

/// Reads until the server closes the connection; fails if this side must close it.
async fn read(
    connection: &StreamConnection,
    pending: &Arc<PendingRequests>,
    source: &mut impl MessageSource,
) -> Result<(), Error> {
    let mut invalid_lines = 0;
    while let Some(line) = source.next().await? {
        let Line::Message(message) = line else {
            pending.fail_calls(&too_long(pending.options().limits.message));
            continue;
        };
        match pending.receive(message, None).await {
            Ok(actions) => {
                invalid_lines = 0;
                actions.into_iter().for_each(|action| perform(connection, action));
            }
            Err(error) => {
                invalid_lines += 1;
                pending.options().note(format_args!(
                    "skipped a line that is not a JSON-RPC message: {}",
                    error.message
                ));
                if invalid_lines > MAX_INVALID_LINES {
                    return Err(too_many_invalid_lines());
                }
            }
        }
    }
    Ok(())
}

fn perform(connection: &StreamConnection, action: DispatchAction) {
    match action {
        DispatchAction::Send(message) => {
            // Dropped if the server does not read its answers.
            let _ = connection.0.outgoing.try_send(message);
        }
        DispatchAction::Answer(answering) => {
            let connection = connection.clone();
            tokio::spawn(async move {
                if let Some((answer, _open)) = answering.await {
                    let _ = connection.send(answer).await;
                }
            });
        }
    }
}

/// Writes until the connection ends, then the remaining messages.
async fn write(
    closing: Shutdown,
    pending: Arc<PendingRequests>,
    mut sink: impl MessageSink,
    mut queue: mpsc::Receiver<Vec<u8>>,
) {
    loop {
        let mut messages = Vec::new();
        let count = tokio::select! {
            biased;
            count = queue.recv_many(&mut messages, MAX_WRITE_BATCH) => count,
            () = closing.stopped(), if !queue.is_closed() => {
                queue.close();
                continue;
            }
        };
        messages.iter().for_each(|message| pending.options().record(TraceEvent::Sent(message)));
        if count == 0 || sink.send(messages).await.is_err() {
            break;
        }
    }
    queue.close();
    sink.close().await;
}

pub(crate) fn closed(name: &str, words: Option<String>) -> Error {
    let words = words.map_or(String::new(), |words| format!(": {words}"));
    Error::new(ErrorKind::ConnectionClosed)
        .with_message(format!("Connection closed by {name}{words}"))
        .from_client(FailureOrigin::Interrupted)
}

/// Error: the server sent a message of more than `limit` bytes.
pub(crate) fn too_long(limit: usize) -> Error {
    let error = Error::new(ErrorKind::ContentTooLarge).with_message(format!(
        "Content too large: the server sent a message of more than {limit} bytes; ask for less, or \
         raise the limit"
    ));
    error.from_client(FailureOrigin::Protocol)
}

/// Error: the server sent too many lines that are not messages.
pub(crate) fn too_many_invalid_lines() -> Error {
    let error = Error::new(ErrorKind::TransportError).with_message(format!(
        "Transport error: more than {MAX_INVALID_LINES} lines in a row were not messages; a server must print \
         only messages to stdout, and log to stderr"
    ));
    error.from_client(FailureOrigin::Protocol)
}
