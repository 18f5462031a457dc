//! Call that a proxy forwards: observed like other calls, within the deadlines and the outbox of the call that it serves.

use std::{
    future::Future,
    panic::{AssertUnwindSafe, catch_unwind},
    pin::Pin,
    task::{Context, Poll, ready},
};

use crate::{
    BoxFuture, CallOutcome, ClientObservation, Method, Outbox, Outcome, Request, Service,
    call::active_call::{panicked, within},
    observe::active::ObservedCall,
};

/// Forwards a request to `service`, and reports it to the observers of the client and of the service. The request gets
/// the trace context of the client's span, or else of the call that is forwarded.
///
/// Unlike an [`ActiveCall`](crate::ActiveCall), it has no events and deadlines of its own: messages and requests go to the
/// outbox of the call that is forwarded.
pub fn forward_for_client(
    service: &dyn Service,
    mut request: Request,
    outbox: Outbox,
    client: ClientObservation<'_>,
) -> BoxFuture<Outcome> {
    let method = request.method;
    let mut observed = ObservedCall::start(service, &mut request, Some(client));
    if observed.is_none() {
        return service.call(request, outbox);
    }
    let begin = || catch_unwind(AssertUnwindSafe(|| service.call(request, outbox)));
    match within(&mut observed, begin) {
        Ok(call) => Box::pin(ForwardedCall { method, call: Some(call), observed }),
        Err(payload) => Box::pin(std::future::ready(panicked(method, &mut observed, payload))),
    }
}

struct ForwardedCall {
    method: Method,
    call: Option<BoxFuture<Outcome>>,
    observed: Option<Box<ObservedCall>>,
}

impl ForwardedCall {
    /// Drops the future; its destructors may panic too.
    fn drop_call(&mut self) {
        if let Some(call) = self.call.take() {
            let _ = within(&mut self.observed, || catch_unwind(AssertUnwindSafe(|| drop(call))));
        }
    }
}

impl Future for ForwardedCall {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let this = &mut *self;
        let Some(call) = &mut this.call else { return Poll::Pending };
        let polled = within(&mut this.observed, || {
            catch_unwind(AssertUnwindSafe(|| call.as_mut().poll(cx)))
        });
        let outcome = match polled {
            Ok(poll) => ready!(poll),
            Err(payload) => panicked(this.method, &mut this.observed, payload),
        };
        this.drop_call();
        if let Some(mut observed) = this.observed.take() {
            observed.end(CallOutcome::Returned(&outcome));
        }
        Poll::Ready(outcome)
    }
}

impl Drop for ForwardedCall {
    fn drop(&mut self) {
        self.drop_call();
    }
}
