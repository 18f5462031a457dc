//! Reports a call in flight to its observers.

use std::{
    any::Any,
    future::Future,
    iter, mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use crate::{
    BoxFuture, CallEnd, CallOutcome, CallRole, CallStart, CallState, Method, ObservedTransport,
    Observer, Observers, Outbox, Outcome, ProtocolInfo, Request, Service,
};

/// Observers of the client that makes a call, and what they need to know about the server.
#[derive(Clone, Copy, Debug)]
pub struct ClientObservation<'a> {
    /// Observers of the client.
    pub observers: &'a Observers,
    /// Address of the server.
    pub server: Option<&'a str>,
    /// Date of the negotiated protocol version.
    pub protocol_version: Option<&'a str>,
    /// Transport to the server.
    pub transport: Option<ObservedTransport>,
}

impl ClientObservation<'_> {
    /// Calls a service as the client, without the deadlines of an [`ActiveCall`](crate::ActiveCall): for proxies, whose
    /// own call has them. The request gets the trace context of the client's span.
    pub fn call(
        self,
        service: &dyn Service,
        mut request: Request,
        outbox: Outbox,
    ) -> BoxFuture<Outcome> {
        let Some(mut observed) = ObservedCall::start(service, &mut request, Some(self)) else {
            return service.call(request, outbox);
        };
        let mut begin = Some(|| service.call(request, outbox));
        let mut call = None;
        observed.run(&mut || call = begin.take().map(|begin| begin()));
        let observed = Some(observed);
        Box::pin(ObservedFuture { observed, call })
    }
}

/// Call of a proxy that observers follow.
struct ObservedFuture {
    observed: Option<Box<ObservedCall>>,
    call: Option<BoxFuture<Outcome>>,
}

impl Future for ObservedFuture {
    type Output = Outcome;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Outcome> {
        let ObservedFuture { observed: Some(observed), call: Some(call) } = &mut *self else {
            return Poll::Pending;
        };
        let mut polled = Poll::Pending;
        observed.run(&mut || polled = call.as_mut().poll(cx));
        if let Poll::Ready(outcome) = &polled {
            observed.end(CallOutcome::Returned(outcome));
            self.observed = None;
        }
        polled
    }
}

impl Drop for ObservedFuture {
    fn drop(&mut self) {
        if let Some(mut observed) = self.observed.take() {
            observed.run(&mut || self.call = None);
            observed.end(CallOutcome::Cancelled);
        }
    }
}

/// Call that at least one observer follows.
pub(crate) struct ObservedCall {
    method: Method,
    protocol: Option<&'static ProtocolInfo>,
    started: Instant,
    /// Most calls have at most two observers, so that no list is allocated.
    first: Following,
    second: Option<Following>,
    more: Vec<Following>,
}

struct Following {
    observer: Arc<dyn Observer>,
    state: CallState,
}

impl Following {
    fn end(&mut self, end: &CallEnd<'_>) {
        match mem::take(&mut self.state) {
            CallState::Ignored => {}
            CallState::Token(token) => self.observer.call_ended(token, end),
            CallState::Scope(mut scope) => scope.ended(end),
        }
    }
}

impl ObservedCall {
    /// Reports the start of a call; `None` if no observer wants to receive its end. The request of a client gets the
    /// trace context of its span, or else of the call that makes it.
    #[inline]
    pub(crate) fn start(
        service: &dyn Service,
        request: &mut Request,
        client: Option<ClientObservation<'_>>,
    ) -> Option<Box<ObservedCall>> {
        let observers = service.observers();
        match observers.is_empty() && client.is_none() {
            true => None,
            false => ObservedCall::report_start(observers, service, request, client),
        }
    }

    #[cold]
    fn report_start(
        observers: &Observers,
        service: &dyn Service,
        request: &mut Request,
        client: Option<ClientObservation<'_>>,
    ) -> Option<Box<ObservedCall>> {
        // The subscription of a legacy session is no request of the client.
        if request.method == Method::Listen && request.protocol.is_some_and(|_| !has_id(request)) {
            return None;
        }
        let mut observed = None;
        if let Some(client) = client {
            let start =
                CallStart { role: CallRole::Client, request, service, client: Some(client) };
            report_to(client.observers, &start, &mut observed);
            match &mut observed {
                Some(observed) => observed.run(&mut || request.continue_trace()),
                None => request.continue_trace(),
            }
        }
        let start = CallStart { role: CallRole::Server, request, service, client: None };
        report_to(observers, &start, &mut observed);
        observed
    }

    /// Reports that this process runs a task.
    pub(crate) fn start_task(
        observers: &Observers,
        service: &dyn Service,
        request: &Request,
    ) -> Option<Box<ObservedCall>> {
        let mut observed = None;
        let start = CallStart { role: CallRole::Task, request, service, client: None };
        report_to(observers, &start, &mut observed);
        observed
    }

    /// Runs a poll of the call within the scopes of its observers.
    pub(crate) fn run(&mut self, poll: &mut dyn FnMut()) {
        run_within(&mut self.following(), poll);
    }

    /// Reports the end of the call.
    pub(crate) fn end(&mut self, outcome: CallOutcome<'_>) {
        let elapsed = self.started.elapsed();
        let end = CallEnd { method: self.method, protocol: self.protocol, elapsed, outcome };
        self.following().for_each(|following| following.end(&end));
    }

    fn following(&mut self) -> impl Iterator<Item = &mut Following> {
        iter::once(&mut self.first).chain(&mut self.second).chain(&mut self.more)
    }
}

/// Reports the start of a call, to each observer within the scopes of those before it.
fn report_to(
    observers: &Observers,
    start: &CallStart<'_>,
    observed: &mut Option<Box<ObservedCall>>,
) {
    for observer in observers.as_slice() {
        let mut state = CallState::Ignored;
        let mut report = || state = observer.call_started(start);
        match &mut *observed {
            Some(observed) => observed.run(&mut report),
            None => report(),
        }
        if matches!(state, CallState::Ignored) {
            continue;
        }
        let next = Following { observer: observer.clone(), state };
        match &mut *observed {
            Some(observed) if observed.second.is_none() => observed.second = Some(next),
            Some(observed) => observed.more.push(next),
            None => {
                *observed = Some(Box::new(ObservedCall {
                    method: start.request.method,
                    protocol: start.request.protocol,
                    started: Instant::now(),
                    first: next,
                    second: None,
                    more: Vec::new(),
                }));
            }
        }
    }
}

fn has_id(request: &Request) -> bool {
    request.parts().id.is_some()
}

fn run_within(outer: &mut dyn Iterator<Item = &mut Following>, poll: &mut dyn FnMut()) {
    match outer.next().map(|following| &mut following.state) {
        None => poll(),
        Some(CallState::Scope(scope)) => scope.run(&mut || run_within(outer, poll)),
        Some(CallState::Ignored | CallState::Token(_)) => run_within(outer, poll),
    }
}

/// Returns the text of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic without a message")
}
