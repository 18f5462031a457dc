//! Middleware that converts panics into outcomes.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    task::Poll,
};

use wharf_model::{BoxFuture, Error, ErrorKind, Method, Outbox, Outcome, Request, ToolResult};

use crate::handler::now;
use crate::middleware::{Middleware, Next, printable};

/// Converts a panic of a handler or of inner middleware into an outcome that outer middleware
/// receives, and logs its text.
///
/// A panic is contained without this middleware too: the call ends with the same outcome, but outer
/// middleware does not see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct PanicGuard;

impl Middleware for PanicGuard {
    fn call(&self, request: Request, outbox: Outbox, next: Next) -> BoxFuture<Outcome> {
        let (method, target) = (request.method, printable(&request.target()));
        let begun = catch_unwind(AssertUnwindSafe(|| next.run(request, outbox)));
        let mut call = match begun {
            Ok(call) => Some(call),
            Err(panic) => return now(panic_outcome(method, &target, &*panic)),
        };
        Box::pin(poll_fn(move |cx| {
            let Some(running) = &mut call else { return Poll::Pending };
            let polled = catch_unwind(AssertUnwindSafe(|| running.as_mut().poll(cx)));
            polled.unwrap_or_else(|panic| {
                // A future that panicked is not polled again.
                let _ = catch_unwind(AssertUnwindSafe(|| drop(call.take())));
                Poll::Ready(panic_outcome(method, &target, &*panic))
            })
        }))
    }
}

fn panic_outcome(method: Method, target: &str, panic: &(dyn Any + Send)) -> Outcome {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    let text = printable(text.unwrap_or("panic without a message"));
    tracing::error!(method = method.name(), target, panic = text, "handler panicked");
    match method {
        Method::CallTool => ToolResult::error(ErrorKind::ToolPanicked.message()).into(),
        _ => Error::new(ErrorKind::InternalError).into(),
    }
}
