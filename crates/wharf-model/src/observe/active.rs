//! Reports a call in flight to its observers.

use std::{any::Any, mem, sync::Arc, time::Instant};

use crate::{
    CallEnd, CallOutcome, CallRole, CallStart, CallState, Method, Observer, Observers,
    ProtocolInfo, Request, Service,
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
}

/// Call that at least one observer follows.
pub(crate) struct ObservedCall {
    method: Method,
    protocol: Option<&'static ProtocolInfo>,
    started: Instant,
    /// Most calls have one observer, so that no list is allocated.
    first: Following,
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
    /// Reports the start of a call; `None` if no observer wants to receive its end.
    #[inline]
    pub(crate) fn start(
        service: &dyn Service,
        request: &Request,
        client: Option<ClientObservation<'_>>,
    ) -> Option<Box<ObservedCall>> {
        let observers = service.observers();
        match observers.is_empty() && client.is_none_or(|client| client.observers.is_empty()) {
            true => None,
            false => ObservedCall::report_start(observers, service, request, client),
        }
    }

    #[cold]
    fn report_start(
        observers: &Observers,
        service: &dyn Service,
        request: &Request,
        client: Option<ClientObservation<'_>>,
    ) -> Option<Box<ObservedCall>> {
        // The subscription of a legacy session is no request of the client.
        if request.method == Method::Listen && request.protocol.is_some_and(|_| !has_id(request)) {
            return None;
        }
        let mut observed: Option<Box<ObservedCall>> = None;
        let start = |role, server, protocol_version| CallStart {
            role,
            request,
            service,
            server,
            protocol_version,
        };
        let callers = client
            .map(|it| (it.observers, start(CallRole::Client, it.server, it.protocol_version)));
        let served = (observers, start(CallRole::Server, None, None));
        for (observers, start) in callers.into_iter().chain([served]) {
            for observer in observers.as_slice() {
                let state = observer.call_started(&start);
                if matches!(state, CallState::Ignored) {
                    continue;
                }
                let next = Following { observer: observer.clone(), state };
                match &mut observed {
                    Some(observed) => observed.more.push(next),
                    None => {
                        observed = Some(Box::new(ObservedCall {
                            method: request.method,
                            protocol: request.protocol,
                            started: Instant::now(),
                            first: next,
                            more: Vec::new(),
                        }));
                    }
                }
            }
        }
        observed
    }

    /// Runs a poll of the call within the scopes of its observers.
    pub(crate) fn run(&mut self, poll: &mut dyn FnMut()) {
        run_within(&mut self.first, &mut self.more, poll);
    }

    /// Reports the end of the call.
    pub(crate) fn end(&mut self, outcome: CallOutcome<'_>) {
        let elapsed = self.started.elapsed();
        let end = CallEnd { method: self.method, protocol: self.protocol, elapsed, outcome };
        self.first.end(&end);
        self.more.iter_mut().for_each(|following| following.end(&end));
    }
}

fn has_id(request: &Request) -> bool {
    request.parts().id.is_some()
}

fn run_within(outer: &mut Following, inner: &mut [Following], poll: &mut dyn FnMut()) {
    let mut rest = || match inner.split_first_mut() {
        Some((next, inner)) => run_within(next, inner, &mut *poll),
        None => poll(),
    };
    match &mut outer.state {
        CallState::Scope(scope) => scope.run(&mut rest),
        CallState::Ignored | CallState::Token(_) => rest(),
    }
}

/// Returns the text of a panic.
pub(crate) fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("panic without a message")
}
