//! Wake-up signal for one waiter, and spawning of futures without a runtime.

use std::{
    future::{Future, poll_fn},
    task::{Context, Poll, Waker},
    thread,
    time::Instant,
};

use wharf_model::{Lock, Timer};

use crate::handler::block_on;

/// Wake-up signal for one waiter. A notification without a waiter is kept.
#[derive(Default)]
pub(crate) struct WakeSignal(Lock<SignalState>);

#[derive(Default)]
struct SignalState {
    notified: bool,
    waker: Option<Waker>,
}

impl WakeSignal {
    pub(crate) fn notify(&self) {
        let mut state = self.0.lock();
        state.notified = true;
        let waker = state.waker.take();
        drop(state);
        waker.into_iter().for_each(Waker::wake);
    }

    /// Ready if it was notified since the last poll.
    pub(crate) fn poll_notified(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.0.lock();
        if std::mem::take(&mut state.notified) {
            return Poll::Ready(());
        }
        let old = state.waker.replace(cx.waker().clone());
        // Dropping a waker may run arbitrary code.
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Completes when it is notified, or at `until`.
    pub(crate) async fn wait(&self, timer: &dyn Timer, until: Option<Instant>) {
        let mut alarm = until.map(|until| timer.sleep_until(until));
        poll_fn(|cx| {
            let late = alarm.as_mut().is_some_and(|alarm| alarm.as_mut().poll(cx).is_ready());
            if late { Poll::Ready(()) } else { self.poll_notified(cx) }
        })
        .await;
    }
}

/// Spawns a future: on the current runtime, or on its own thread. False if there is neither.
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
