//! What listening sockets of any kind have in common.

use std::{fmt, future::Future, io, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, split},
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};
use wharf_model::Scope;

use crate::{Host, Shutdown, serve_lines, shortage::Shortage};

/// How many clients a listening socket serves at a time, unless told otherwise. More of them wait.
pub const CONNECTIONS: usize = 1024;

/// How long to wait when the system has no more sockets to give.
const BREATH: Duration = Duration::from_millis(100);

/// A listening socket.
pub(crate) trait Accept {
    type Stream: AsyncRead + AsyncWrite + Send + 'static;

    /// The next client, and what is known about it.
    fn accept(&self) -> impl Future<Output = io::Result<(Self::Stream, Scope)>> + Send;
}

/// The error, with what it is about.
pub(crate) fn about(subject: impl fmt::Display) -> impl FnOnce(io::Error) -> io::Error {
    move |error| io::Error::new(error.kind(), format!("{subject}: {error}"))
}

/// Serves every client that comes, at most `connections` at a time, until `shutdown` stops and the
/// last of them has had its grace.
pub(crate) async fn serve(
    host: Arc<Host>,
    listener: impl Accept,
    connections: usize,
    shutdown: Shutdown,
) {
    let client = |stream, scope, seat| {
        let (host, shutdown) = (host.clone(), shutdown.clone());
        async move {
            let _seat = seat;
            let (reader, writer) = split(stream);
            serve_lines(host, scope, reader, writer, shutdown).await;
        }
    };
    let shortage = Shortage::default();
    let mut clients = welcome(listener, connections, &shutdown, &shortage, client).await;
    while clients.join_next().await.is_some() {}
}

/// Begins `client` for each that comes, at most `connections` at a time, until `shutdown` stops.
/// Gives back those that are still there.
pub(crate) async fn welcome<L: Accept, F: Future<Output = ()> + Send + 'static>(
    listener: L,
    connections: usize,
    shutdown: &Shutdown,
    shortage: &Shortage,
    client: impl Fn(L::Stream, Scope, OwnedSemaphorePermit) -> F,
) -> JoinSet<()> {
    let seats = Arc::new(Semaphore::new(connections));
    let mut clients = JoinSet::new();
    let mut stopped = std::pin::pin!(shutdown.stopped());
    loop {
        let accepted = async {
            let seat = seats.clone().acquire_owned().await;
            (seat, listener.accept().await)
        };
        let (seat, accepted) = tokio::select! {
            () = &mut stopped => return clients,
            Some(_) = clients.join_next() => continue,
            accepted = accepted => accepted,
        };
        match (seat, accepted) {
            (Ok(seat), Ok((stream, scope))) => {
                clients.spawn(client(stream, scope, seat));
            }
            (_, Err(error)) => {
                if shortage.note(&error, "the number of connections (`HttpLimits::connections`)") {
                    tokio::time::sleep(BREATH).await;
                }
            }
            (Err(_), Ok(_)) => {}
        }
    }
}
