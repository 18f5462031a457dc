//! Write timeout: a connection whose client does not read is closed.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::AsyncWrite,
    net::TcpStream,
    time::{Sleep, sleep},
};

use crate::server::observed::ObservedPeer;

/// Unsent bytes in the kernel above which a TCP socket takes no more.
#[cfg(any(target_os = "android", target_os = "linux"))]
const MAX_UNSENT_BYTES: u32 = 16 << 10;

/// Limits the unsent bytes that the kernel takes (`TCP_NOTSENT_LOWAT`), so that a client that reads slowly makes
/// progress. Without it, a socket takes more only when a third of its send buffer is free, which can be megabytes.
pub(crate) fn limit_unsent_bytes(stream: &TcpStream) {
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let _ = socket2::SockRef::from(stream).set_tcp_notsent_lowat(MAX_UNSENT_BYTES);
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = stream;
}

/// Send buffer of a Unix socket, which the kernel doubles and counts with its overhead.
#[cfg(any(target_os = "android", target_os = "linux"))]
const UNIX_SEND_BUFFER_BYTES: usize = 16 << 10;

/// Limits the send buffer of a Unix socket (`SO_SNDBUF`), so that a client that reads slowly makes progress: a socket
/// takes more only when three quarters of its send buffer are free.
#[cfg(unix)]
pub(crate) fn limit_send_buffer(stream: &tokio::net::UnixStream) {
    #[cfg(any(target_os = "android", target_os = "linux"))]
    let _ = socket2::SockRef::from(stream).set_send_buffer_size(UNIX_SEND_BUFFER_BYTES);
    #[cfg(not(any(target_os = "android", target_os = "linux")))]
    let _ = stream;
}

/// Timer that runs while a write is pending.
#[derive(Debug)]
pub(crate) struct WriteTimer {
    limit: Duration,
    timer: Option<Pin<Box<Sleep>>>,
}

impl WriteTimer {
    pub(crate) fn new(limit: Duration) -> Self {
        WriteTimer { limit, timer: None }
    }

    /// True while a write is pending.
    #[cfg(feature = "http")]
    pub(crate) fn is_running(&self) -> bool {
        self.timer.is_some()
    }

    /// Returns the result of a write or flush, or fails after the time limit without progress.
    pub(crate) fn check<T>(
        &mut self,
        wrote: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            self.timer = None;
            return wrote;
        }
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep(self.limit)));
        ready!(timer.as_mut().poll(cx));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Writer of a JSON lines connection that fails, and reports it, if the client does not read in time.
pub(crate) struct TimedWriter<W> {
    writer: W,
    timer: WriteTimer,
    peer: ObservedPeer,
}

impl<W> TimedWriter<W> {
    pub(crate) fn new(writer: W, limit: Duration, peer: ObservedPeer) -> Self {
        TimedWriter { writer, timer: WriteTimer::new(limit), peer }
    }

    fn check<T>(
        &mut self,
        wrote: Poll<io::Result<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<T>> {
        let was_pending = wrote.is_pending();
        let wrote = self.timer.check(wrote, cx);
        if was_pending && wrote.is_ready() {
            self.peer.slow_client();
        }
        wrote
    }
}

impl<W: AsyncWrite + Unpin> AsyncWrite for TimedWriter<W> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.writer).poll_write(cx, bytes);
        self.check(wrote, cx)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.writer).poll_flush(cx);
        self.check(flushed, cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.writer).poll_shutdown(cx);
        self.check(closed, cx)
    }
}
