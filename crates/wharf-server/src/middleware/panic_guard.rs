//! Middleware that converts panics into outcomes.

use std::{
    any::Any,
    future::poll_fn,
    panic::{AssertUnwindSafe, catch_unwind},
    task::{Context, Poll},
};

use wharf_model::{BoxFuture, Error, ErrorKind, Method, Outcome, Request, ToolResult, printable};

use crate::{
    call_tracing::method_name,
    middleware::{Middleware, Next},
};

/// Converts a panic of a handler or of inner middleware into an outcome that outer middleware
/// receives, and logs its text.
///
/// A panic is contained without this middleware too: the call ends with the same outcome, and
/// [`Tracing`](crate::Tracing) logs it, but other outer middleware does not receive the outcome.
#[derive(Clone, Copy, Debug, Default)]
pub struct PanicGuard;

impl Middleware for PanicGuard {
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
        let (method, name) = (method_name(&request), printable(&request.target()));
        let mut call = GuardedCall::start(request, next);
        Box::pin(poll_fn(move |cx| {
            call.poll(cx).map(|ended| {
                ended.unwrap_or_else(|panic| {
                    tracing::error!(
                        method = &*method,
                        name,
                        error = panic.text(),
                        "caught a panic of a handler"
                    );
                    panic.into_outcome()
                })
            })
        }))
    }
}

/// Call that ends with a [`CaughtPanic`] if it panics.
pub(crate) struct GuardedCall {
    method: Method,
    state: CallState,
}

enum CallState {
    Running(BoxFuture<Outcome>),
    Panicked(Box<dyn Any + Send>),
    Ended,
}

impl GuardedCall {
    /// Starts the call.
    pub(crate) fn start(request: Request, next: Next) -> Self {
        let method = request.method;
        let started = catch_unwind(AssertUnwindSafe(|| next.run(request)));
        let state = started.map_or_else(CallState::Panicked, CallState::Running);
        GuardedCall { method, state }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Outcome, CaughtPanic>> {
        if let CallState::Running(call) = &mut self.state {
            match catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx))) {
                Ok(polled) => return polled.map(Ok),
                Err(payload) => self.fail(payload),
            }
        }
        match std::mem::replace(&mut self.state, CallState::Ended) {
            CallState::Panicked(payload) => {
                Poll::Ready(Err(CaughtPanic { method: self.method, payload }))
            }
            CallState::Running(_) | CallState::Ended => Poll::Pending,
        }
    }

    /// Drops the future that panicked; its destructors may panic too.
    fn fail(&mut self, payload: Box<dyn Any + Send>) {
        let call = std::mem::replace(&mut self.state, CallState::Panicked(payload));
        let _ = catch_unwind(AssertUnwindSafe(|| drop(call)));
    }
}

/// Panic of a call.
pub(crate) struct CaughtPanic {
    method: Method,
    payload: Box<dyn Any + Send>,
}

impl CaughtPanic {
    /// Returns the text of the panic, for the log only: it may contain confidential data.
    pub(crate) fn text(&self) -> String {
        let text = self.payload.downcast_ref::<&str>().copied();
        let text = text.or_else(|| self.payload.downcast_ref::<String>().map(String::as_str));
        printable(text.unwrap_or("panic without a message"))
    }

    /// Returns the outcome for the client.
    pub(crate) fn into_outcome(self) -> Outcome {
        match self.method {
            Method::CallTool => ToolResult::error(ErrorKind::ToolPanicked.message()).into(),
            _ => Error::new(ErrorKind::InternalError).into(),
        }
    }
}
