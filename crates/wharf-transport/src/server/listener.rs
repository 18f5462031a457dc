//! Accept loop that all listening sockets share.

use std::{fmt, future::Future, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink, split},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use wharf_model::{Caller, ObservedTransport, RefusalReason, RequestExtensions};

use crate::{
    ServerContext, Shutdown, serve_lines,
    server::limits::{
        connection_slots::{ConnectionSlots, SlotGuard},
        descriptor_shortage::DescriptorShortage,
    },
    server::observed::ObservedPeer,
};

/// Default maximum number of connections of a listening socket. At the limit, the longest idle
/// connection of the caller with the most connections is closed for a new one. If all are in use,
/// the new one is refused.
pub const CONNECTIONS: usize = 1024;

/// Error message for a connection that is refused because of the limit.
const SERVER_FULL_MESSAGE: &[u8] = br#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"The server is full: all connections are in use. Try again later","data":{"retryAfterMs":1000}}}
"#;
/// Maximum number of refusals that are written at a time, and timeout of each. Other connections
/// are closed at once.
const MAX_CONCURRENT_REFUSALS: usize = 64;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// Delay before accepting again after the system ran out of sockets.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listening socket.
pub(crate) trait SocketListener {
    type Stream: AsyncRead + AsyncWrite + Send + 'static;

    /// Returns the address for the log.
    fn address(&self) -> String;

    /// Accepts a connection; returns it with the known facts about the client.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, RequestExtensions)>> + Send;
}

/// Adds the subject to an error message.
pub(crate) fn with_subject(subject: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{subject}: {error}"))
}

/// Logs that a server has begun to listen.
pub(crate) fn log_start(transport: ObservedTransport, address: &str) {
    tracing::info!(transport = transport.name(), address, "listening");
}

/// Serves all connections, at most `connections` at a time, until `shutdown` stops and the graceful
/// shutdown of the last one ends.
pub(crate) async fn serve(
    context: Arc<ServerContext>,
    (listener, transport): (impl SocketListener, ObservedTransport),
    connections: usize,
    shutdown: Shutdown,
) {
    log_start(transport, &listener.address());
    let budget = context.budget();
    let client = |stream, mut scope: RequestExtensions, slot_guard: SlotGuard| {
        let (context, shutdown) = (context.clone(), shutdown.clone());
        scope.insert(budget.clone());
        scope.insert(slot_guard.slot().clone());
        async move {
            let _slot_guard = slot_guard;
            let (reader, writer) = split(stream);
            serve_lines(context, scope, reader, writer, shutdown).await;
        }
    };
    let accept_limits = AcceptLimits {
        connections,
        refusal: SERVER_FULL_MESSAGE,
        shortage: &context.shortage,
        setting: "the number of clients that connect to this socket",
        context: &context,
        transport: None,
    };
    let mut clients = accept_loop(listener, accept_limits, &shutdown, client).await;
    while clients.join_next().await.is_some() {}
}

/// Limits of a listening socket.
pub(crate) struct AcceptLimits<'a> {
    /// Maximum number of connections.
    pub(crate) connections: usize,
    /// Bytes that a refused client receives.
    pub(crate) refusal: &'static [u8],
    /// Records a shortage of file descriptors.
    pub(crate) shortage: &'a DescriptorShortage,
    /// What an operator can lower in a shortage.
    pub(crate) setting: &'static str,
    /// Context whose observers receive refusals.
    pub(crate) context: &'a ServerContext,
    /// Transport over the connections, if it is not that of the listening socket.
    pub(crate) transport: Option<ObservedTransport>,
}

impl AcceptLimits<'_> {
    #[cold]
    fn report(&self, reason: RefusalReason, mut scope: RequestExtensions, detail: &str) {
        if let Some(transport) = self.transport {
            scope.insert(transport);
        }
        ObservedPeer::new(self.context, &scope).refused(reason, detail);
    }
}

/// Spawns `client` for each connection until `shutdown` stops. At the limit, an idle connection is
/// closed for the new one, or the new one receives `refusal`. Returns the tasks of the remaining
/// connections.
pub(crate) async fn accept_loop<L: SocketListener, F: Future<Output = ()> + Send + 'static>(
    listener: L,
    accept_limits: AcceptLimits<'_>,
    shutdown: &Shutdown,
    client: impl Fn(L::Stream, RequestExtensions, SlotGuard) -> F,
) -> JoinSet<()> {
    let AcceptLimits { connections, refusal, shortage, setting, .. } = accept_limits;
    let slots = ConnectionSlots::new(connections);
    let refusals = Arc::new(Semaphore::new(MAX_CONCURRENT_REFUSALS));
    let mut clients = JoinSet::new();
    let mut stopped = std::pin::pin!(shutdown.stopped());
    loop {
        let accepted = tokio::select! {
            () = &mut stopped => return clients,
            Some(_) = clients.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let (stream, scope) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                if shortage.note(&error, setting) {
                    let scope = RequestExtensions::new();
                    accept_limits.report(RefusalReason::NoDescriptors, scope, &error.to_string());
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
                continue;
            }
        };
        if let Some(guard) = slots.take(Caller::of(&scope)) {
            let slot = guard.slot().clone();
            slot.set_task(clients.spawn(client(stream, scope, guard)));
            continue;
        }
        let detail = "all connections are in use";
        accept_limits.report(RefusalReason::TooManyConnections, scope, detail);
        if let Ok(permit) = refusals.clone().try_acquire_owned() {
            clients.spawn(refuse(stream, refusal, permit));
        }
    }
}

/// Sends the refusal and closes the connection.
async fn refuse(
    stream: impl AsyncRead + AsyncWrite,
    refusal: &'static [u8],
    _permit: OwnedSemaphorePermit,
) {
    let mut stream = std::pin::pin!(stream);
    let refusing = async {
        stream.write_all(refusal).await?;
        stream.shutdown().await?;
        // Closing a socket with unread input discards sent bytes that the client has not read yet.
        copy(&mut stream, &mut sink()).await
    };
    let _ = timeout(REFUSAL_TIMEOUT, refusing).await;
}
