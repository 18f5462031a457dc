//! The requests of one HTTP/2 connection, each a stream of its own.
//!
//! A client of HTTP/1.1 that reads nothing fills its socket, which [`Io`](crate::server::http::connection::io_timeouts::Io) watches. One
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
    static POLLED: Cell<(u64, bool)>;
}

/// Notes that a body was polled, and whether it gave something to send.
pub(crate) fn polled(gave: bool) {
    let _ = POLLED.try_with(|polled| polled.set((polled.get().0 + 1, gave)));
}

/// Whether what is polled right now is a stream of HTTP/2.
pub(crate) fn is_one() -> bool {
    POLLED.try_with(|_| ()).is_ok()
}

/// Runs the streams of one connection.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    open: watch::Sender<usize>,
    patience: Duration,
}

impl Streams {
    /// Ends streams of which nothing is read for as long as `patience`.
    pub(crate) fn new(patience: Duration) -> Self {
        Streams { open: watch::Sender::new(0), patience }
    }

    /// The same streams, for one who looks at them now and then.
    pub(crate) fn seen(&self) -> StreamsSeen {
        StreamsSeen(self.open.subscribe())
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

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        let patience = self.patience;
        self.open.send_modify(|open| *open += 1);
        let closing = Closing(self.open.clone());
        tokio::spawn(POLLED.scope(Cell::default(), async move {
            let _closing = closing;
            while_it_is_read(stream, patience).await;
        }));
    }
}

/// Looks at the streams of one connection.
#[derive(Debug)]
pub(crate) struct StreamsSeen(watch::Receiver<usize>);

impl StreamsSeen {
    /// Whether there are streams right now.
    pub(crate) fn are_open(&self) -> bool {
        *self.0.borrow() > 0
    }

    /// Whether there were any since the last look.
    pub(crate) fn were_used(&mut self) -> bool {
        let used = self.0.has_changed().unwrap_or(false);
        self.0.mark_unchanged();
        used
    }
}

struct Closing(watch::Sender<usize>);

impl Drop for Closing {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

/// Runs a stream, and drops it if what its body gave finds no reader for too long.
async fn while_it_is_read(stream: impl Future<Output = ()>, patience: Duration) {
    let mut stream = pin!(stream);
    let mut alarm = pin!(sleep(patience));
    let mut seen = 0;
    poll_fn(|cx| {
        if stream.as_mut().poll(cx).is_ready() {
            return Poll::Ready(());
        }
        let (times, gave) = POLLED.with(Cell::get);
        // Whoever has room for more polls the body until it has nothing to give.
        if !gave {
            return Poll::Pending;
        }
        if times != seen {
            seen = times;
            alarm.as_mut().reset(Instant::now() + patience);
        }
        alarm.as_mut().poll(cx)
    })
    .await;
}
