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
        connection_slots::{Seats, Sitting},
        descriptor_shortage::Shortage,
    },
};

/// How many clients a listening socket serves at a time, unless told otherwise. For one more, the connection is closed
/// that was idle for longest, of the caller that holds most; if all of them are in use, it is refused.
pub const CONNECTIONS: usize = 1024;

/// What a client is told that finds no place.
const REFUSAL: &[u8] = br#"{"jsonrpc":"2.0","error":{"code":-32000,"message":"The server is full: all connections are in use. Try again later","data":{"retryAfterMs":1000}}}
"#;
/// How many clients are told so at a time, and how long that may take; others are hung up on.
const REFUSALS: usize = 64;
const MOMENT: Duration = Duration::from_secs(1);

/// How long to wait when the system has no more sockets to give.
const BREATH: Duration = Duration::from_millis(100);

/// A listening socket.
pub(crate) trait Accept {
    type Stream: AsyncRead + AsyncWrite + Send + 'static;

    /// The next client, and what is known about it.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, RequestExtensions)>> + Send;
}

/// The error, with what it is about.
pub(crate) fn about(subject: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{subject}: {error}"))
}

/// Serves every client that comes, at most `connections` at a time, until `shutdown` stops and the
/// last of them has had its grace.
pub(crate) async fn serve(
    host: Arc<ServerContext>,
    listener: impl Accept,
    connections: usize,
    shutdown: Shutdown,
) {
    let room = host.limits.room();
    let client = |stream, mut scope: RequestExtensions, seat: Sitting| {
        let (host, shutdown) = (host.clone(), shutdown.clone());
        scope.insert(room.clone());
        scope.insert(seat.seat().clone());
        async move {
            let _seat = seat;
            let (reader, writer) = split(stream);
            serve_lines(host, scope, reader, writer, shutdown).await;
        }
    };
    let admission = Admission { connections, refusal: REFUSAL, shortage: &Shortage::default() };
    let mut clients = welcome(listener, admission, &shutdown, client).await;
    while clients.join_next().await.is_some() {}
}

/// The limits of a listening socket.
pub(crate) struct Admission<'a> {
    /// Connections at a time.
    pub(crate) connections: usize,
    /// The bytes that a refused client is sent.
    pub(crate) refusal: &'static [u8],
    /// Where a lack of file descriptors is noted.
    pub(crate) shortage: &'a Shortage,
}

/// Begins `client` for each that comes, until `shutdown` stops. If there are `connections` already, another is closed
/// for it, or it gets `refusal`. Gives back those that are still there.
pub(crate) async fn welcome<L: Accept, F: Future<Output = ()> + Send + 'static>(
    listener: L,
    admission: Admission<'_>,
    shutdown: &Shutdown,
    client: impl Fn(L::Stream, RequestExtensions, Sitting) -> F,
) -> JoinSet<()> {
    let Admission { connections, refusal, shortage } = admission;
    let seats = Seats::new(connections);
    let refusals = Arc::new(Semaphore::new(REFUSALS));
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
                    tokio::time::sleep(BREATH).await;
                }
                continue;
            }
        };
        if let Some(sitting) = seats.take(Caller::of(&scope)) {
            let seat = sitting.seat().clone();
            seat.ends_with(clients.spawn(client(stream, scope, sitting)));
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
    let told = async {
        stream.write_all(refusal).await?;
        stream.shutdown().await?;
        // A socket that is closed with input unread takes back what the client has not read yet.
        copy(&mut stream, &mut sink()).await
    };
    let _ = timeout(MOMENT, told).await;
}
