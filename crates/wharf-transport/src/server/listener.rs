//! What listening sockets of any kind have in common.

use std::{fmt, future::Future, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, sink, split},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
    time::timeout,
};
use wharf_model::{Caller, RequestExtensions};

use crate::{
    ServerContext, Shutdown, serve_lines,
    server::limits::{
        connection_slots::{ConnectionSlots, SlotGuard},
        descriptor_shortage::DescriptorShortage,
    },
};

/// How many clients a listening socket serves at a time, unless told otherwise. For one more, the connection is closed
/// that was idle for longest, of the caller that holds most; if all of them are in use, it is refused.
pub const CONNECTIONS: usize = 1024;

/// What a client is told that finds no place.
const SERVER_FULL_MESSAGE: &[u8] = br#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"The server is full: all connections are in use. Try again later","data":{"retryAfterMs":1000}}}
"#;
/// How many clients are told so at a time, and how long that may take; others are hung up on.
const MAX_CONCURRENT_REFUSALS: usize = 64;
const REFUSAL_TIMEOUT: Duration = Duration::from_secs(1);

/// How long to wait when the system has no more sockets to give.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(100);

/// A listening socket.
pub(crate) trait SocketListener {
    type Stream: AsyncRead + AsyncWrite + Send + 'static;

    /// The next client, and what is known about it.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, RequestExtensions)>> + Send;
}

/// The error, with what it is about.
pub(crate) fn with_subject(subject: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{subject}: {error}"))
}

/// Serves every client that comes, at most `connections` at a time, until `shutdown` stops and the
/// last of them has had its grace.
pub(crate) async fn serve(
    context: Arc<ServerContext>,
    listener: impl SocketListener,
    connections: usize,
    shutdown: Shutdown,
) {
    let budget = context.limits.budget();
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
        shortage: &DescriptorShortage::default(),
    };
    let mut clients = accept_loop(listener, accept_limits, &shutdown, client).await;
    while clients.join_next().await.is_some() {}
}

/// The limits of a listening socket.
pub(crate) struct AcceptLimits<'a> {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// The bytes that a refused client is sent.
    pub(crate) refusal: &'static [u8],
    /// Where a lack of file descriptors is noted.
    pub(crate) shortage: &'a DescriptorShortage,
}

/// Begins `client` for each that comes, until `shutdown` stops. If there are `connections` already, another is closed
/// for it, or it gets `refusal`. Gives back those that are still there.
pub(crate) async fn accept_loop<L: SocketListener, F: Future<Output = ()> + Send + 'static>(
    listener: L,
    accept_limits: AcceptLimits<'_>,
    shutdown: &Shutdown,
    client: impl Fn(L::Stream, RequestExtensions, SlotGuard) -> F,
) -> JoinSet<()> {
    let AcceptLimits { connections, refusal, shortage } = accept_limits;
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
                if shortage.note(&error, "the number of connections (`HttpLimits::connections`)") {
                    tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
                }
                continue;
            }
        };
        if let Some(guard) = slots.take(Caller::of(&scope)) {
            let slot = guard.slot().clone();
            slot.set_task(clients.spawn(client(stream, scope, guard)));
        } else if let Ok(permit) = refusals.clone().try_acquire_owned() {
            clients.spawn(refuse(stream, refusal, permit));
        }
    }
}

/// Tells a client that there is no place for it.
async fn refuse(
    stream: impl AsyncRead + AsyncWrite,
    refusal: &'static [u8],
    _permit: OwnedSemaphorePermit,
) {
    let mut stream = std::pin::pin!(stream);
    let refusing = async {
        stream.write_all(refusal).await?;
        stream.shutdown().await?;
        // A socket that is closed with input unread takes back what the client has not read yet.
        copy(&mut stream, &mut sink()).await
    };
    let _ = timeout(REFUSAL_TIMEOUT, refusing).await;
}
