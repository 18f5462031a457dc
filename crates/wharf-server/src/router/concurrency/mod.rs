//! Concurrency limit of calls, with a fair wait queue.

mod concurrency_limit;
pub(crate) mod wait_queue;

use std::{sync::Arc, time::Duration};

use wharf_model::{BoxFuture, Error, Outbox, Outcome, Request};

pub(crate) use crate::router::concurrency::concurrency_limit::{
    AcquireResult, CallPermit, ConcurrencyLimit,
};
use crate::{handler::now, router::state::ServerState};

/// Runs a call as soon as it has a permit.
pub(super) fn with_permit(
    server: &Arc<ServerState>,
    request: Request,
    outbox: Outbox,
    run: impl FnOnce(&Arc<ServerState>, Request, Outbox) -> BoxFuture<Outcome> + Send + 'static,
) -> BoxFuture<Outcome> {
    match server.call_limit.acquire(&request.scope) {
        AcquireResult::Now => {
            outbox.hold(server.call_limit.clone());
            run(server, request, outbox)
        }
        AcquireResult::Counted(permit) => {
            permit.hold(&outbox);
            run(server, request, outbox)
        }
        AcquireResult::Later(queued) => {
            let server = server.clone();
            Box::pin(async move {
                if let Some(permit) = queued.await {
                    permit.hold(&outbox);
                }
                let call = run(&server, request, outbox);
                call.await
            })
        }
        AcquireResult::Never => now(Error::overloaded(Duration::from_secs(1)).into()),
    }
}
