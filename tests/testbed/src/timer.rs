//! Timer of calls in a runtime whose time a test pauses.

use std::time::Instant;

use wharf_model::{BoxFuture, Timer};

/// Tokio's clock: `wharf_transport::TokioTimer`, for the crates below that one.
#[derive(Clone, Copy, Debug, Default)]
pub struct TokioTimer;

impl Timer for TokioTimer {
    fn now(&self) -> Instant {
        tokio::time::Instant::now().into_std()
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        Box::pin(tokio::time::sleep_until(deadline.into()))
    }
}
