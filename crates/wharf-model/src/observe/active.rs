//! Reports a call in flight to its observers.

use std::{fmt, mem, sync::Arc, time::Instant};

use crate::{
    CallEnd, CallOutcome, CallRole, CallStart, CallState, Method, ObservedTransport, Observer,
    Observers, ProtocolInfo, Request, Service, observe::guarded,
};

/// Server of a client, as the client's observers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedServer {
    /// Attribute `server.address`: host name, IP address, or path of a Unix socket.
    pub address: Option<String>,
    /// Attribute `server.port`.
    pub port: Option<u16>,
    /// Transport of the connection.
    pub transport: Option<ObservedTransport>,
}

/// Observers of the client that makes a call, and what they need to know about the server.
#[derive(Clone, Copy)]
pub struct ClientObservation<'a> {
    /// Observers of the client.
    pub observers: &'a Observers,
    /// Server of the client.
    pub server: &'a ObservedServer,
    /// Date of the negotiated protocol version.
    pub protocol_version: Option<&'a str>,
    /// Tells whether the server has the target of a forwarded call; `None` if the program itself named the target.
    pub has_target: Option<&'a dyn Fn(&Request) -> bool>,
}

impl fmt::Debug for ClientObservation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientObservation").field("server", &self.server).finish_non_exhaustive()
    }
}

/// Call that at least one observer follows. Dropping it reports a cancellation, unless the end was reported.
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
    role: CallRole,
    state: CallState,
}

impl Following {
    /// Reports the end; a second end is ignored.
    fn end(&mut self, end: &CallEnd<'_>) {
        match mem::take(&mut self.state) {
            CallState::Ignored => {}
            CallState::Token(token) => guarded(|| self.observer.call_ended(token, end)),
            CallState::Scope(mut scope) => guarded(|| scope.ended(end)),
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
        let sides = client.map(|it| (it.observers, client)).into_iter().chain([(observers, None)]);
        for (observers, client) in sides {
            let start = CallStart { request, service, client };
            for observer in observers.as_slice() {
                let state = guarded(|| observer.call_started(&start));
                if matches!(state, CallState::Ignored) {
                    continue;
                }
                let next = Following { observer: observer.clone(), role: start.role(), state };
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

    /// Returns whether an observer of the call logs its panic.
    pub(crate) fn logs_panics(&self) -> bool {
        self.following().any(|it| it.observer.logs_panics())
    }

    /// Reports the end of the call.
    pub(crate) fn end(&mut self, outcome: CallOutcome<'_>) {
        let (method, protocol, elapsed) = (self.method, self.protocol, self.started.elapsed());
        for following in [&mut self.first].into_iter().chain(&mut self.more) {
            let role = following.role;
            following.end(&CallEnd { role, method, protocol, elapsed, outcome });
        }
    }

    fn following(&self) -> impl Iterator<Item = &Following> {
        [&self.first].into_iter().chain(&self.more)
    }
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        self.end(CallOutcome::Cancelled);
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
        CallState::Scope(scope) => guarded(|| scope.run(&mut rest)),
        CallState::Ignored | CallState::Token(_) => rest(),
    }
}
