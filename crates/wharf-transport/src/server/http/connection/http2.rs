//! Runs the requests of one HTTP/2 connection, each as a stream, and drops streams that the client does not
//! read.
//!
//! An HTTP/1.1 client that does not read fills its socket, which
//! [`TimedIo`](crate::server::http::connection::head_and_write_timeouts::TimedIo) detects. An HTTP/2 client can read the
//! socket and still withhold flow control credit for one stream. Its body is then no longer polled, and its
//! call would wait forever.

use std::{cell::Cell, future::poll_fn, pin::pin, task::Poll, time::Duration};

use hyper::rt::Executor;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

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
}

impl Http2Streams {
    /// Creates an executor that drops streams whose data is not read within `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Http2Streams { open: watch::Sender::new(0), patience }
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
        let patience = self.patience;
        self.open.send_modify(|open| *open += 1);
        let guard = Http2StreamGuard(self.open.clone());
        tokio::spawn(BODY_POLLS.scope(Cell::default(), async move {
            let _closing = guard;
            run_while_read(stream, patience).await;
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

/// Runs a stream. Drops it if the data of its body is not taken within `patience`.
async fn run_while_read(stream: impl Future<Output = ()>, patience: Duration) {
    let mut stream = pin!(stream);
    let mut stall_timer = pin!(sleep(patience));
    let mut last_count = 0;
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
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
        stall_timer.as_mut().poll(cx)
    })
    .await;
}
