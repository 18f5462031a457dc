//! Exponential backoff, and waiting on the clock of the runtime.

use std::{sync::Arc, time::Duration};

use wharf_model::Timer;

/// Completes after `pause`.
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
