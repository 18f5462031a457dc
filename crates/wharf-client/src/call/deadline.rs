//! Timeouts, sleep and backoff on the runtime's clock.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    sync::Arc,
    task::Poll,
    time::Duration,
};

use wharf_model::{BoxFuture, Error, ErrorKind, FailureOrigin, Timeout, Timer};

/// Runs `work` with a timeout. `option` names the setting to raise in the error.
pub(crate) async fn within<T>(
    timer: &Arc<dyn Timer>,
    limit: Duration,
    option: TimeoutOption,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    // A deadline beyond the end of the clock never expires.
    let end = timer.now().checked_add(limit);
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
pub(crate) type TimeoutOption = (Timeout, &'static str);

pub(crate) const IDLE: TimeoutOption = (Timeout::Idle, "timeout");
pub(crate) const TOTAL: TimeoutOption = (Timeout::Total, "total");

pub(crate) fn out_of_time(limit: Duration, (timeout, option): TimeoutOption) -> Error {
    let message = format!("Request timed out after {limit:?}: raise `{option}` if it needs longer");
    Error::new(ErrorKind::RequestTimeout)
        .with_message(message)
        .from_client(FailureOrigin::Timeout(timeout, limit))
}

/// Runs CPU-bound work on a blocking thread, so that timeouts and cancellation of calls still work.
/// If the future is dropped, the work continues until its end, so it must be bounded.
pub(crate) async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let done = runtime.spawn_blocking(work).await;
            done.unwrap_or_else(|_| Err(panicked()))
        }
        Err(_) => work(),
    }
}

/// Completes after `pause`.
fn panicked() -> Error {
    Error::new(ErrorKind::InternalError).from_client(FailureOrigin::Protocol)
}

/// Sleeps on the timer.
pub(crate) async fn sleep(timer: &Arc<dyn Timer>, pause: Duration) {
    match timer.now().checked_add(pause) {
        Some(end) => timer.sleep_until(end).await,
        None => std::future::pending().await,
    }
}

/// Exponential backoff: the delay before attempt `tries`, at most `most`.
pub(crate) fn backoff(first: Duration, tries: usize, most: Duration) -> Duration {
    let times = u32::try_from(tries).ok().and_then(|tries| 2_u32.checked_pow(tries));
    times.and_then(|times| first.checked_mul(times)).unwrap_or(most).min(most)
}
