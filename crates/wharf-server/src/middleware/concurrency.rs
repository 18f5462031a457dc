//! Middleware that limits the number of concurrent calls.

use std::{sync::Arc, time::Duration};

use wharf_model::{BoxFuture, Error, Method, Outcome, Request};

use crate::middleware::{Middleware, Next};
use crate::{
    handler::now,
    router::concurrency::{AcquireResult, ConcurrencyLimit},
};

/// Limits the number of concurrent calls; subscriptions are not counted. Waiting calls are served
/// round-robin by caller, and a quarter of the permits stays free for callers other than the one
/// that holds most.
pub struct Concurrency {
    call_limit: Arc<ConcurrencyLimit>,
}

impl Concurrency {
    /// Creates a limit of `calls` concurrent and `queue` waiting calls; the next one is rejected as
    /// overloaded.
    #[must_use]
    pub fn new(calls: usize, queue: usize) -> Self {
        Concurrency { call_limit: Arc::new(ConcurrencyLimit::new(calls, queue)) }
    }
}

impl Middleware for Concurrency {
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
        if request.method == Method::Listen {
            return next.run(request);
        }
        match self.call_limit.acquire(&request.scope) {
            AcquireResult::Now => {
                next.outbox().hold(self.call_limit.clone());
                next.run(request)
            }
            AcquireResult::Counted(permit) => {
                permit.hold(next.outbox());
                next.run(request)
            }
            AcquireResult::Later(queued) => Box::pin(async move {
                if let Some(permit) = queued.await {
                    permit.hold(next.outbox());
                }
                next.run(request).await
            }),
            AcquireResult::Never => now(Error::overloaded(Duration::from_secs(1)).into()),
        }
    }
}

impl std::fmt::Debug for Concurrency {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Concurrency").finish_non_exhaustive()
    }
}
