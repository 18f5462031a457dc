//! Cancels a task when the future that follows it is dropped.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use wharf_model::{Error, Lock, Method, Outcome};

use crate::task::request_mode;
use crate::{
    ClientHandle,
    call::{request::CallSpec, total_timeout},
};

/// Timeout of `tasks/cancel`.
const CANCEL_TIMEOUT: Duration = Duration::from_secs(10);

/// Cancels a task on drop, unless disarmed.
pub(crate) struct CancelOnDrop(Option<(ClientHandle, String)>);

impl CancelOnDrop {
    pub(crate) fn new(caller: &ClientHandle, id: &str) -> Self {
        CancelOnDrop(Some((caller.clone(), id.to_owned())))
    }

    /// Keeps the task: it has ended, or may continue on its own.
    pub(crate) fn disarm(mut self) {
        self.0 = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some((caller, id)) = self.0.take() else { return };
        let all_sent = caller.pending_cancels().begin();
        let mut cancelling = Box::pin(async move {
            let cancelling = async { cancel(&caller, &id).await };
            let _ = total_timeout::within(
                caller.timer(),
                CANCEL_TIMEOUT,
                total_timeout::IDLE,
                cancelling,
            )
            .await;
            drop(all_sent);
        });
        // The first poll often suffices: a server in this process needs no more.
        let is_over = cancelling.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        if let (false, Ok(runtime)) = (is_over, tokio::runtime::Handle::try_current()) {
            runtime.spawn(cancelling);
        }
    }
}

pub(crate) async fn cancel(caller: &ClientHandle, id: &str) -> Result<(), Error> {
    let spec = CallSpec::named(Method::CancelTask, id);
    match request_mode::send(caller, spec, caller.options().idle).await {
        Outcome::Complete(_) => Ok(()),
        Outcome::Failed(error) => Err(*error),
        _ => Err(crate::call::result::unexpected()),
    }
}

/// Cancellations in flight, which `close` waits for.
#[derive(Clone, Default)]
pub(crate) struct PendingCancels(Arc<Lock<(usize, Vec<Waker>)>>);

impl PendingCancels {
    fn begin(&self) -> PendingCancel {
        self.0.lock().0 += 1;
        PendingCancel(self.clone())
    }

    /// Completes when all cancellations are sent.
    pub(crate) async fn all_sent(&self) {
        poll_fn(|cx| {
            let mut open = self.0.lock();
            if open.0 == 0 {
                return Poll::Ready(());
            }
            open.1.push(cx.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

struct PendingCancel(PendingCancels);

impl Drop for PendingCancel {
    fn drop(&mut self) {
        let mut open = self.0.0.lock();
        open.0 -= 1;
        let waiting = std::mem::take(&mut open.1);
        drop(open);
        waiting.into_iter().for_each(Waker::wake);
    }
}
