//! Reports a call in flight to its observers.

use std::{fmt, iter, mem, sync::Arc, time::Instant};

use serde_json::value::RawValue;

use crate::{
    CallEnd, CallOutcome, CallRole, CallStart, CallState, ClientRequest, Error, Method,
    ObservedTransport, Observer, Observers, Outcome, ProtocolInfo, Reply, Request, RequestBuilder,
    Service, observe::guarded,
};

/// Server of a client, as the client's observers see it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedServer {
    /// Attribute `server.address`: host name, IP address, or path of a Unix socket.
    pub address: Option<String>,
    /// Attribute `server.port`.
    pub port: Option<u16>,
    /// Transport of the connection.
    pub transport: Option<ObservedTransport>,
}

crate::setters!(ObservedServer {
    address: impl Into<Option<String>>,
    port: impl Into<Option<u16>>,
    transport: impl Into<Option<ObservedTransport>>,
});

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
    /// Sends the baggage of the call within which the client makes this one to the server, too.
    pub forwards_baggage: bool,
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
    transport: Option<ObservedTransport>,
    started: Instant,
    /// Most calls have at most two observers, so that no list is allocated.
    first: Following,
    second: Option<Following>,
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
    /// Reports the start of a call; `None` if no observer wants to receive its end. The request of a client gets the
    /// trace context of its span, or else of the call that makes it.
    #[inline]
    pub(crate) fn start(
        service: &dyn Service,
        request: &mut Request,
        client: Option<ClientObservation<'_>>,
    ) -> Option<Box<ObservedCall>> {
        let observers = service.observers();
        match client.is_some() || observers.is_active() {
            true => ObservedCall::report_start(observers, service, request, client),
            false => None,
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
            let (role, service) = (CallRole::Client, Some(service));
            let start = CallStart { role, request, service, client: Some(client) };
            report_to(client.observers, &start, &mut observed);
            match &mut observed {
                Some(observed) => {
                    observed.run(&mut || request.continue_trace_upstream(client.forwards_baggage));
                }
                None => request.continue_trace_upstream(client.forwards_baggage),
            }
        }
        let (role, service) = (CallRole::Server, Some(service));
        let start = CallStart { role, request, service, client: None };
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
        let (role, service) = (CallRole::Task, Some(service));
        let start = CallStart { role, request, service, client: None };
        report_to(observers, &start, &mut observed);
        observed
    }

    /// Reports a request to the client of the call, to the observers that follow the call.
    pub(crate) fn start_client_request(
        &mut self,
        client_request: &ClientRequest,
    ) -> Option<Box<ObservedCall>> {
        let server = ObservedServer::default().transport(self.transport);
        let protocol_version = self.protocol.map(|protocol| protocol.version);
        let followers = self.following().filter(|it| it.role == CallRole::Server);
        let observers = &Observers::of(followers.map(|it| it.observer.clone()).collect());
        let client = ClientObservation {
            observers,
            server: &server,
            protocol_version,
            has_target: None,
            forwards_baggage: false,
        };
        let request = &RequestBuilder::new(client_request.method()).build();
        let (role, service) = (CallRole::Client, None);
        let start = CallStart { role, request, service, client: Some(client) };
        let mut observed = None;
        self.run(&mut || report_to(observers, &start, &mut observed));
        observed
    }

    /// Runs a poll of the call within the scopes of its observers, once.
    pub(crate) fn run(&mut self, poll: &mut dyn FnMut()) {
        let mut ran = false;
        run_within(&mut self.following(), &mut || {
            if !mem::replace(&mut ran, true) {
                poll();
            }
        });
        // A scope must run its poll. One that did not cannot keep the call from running.
        if !ran {
            poll();
        }
    }

    /// Returns whether an observer of the call logs its panic.
    pub(crate) fn logs_panics(&mut self) -> bool {
        self.following().any(|it| it.observer.logs_panics())
    }

    /// Reports the end of the call.
    pub(crate) fn end(&mut self, outcome: CallOutcome<'_>) {
        let (method, protocol, elapsed) = (self.method, self.protocol, self.started.elapsed());
        for following in self.following() {
            let role = following.role;
            following.end(&CallEnd { role, method, protocol, elapsed, outcome });
        }
    }

    fn following(&mut self) -> impl Iterator<Item = &mut Following> {
        iter::once(&mut self.first).chain(&mut self.second).chain(&mut self.more)
    }
}

impl Drop for ObservedCall {
    fn drop(&mut self) {
        self.end(CallOutcome::Cancelled);
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
        let mut report = || state = guarded(|| observer.call_started(start));
        match &mut *observed {
            Some(observed) => observed.run(&mut report),
            None => report(),
        }
        if matches!(state, CallState::Ignored) {
            continue;
        }
        let next = Following { observer: observer.clone(), role: start.role, state };
        match &mut *observed {
            Some(observed) if observed.second.is_none() => observed.second = Some(next),
            Some(observed) => observed.more.push(next),
            None => {
                *observed = Some(Box::new(ObservedCall {
                    method: start.request.method,
                    protocol: start.request.protocol,
                    transport: start.transport(),
                    started: Instant::now(),
                    first: next,
                    second: None,
                    more: Vec::new(),
                }));
            }
        }
    }
}

/// Returns the response of a client as the outcome of the request.
pub(crate) fn response_outcome(response: &Result<String, Error>) -> Outcome {
    match response {
        Ok(json) => match RawValue::from_string(json.clone()) {
            Ok(json) => Reply::Custom(json.into()).into(),
            Err(error) => Error::from(error).into(),
        },
        Err(error) => error.clone().into(),
    }
}

fn has_id(request: &Request) -> bool {
    request.parts().id.is_some()
}

fn run_within(outer: &mut dyn Iterator<Item = &mut Following>, poll: &mut dyn FnMut()) {
    match outer.next().map(|following| &mut following.state) {
        None => poll(),
        Some(CallState::Scope(scope)) => {
            guarded(|| scope.run(&mut || run_within(&mut *outer, &mut *poll)));
        }
        Some(CallState::Ignored | CallState::Token(_)) => run_within(outer, poll),
    }
}
