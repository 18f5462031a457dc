//! Waits for a future on a thread that may block, without a runtime.

use std::{
    cell::Cell,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

thread_local! {
    /// Whether a handler is being polled on this thread.
    static POLLING: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread as one that must not wait, until it is dropped.
pub(crate) struct PollGuard {
    before: bool,
}

impl PollGuard {
    pub(crate) fn begin() -> Self {
        PollGuard { before: POLLING.replace(true) }
    }
}

impl Drop for PollGuard {
    fn drop(&mut self) {
        POLLING.set(self.before);
    }
}

struct UnparkWaker(Thread);

impl Wake for UnparkWaker {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs `future` to its end, with this thread parked while there is nothing to do.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    assert!(
        !POLLING.get(),
        "`Ctx::block_on` is for plain functions on a thread where they may block: `await` in an \
         async one, and do not run this one in place"
    );
    let waker = Waker::from(Arc::new(UnparkWaker(thread::current())));
    let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            // Somebody else may have unparked the thread: then the next poll says so.
            Poll::Pending => thread::park(),
        }
    }
}
