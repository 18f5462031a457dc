//! Middleware that limits the duration of calls.

use std::time::Duration;

use wharf_model::{BoxFuture, Method, Outcome, Request};

use crate::middleware::{Middleware, Next};

/// Limits the duration of calls, except subscriptions. A tool's own timeout takes precedence.
#[derive(Clone, Copy, Debug)]
pub struct Timeout {
    idle: Option<Duration>,
    total: Option<Duration>,
}

impl Timeout {
    /// Limits the total duration of a call.
    #[must_use]
    pub fn new(total: Duration) -> Self {
        Timeout { idle: None, total: Some(total) }
    }

    /// Limits the time that a call may be idle: without progress or any other message.
    #[must_use]
    pub fn idle(idle: Duration) -> Self {
        Timeout { idle: Some(idle), total: None }
    }
}

impl Middleware for Timeout {
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
        if request.method != Method::Listen {
            let mut deadlines = next.outbox().deadlines();
            let shorter = |old: Option<Duration>, new: Option<Duration>| match (old, new) {
                (Some(old), Some(new)) => Some(old.min(new)),
                (old, new) => new.or(old),
            };
            deadlines.idle = shorter(deadlines.idle, self.idle);
            deadlines.total = shorter(deadlines.total, self.total);
            next.outbox().set_deadlines(deadlines);
        }
        next.run(request)
    }
}
