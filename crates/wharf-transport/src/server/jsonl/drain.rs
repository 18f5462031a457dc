//! End of a JSON lines connection: the calls in flight end, then the output is written.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::time::{Instant, timeout_at};

use crate::{Shutdown, server::jsonl::call::ConnectionState};

/// Time for the client to read the last bytes after the calls have ended.
pub(super) const FINAL_WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Shuts a connection down gracefully, or at once when it is dropped.
pub(crate) struct ConnectionSupervisor(pub(super) Arc<ConnectionState>);

impl ConnectionSupervisor {
    /// Waits for the end of the connection, then for the calls in flight, up to the graceful
    /// shutdown timeout, and until all output is written.
    pub(crate) async fn supervise(
        self,
        reading: impl Future<Output = ()>,
        all_written: impl Future<Output = ()>,
        shutdown: Shutdown,
    ) {
        let ConnectionState { context, output, in_flight, closing, .. } = &*self.0;
        tokio::select! {
            () = reading => {}
            () = shutdown.stopped() => {}
            () = output.broken() => {}
        }
        let deadline = Instant::now() + context.limits.grace;
        closing.stop();
        in_flight.close();
        let drained = async {
            tokio::select! {
                () = in_flight.idle() => {}
                () = output.broken() => {}
            }
        };
        if timeout_at(deadline, drained).await.is_err() {
            shutdown.count_cut_calls(in_flight.calls());
            // Calls reply as they are dropped. A call that does not yield cannot be dropped, and is
            // not waited for.
            in_flight.abort_all_with_reply();
            let _ = timeout_at(deadline + FINAL_WRITE_TIMEOUT / 2, in_flight.idle()).await;
        }
        in_flight.abort_all();
        output.close();
        let _ = timeout_at(deadline + FINAL_WRITE_TIMEOUT, all_written).await;
        self.0.observed.end();
    }
}

impl Drop for ConnectionSupervisor {
    fn drop(&mut self) {
        self.0.closing.stop();
        self.0.in_flight.abort_all();
        self.0.output.fail();
        // Without effect after an end in good order.
        self.0.observed.fail("aborted");
        self.0.observed.end();
    }
}
