//! Timeouts of whole calls and of other work, whatever progress it reports. The idle timeout, which progress restarts, is
//! that of the `ActiveCall`.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use wharf_model::{BoxFuture, Error, ErrorKind, FailureOrigin, TimeoutKind, Timer};

/// Runs `work` with a timeout. `option` names the setting to raise in the error.
pub(crate) async fn within<T>(
    timer: &Arc<dyn Timer>,
    limit: Duration,
    option: TimeoutOption,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    // A deadline beyond the end of the clock never expires.
    let end = timer.now().checked_add(limit);
    until(timer, end, limit, option, work).await
}

/// Idle timeout of a call, and its end for work that belongs to the call. Without an end it begins with the work.
#[derive(Clone, Copy)]
pub(crate) struct IdleTimeout {
    pub(crate) limit: Duration,
    pub(crate) end: Option<Instant>,
}

impl IdleTimeout {
    /// Runs `work` with the rest of the timeout.
    pub(crate) async fn within<T>(
        self,
        timer: &Arc<dyn Timer>,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        match self.end {
            Some(_) => until(timer, self.end, self.limit, IDLE, work).await,
            None => within(timer, self.limit, IDLE, work).await,
        }
    }
}

/// Runs `work` until `end`, if there is one.
async fn until<T>(
    timer: &Arc<dyn Timer>,
    end: Option<Instant>,
    limit: Duration,
    option: TimeoutOption,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let mut sleep: Option<BoxFuture<()>> = None;
    let mut work = pin!(work);
    poll_fn(|cx| {
        if let Poll::Ready(result) = work.as_mut().poll(cx) {
            return Poll::Ready(result);
        }
        let Some(end) = end else { return Poll::Pending };
        // Armed on the first pending poll: a future that is ready immediately costs no timer.
        let sleep = sleep.get_or_insert_with(|| timer.sleep_until(end));
        sleep.as_mut().poll(cx).map(|()| Err(out_of_time(limit, option)))
    })
    .await
}

/// A timeout, and the option that sets it.
pub(crate) type TimeoutOption = (TimeoutKind, &'static str);

pub(crate) const IDLE: TimeoutOption = (TimeoutKind::Idle, "timeout");
pub(crate) const TOTAL: TimeoutOption = (TimeoutKind::Total, "total");

pub(crate) fn out_of_time(limit: Duration, (timeout, option): TimeoutOption) -> Error {
    let message = format!("Request timed out after {limit:?}: raise `{option}` if it needs longer");
    Error::new(ErrorKind::RequestTimeout)
        .with_message(message)
        .from_client(FailureOrigin::Timeout(timeout, limit))
}
