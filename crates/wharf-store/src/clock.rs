//! Clocks of the stores, in milliseconds since 1970.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::time::Instant;

/// Returns the time in milliseconds since 1970. It never goes back.
pub(crate) type ClockFn = Box<dyn Fn() -> u64 + Send + Sync>;

/// Clock of the stores that end with the process: tokio's, so that tests can pause it.
pub(crate) fn process_clock() -> ClockFn {
    let (wall_clock_millis, start) = (wall_clock_millis(), Instant::now());
    Box::new(move || wall_clock_millis.saturating_add(millis(start.elapsed())))
}

/// Time for the stores that outlive the process: the time of day, held still while the system clock
/// is set back.
#[cfg_attr(not(feature = "sqlite"), allow(dead_code))]
pub(crate) fn machine_now() -> u64 {
    static LATEST: AtomicU64 = AtomicU64::new(0);
    let now = wall_clock_millis();
    LATEST.fetch_max(now, Ordering::Relaxed).max(now)
}

/// Converts a duration to milliseconds.
pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

fn wall_clock_millis() -> u64 {
    millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
}
