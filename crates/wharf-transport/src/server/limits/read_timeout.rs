//! Time limit of a message that is still arriving: its timeout, and the time that its bytes need at the minimum rate.

use std::time::Duration;

#[cfg(feature = "http")]
use tokio::time::Instant;

/// Minimum rate of a slow client after the initial timeout.
const MIN_BYTES_PER_SECOND: u64 = 64 << 10;

/// Returns the time that `size` bytes need at the minimum rate.
pub(crate) fn time_for(size: usize) -> Duration {
    Duration::from_millis(size as u64 * 1000 / MIN_BYTES_PER_SECOND)
}

/// Returns the time by which more of a request body must arrive, if `read` bytes of it have arrived.
#[cfg(feature = "http")]
pub(crate) fn body_deadline(begun: Instant, timeout: Duration, read: usize) -> Instant {
    begun + timeout + time_for(read)
}
