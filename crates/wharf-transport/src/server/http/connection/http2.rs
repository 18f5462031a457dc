//! Serves an HTTP/2 connection: runs its requests, each as a stream, and drops streams that the client does not
//! read.
//!
//! An HTTP/1.1 client that does not read fills its socket, which
//! [`TimedIo`](crate::server::http::connection::head_and_write_timeouts::TimedIo) detects. An HTTP/2 client can read the
//! socket and still withhold flow control credit for one stream. Its body is then no longer polled, and its
//! call would wait forever.

use std::{cell::Cell, future::poll_fn, pin::pin, sync::Arc, task::Poll, time::Duration};

use bytes::Bytes;
use hyper::{rt::Executor, server::conn::http2, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, sleep, timeout},
};
use wharf_model::{NetworkProtocolVersion, RequestExtensions};

use crate::server::http::{
    HttpLimits,
    connection::{
        RequestOrigin,
        drain::drive,
        handle_request,
        head_and_write_timeouts::{IoTimeouts, TimedIo},
        http1::Http1State,
        report_end,
    },
    service::HttpEndpoint,
};
use crate::server::{
    limits::connection_slots::{ConnectionActivity, SlotGuard},
    observed::{ObservedPeer, client_of},
};

/// Connection preface of HTTP/2.
pub(super) const HTTP2_PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Interval of HTTP/2 PING frames on a silent connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// Largest number of bytes that an HTTP/2 stream buffers for its peer.
const MAX_SEND_BUFFER_BYTES: usize = 64 << 10;

tokio::task_local! {
    /// Number of polls of this stream's body, and whether the last one returned data.
    static BODY_POLLS: Cell<(u64, bool)>;
}

/// Records a poll of a body, and whether it returned data.
pub(crate) fn record_poll(had_data: bool) {
    let _ = BODY_POLLS.try_with(|polled| polled.set((polled.get().0 + 1, had_data)));
}

/// Returns true if the current task runs an HTTP/2 stream.
pub(crate) fn is_http2() -> bool {
    BODY_POLLS.try_with(|_| ()).is_ok()
}

/// Executor of the streams of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Http2Streams {
    open: watch::Sender<usize>,
    patience: Duration,
    peer: Arc<ObservedPeer>,
}

impl Http2Streams {
    /// Creates an executor that drops streams whose data is not read within `patience`.
    pub(crate) fn new(patience: Duration, peer: Arc<ObservedPeer>) -> Self {
        Http2Streams { open: watch::Sender::new(0), patience, peer }
    }

    /// Returns an observer of these streams.
    pub(crate) fn observer(&self) -> Http2StreamsObserver {
        Http2StreamsObserver(self.open.subscribe())
    }

    /// Waits until no stream has been open for `patience`.
    pub(crate) async fn idle(&self, patience: Duration) {
        let mut open = self.open.subscribe();
        while open.wait_for(|open| *open == 0).await.is_ok() {
            if timeout(patience, open.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Http2Streams {
    fn execute(&self, stream: F) {
        let (patience, peer) = (self.patience, self.peer.clone());
        self.open.send_modify(|open| *open += 1);
        let guard = Http2StreamGuard(self.open.clone());
        tokio::spawn(BODY_POLLS.scope(Cell::default(), async move {
            let _closing = guard;
            if run_while_read(stream, patience).await.is_err() {
                peer.slow_client();
            }
        }));
    }
}

/// Observer of the streams of one connection.
#[derive(Debug)]
pub(crate) struct Http2StreamsObserver(watch::Receiver<usize>);

impl Http2StreamsObserver {
    /// Returns true if a stream is open.
    pub(crate) fn are_open(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Returns true if a stream was opened or closed since the last call.
    pub(crate) fn take_used(&mut self) -> bool {
        let used = self.0.has_changed().unwrap_or(false);
        self.0.mark_unchanged();
        used
    }
}

struct Http2StreamGuard(watch::Sender<usize>);

impl Drop for Http2StreamGuard {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// The data of a body was not taken in time.
struct BodyStalled;

/// Runs a stream. Drops it if the data of its body is not taken within `patience`.
async fn run_while_read(
    stream: impl Future<Output = ()>,
    patience: Duration,
) -> Result<(), BodyStalled> {
    let mut stream = pin!(stream);
    let mut stall_timer = pin!(sleep(patience));
    let mut last_count = 0;
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Ok(()));
        }
        let (times, had_data) = BODY_POLLS.with(Cell::get);
        // A connection with flow control credit polls the body until it has no data.
        if !had_data {
            return Poll::Pending;
        }
        if times != last_count {
            last_count = times;
            stall_timer.as_mut().reset(Instant::now() + patience);
        }
        stall_timer.as_mut().poll(cx).map(|()| Err(BodyStalled))
    })
    .await
}

/// Serves the requests of an HTTP/2 connection.
pub(super) async fn serve_http2<S>(
    endpoint: &Arc<HttpEndpoint>,
    stream: S,
    prefix: Bytes,
    mut scope: RequestExtensions,
    slot_guard: SlotGuard,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let limits = endpoint.context.http_limits;
    let (slot, state) = (slot_guard.slot().clone(), Http1State::default());
    scope.insert(slot.clone());
    scope.insert(NetworkProtocolVersion("2"));
    let observed = Arc::new(ObservedPeer::new(&endpoint.context, &scope));
    let peer = client_of(&scope);
    let streams = Http2Streams::new(limits.write, observed.clone());
    slot.set_activity(ConnectionActivity::Http2(streams.observer()));
    let scope = scope.shared();
    // `Http2Streams` closes idle HTTP/2 connections, so there is no timeout for the next head.
    let timeouts = IoTimeouts { head: None, write: limits.write };
    let io = TokioIo::new(TimedIo::new(stream, prefix, timeouts, slot_guard));
    // The parser drops fragments, so a target with a fragment is served as the path alone.
    let handle_request = service_fn(|request| {
        let origin = RequestOrigin { peer, well_formed: true };
        handle_request(endpoint.clone(), request, scope.clone(), state.begin_response(), origin)
    });
    let connection = http2_builder(&limits, &streams).serve_connection(io, handle_request);
    let idle = |period| streams.idle(period);
    let drained = streams.idle(Duration::ZERO);
    let ended = drive(endpoint, connection, |it| it.graceful_shutdown(), idle, drained).await;
    report_end(&observed, &slot, ended);
}

fn http2_builder(limits: &HttpLimits, streams: &Http2Streams) -> http2::Builder<Http2Streams> {
    let mut builder = http2::Builder::new(streams.clone());
    builder
        .timer(TokioTimer::new())
        .max_concurrent_streams(u32::try_from(limits.streams).ok())
        .max_header_list_size(u32::try_from(limits.headers).unwrap_or(u32::MAX))
        .max_send_buf_size(MAX_SEND_BUFFER_BYTES)
        .keep_alive_interval(HTTP2_PING_INTERVAL)
        .keep_alive_timeout(limits.write);
    builder
}
