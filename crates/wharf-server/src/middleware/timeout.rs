use std::time::Duration;

use wharf_model::{BoxFuture, Method, Outbox, Outcome, Request};

use crate::middleware::{Middleware, Next};

/// Limits how long calls may take, listens excepted. A tool's own timeout goes before it.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    idle: Option<Duration>,
    total: Option<Duration>,
}

impl Timeout {
    /// In all, a call may take so long.
    #[must_use]
    pub fn new(total: Duration) -> Self {
        Timeout { idle: None, total: Some(total) }
    }

    /// A call may be without a sign of life for so long.
    #[must_use]
    pub fn idle(idle: Duration) -> Self {
        Timeout { idle: Some(idle), total: None }
    }
}

impl Middleware for Timeout {
    fn call(&self, request: Request, outbox: Outbox, next: Next) -> BoxFuture<Outcome> {
        if request.method != Method::Listen {
            let mut deadlines = outbox.deadlines();
            let shorter = |old: Option<Duration>, new: Option<Duration>| match (old, new) {
                (Some(old), Some(new)) => Some(old.min(new)),
                (old, new) => new.or(old),
            };
            deadlines.idle = shorter(deadlines.idle, self.idle);
            deadlines.total = shorter(deadlines.total, self.total);
            outbox.set_deadlines(deadlines);
        }
        next.run(request, outbox)
    }
}
