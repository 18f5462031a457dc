//! Waiting for news, and futures that run by themselves.

use std::{
    future::{Future, poll_fn},
    sync::{Mutex, PoisonError},
    task::{Context, Poll, Waker},
    thread,
    time::Instant,
};

use wharf_model::Timer;

use crate::handler::block_on;

/// Rings for one who waits; a ring that nobody waited for is not lost.
#[derive(Default)]
pub(crate) struct WakeSignal(Mutex<SignalState>);

#[derive(Default)]
struct SignalState {
    notified: bool,
    waker: Option<Waker>,
}

impl WakeSignal {
    pub(crate) fn notify(&self) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        state.notified = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Whether it has rung since the last time somebody asked.
    pub(crate) fn poll_notified(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut state.notified) {
            return Poll::Ready(());
        }
        let old = state.waker.replace(cx.waker().clone());
        // Dropping a waker may run anybody's code.
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Completes when it rings, or at `until`.
    pub(crate) async fn wait(&self, timer: &dyn Timer, until: Option<Instant>) {
        let mut alarm = until.map(|until| timer.sleep_until(until));
        poll_fn(|cx| {
            let late = alarm.as_mut().is_some_and(|alarm| alarm.as_mut().poll(cx).is_ready());
            if late { Poll::Ready(()) } else { self.poll_notified(cx) }
        })
        .await;
    }
}

/// Runs a future by itself: on the runtime that is here, or on a thread of its own. False if there
/// is neither.
pub(crate) fn spawn(future: impl Future<Output = ()> + Send + 'static) -> bool {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            drop(runtime.spawn(future));
            true
        }
        Err(_) => {
            let thread = thread::Builder::new().name("wharf-task".into());
            thread.spawn(move || block_on::block_on(future)).is_ok()
        }
    }
}
