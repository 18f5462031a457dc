//! Blocks a thread on a future, without a runtime.

use std::{
    cell::Cell,
    future::Future,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
    thread::{self, Thread},
};

thread_local! {
    /// True while a handler is being polled on this thread.
    static POLLING: Cell<bool> = const { Cell::new(false) };
}

/// Guard that marks this thread as one that must not block, until it is dropped.
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

/// Runs `future` to completion; parks the thread while it is pending.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
    assert!(
        !POLLING.get(),
        "call `Ctx::block_on` only in a plain function on its own thread: use `await` in an async \
         function, and do not register this function as inline"
    );
    let waker = Waker::from(Arc::new(UnparkWaker(thread::current())));
    let (mut future, mut cx) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut cx) {
            Poll::Ready(output) => return output,
            // Another unpark may have woken the thread; then the next poll is pending again.
            Poll::Pending => thread::park(),
        }
    }
}
