//! The requests of one HTTP/2 connection, each a stream of its own.
//!
//! A client of HTTP/1.1 that reads nothing fills its socket, which [`TimedIo`](crate::server::http::connection::io_timeouts::Io) watches. One
//! of HTTP/2 can go on reading the socket and still take nothing of a stream; then nobody polls the
//! stream's body any more, and its call would be held back for ever.

use std::{cell::Cell, future::poll_fn, pin::pin, task::Poll, time::Duration};

use hyper::rt::Executor;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

tokio::task_local! {
    /// How often the body of this stream was polled, and whether the last time gave something.
    static BODY_POLLS: Cell<(u64, bool)>;
}

/// Notes that a body was polled, and whether it gave something to send.
pub(crate) fn record_poll(had_data: bool) {
    let _ = BODY_POLLS.try_with(|polled| polled.set((polled.get().0 + 1, had_data)));
}

/// Whether what is polled right now is a stream of HTTP/2.
pub(crate) fn is_http2() -> bool {
    BODY_POLLS.try_with(|_| ()).is_ok()
}

/// Runs the streams of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Http2Streams {
    open: watch::Sender<usize>,
    patience: Duration,
}

impl Http2Streams {
    /// Ends streams of which nothing is read for as long as `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Http2Streams { open: watch::Sender::new(0), patience }
    }

    /// The same streams, for one who looks at them now and then.
    pub(crate) fn observer(&self) -> Http2StreamsObserver {
        Http2StreamsObserver(self.open.subscribe())
    }

    /// Waits until there has been no stream for as long as `patience`.
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
        let patience = self.patience;
        self.open.send_modify(|open| *open += 1);
        let guard = Http2StreamGuard(self.open.clone());
        tokio::spawn(BODY_POLLS.scope(Cell::default(), async move {
            let _closing = guard;
            run_while_read(stream, patience).await;
        }));
    }
}

/// Looks at the streams of one connection.
#[derive(Debug)]
pub(crate) struct Http2StreamsObserver(watch::Receiver<usize>);

impl Http2StreamsObserver {
    /// Whether there are streams right now.
    pub(crate) fn are_open(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Whether there were any since the last look.
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

/// Runs a stream, and drops it if what its body gave finds no reader for too long.
async fn run_while_read(stream: impl Future<Output = ()>, patience: Duration) {
    let mut stream = pin!(stream);
    let mut stall_timer = pin!(sleep(patience));
    let mut last_count = 0;
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let (times, had_data) = BODY_POLLS.with(Cell::get);
        // Whoever has room for more polls the body until it has nothing to give.
        if !had_data {
            return Poll::Pending;
        }
        if times != last_count {
            last_count = times;
            stall_timer.as_mut().reset(Instant::now() + patience);
        }
        stall_timer.as_mut().poll(cx)
    })
    .await;
}
