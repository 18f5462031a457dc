//! Reports of calls to observers.

use std::{
    future::{pending, ready},
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use wharf_model::{
    ActiveCall, BoxFuture, CallEnd, CallErrorType, CallOutcome, CallRole, CallScope, CallStart,
    CallState, ClientObservation, Deadlines, Error, ErrorKind, Event, FailureOrigin, Method,
    ObservedEvent, ObservedServer, Observer, Observers, Outbox, Outcome, Reply, Request,
    RequestBuilder, Service, Timer, ToolResult, forward_for_client,
};

/// Log of an observer.
#[derive(Clone, Default)]
struct CallLog(Arc<Mutex<Vec<String>>>);

impl CallLog {
    fn add(&self, line: impl Into<String>) {
        self.0.lock().unwrap().push(line.into());
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }

    fn ended(&self, prefix: &str, end: &CallEnd<'_>) {
        let class = end.error_type().map(|it| it.name().into_owned()).unwrap_or_default();
        let text = match end.outcome() {
            CallOutcome::Panicked(text) => text.to_owned(),
            _ => String::new(),
        };
        self.add(format!("{prefix} {} [{class}] {text}", end.name()));
    }
}

/// Observer without state.
struct Counting(CallLog);

impl Observer for Counting {
    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        let (role, target) = (call.role(), call.request().target().into_owned());
        let known = call.is_known_target();
        self.0.add(format!("{role:?} {} {target} known={known}", call.method_name()));
        CallState::Token(7)
    }

    fn call_ended(&self, token: u64, end: &CallEnd<'_>) {
        self.0.ended(&token.to_string(), end);
    }
}

/// Observer with a scope for each call.
struct Scoping(CallLog);

impl Observer for Scoping {
    fn call_started(&self, _: &CallStart<'_>) -> CallState {
        CallState::Scope(Box::new(LoggingScope(self.0.clone())))
    }
}

struct LoggingScope(CallLog);

impl CallScope for LoggingScope {
    fn run(&mut self, poll: &mut dyn FnMut()) {
        self.0.add("enter");
        poll();
        self.0.add("exit");
    }

    fn ended(&mut self, end: &CallEnd<'_>) {
        self.0.ended("scope", end);
    }
}

type CallFn = fn() -> BoxFuture<Outcome>;

struct ObservedService(Observers, CallFn);

impl Service for ObservedService {
    fn call(&self, _: Request, _: Outbox) -> BoxFuture<Outcome> {
        (self.1)()
    }

    fn observers(&self) -> &Observers {
        &self.0
    }

    fn has_target(&self, request: &Request) -> bool {
        request.target() == "t"
    }
}

/// Timer that never wakes a call.
struct FixedTimer;

impl Timer for FixedTimer {
    fn now(&self) -> Instant {
        Instant::now()
    }

    fn sleep_until(&self, _: Instant) -> BoxFuture<()> {
        Box::pin(pending())
    }
}

fn start(observers: &Observers, method: Method, past: bool, run: CallFn) -> ActiveCall {
    let service = ObservedService(observers.clone(), run);
    let request = RequestBuilder::new(method).target("t").build();
    let total = past.then_some(Duration::ZERO);
    let deadlines = Deadlines::NONE.total(total);
    ActiveCall::start(&service, request, Arc::new(FixedTimer), deadlines)
}

fn poll(call: &mut ActiveCall) -> Poll<Event> {
    call.poll_event(&mut Context::from_waker(Waker::noop()))
}

fn at_once(outcome: impl Into<Outcome>) -> BoxFuture<Outcome> {
    Box::pin(ready(outcome.into()))
}

#[test]
fn each_outcome_is_reported_once() {
    let log = CallLog::default();
    let observers = Observers::default().with(Counting(log.clone()));
    let unknown_tool = || at_once(Error::new(ErrorKind::InternalError));
    let cases: [(Method, CallFn, &str); 6] = [
        (Method::CallTool, || at_once(ToolResult::text("x")), "7 complete [] "),
        (Method::CallTool, || at_once(ToolResult::error("x")), "7 tool_error [tool_error] "),
        (Method::ReadResource, unknown_tool, "7 internal_error [-32603] "),
        (Method::CallTool, || panic!("at the start"), "7 panicked [panic] at the start"),
        (Method::CallTool, || Box::pin(async { panic!("later") }), "7 panicked [panic] later"),
        (
            Method::ListTools,
            || at_once(Error::new(ErrorKind::ConnectionClosed)),
            "7 connection_closed [connection_closed] ",
        ),
    ];
    for (method, run, expected) in cases {
        let mut call = start(&observers, method, false, run);
        assert!(matches!(poll(&mut call), Poll::Ready(Event::Done(_))));
        drop(call);
        let started = format!("Server {} t known=true", method.name());
        assert_eq!(log.take(), [started, expected.to_owned()]);
    }
}

#[test]
fn a_timeout_is_not_a_cancellation() {
    let log = CallLog::default();
    let observers = Observers::default().with(Counting(log.clone()));
    let mut call = start(&observers, Method::CallTool, true, || Box::pin(pending()));
    assert!(matches!(poll(&mut call), Poll::Ready(Event::Done(_))));
    drop(call);
    assert_eq!(log.take()[1..], ["7 timeout [timeout] "]);
    let mut call = start(&observers, Method::CallTool, false, || Box::pin(pending()));
    assert!(poll(&mut call).is_pending());
    drop(call);
    assert_eq!(log.take()[1..], ["7 cancelled [cancelled] "]);
}

#[test]
fn scopes_surround_every_poll_and_nest() {
    let (outer, inner) = (CallLog::default(), CallLog::default());
    let observers = Observers::default()
        .with(Scoping(outer.clone()))
        .with(Counting(inner.clone()))
        .with(Scoping(outer.clone()));
    let mut call = start(&observers, Method::CallTool, false, || at_once(ToolResult::text("x")));
    let round = ["enter", "enter", "exit", "exit"];
    let lines = outer.take();
    assert_eq!(lines[..4], ["enter", "exit", "enter", "exit"], "the start for later observers");
    assert_eq!(lines[4..], round, "the start");
    assert!(matches!(poll(&mut call), Poll::Ready(Event::Done(_))));
    let lines = outer.take();
    assert_eq!(lines[..4], round, "the poll");
    assert_eq!(lines[lines.len() - 2..], ["scope complete [] ", "scope complete [] "]);
    assert_eq!(inner.take().len(), 2);
}

#[test]
fn a_client_reports_its_side_of_the_call() {
    let log = CallLog::default();
    let observers = Observers::default().with(Counting(log.clone()));
    let service =
        ObservedService(Observers::default(), || at_once(Error::new(ErrorKind::RequestTimeout)));
    let mut call = start_for_client(&observers, &service, Method::ListTools);
    assert!(matches!(poll(&mut call), Poll::Ready(Event::Done(_))));
    let role = CallRole::Client;
    let started = format!("{role:?} tools/list  known=false");
    assert_eq!(log.take(), [started, "7 request_timeout [timeout] ".to_owned()]);
}

fn start_for_client(observers: &Observers, service: &dyn Service, method: Method) -> ActiveCall {
    let request = RequestBuilder::new(method).build();
    let deadlines = Deadlines::NONE;
    let timer = Arc::new(FixedTimer);
    let server = &ObservedServer::default();
    let protocol_version = None;
    let has_target: Option<&dyn Fn(&Request) -> bool> = Some(&|_| false);
    let client = ClientObservation {
        observers,
        server,
        protocol_version,
        has_target,
        forwards_baggage: false,
    };
    ActiveCall::start_for_client(service, request, timer, deadlines, client)
}

#[test]
fn a_client_reports_the_code_that_the_server_sent() {
    let log = CallLog::default();
    let observers = Observers::default().with(Codes(log.clone()));
    let sent = || {
        let mut error = Error::new(ErrorKind::InvalidParams);
        error.code = Some(-32602);
        at_once(error)
    };
    let local = || {
        let error = Error::new(ErrorKind::TransportError);
        at_once(error.from_client(FailureOrigin::Interrupted))
    };
    let cases: [(Method, CallFn, &str); 4] = [
        (Method::CallTool, sent, "Some(-32602) -32602"),
        (Method::CallTool, local, "None transport_error"),
        (Method::ListTools, local, "None transport_error"),
        (Method::CallTool, || at_once(ToolResult::error("x")), "None tool_error"),
    ];
    for (method, run, expected) in cases {
        let service = ObservedService(Observers::default(), run);
        let mut call = start_for_client(&observers, &service, method);
        assert!(matches!(poll(&mut call), Poll::Ready(Event::Done(_))));
        assert_eq!(log.take(), [expected]);
    }
}

#[test]
fn an_error_of_the_caller_is_no_error_of_the_server() {
    let log = CallLog::default();
    let observers = Observers::default().with(Codes(log.clone()));
    let cases: [(Method, CallFn, &str); 4] = [
        (Method::CallTool, || at_once(Error::tool_not_found("x")), "Some(-32002) -"),
        (Method::ReadResource, || at_once(Error::invalid_params("x")), "Some(-32602) -"),
        (Method::ReadResource, || at_once(Error::internal("x")), "Some(-32603) -32603"),
        (
            Method::CallTool,
            || at_once(Error::new(ErrorKind::ToolExecutionFailed)),
            "None tool_error",
        ),
    ];
    for (method, run, expected) in cases {
        assert!(matches!(poll(&mut start(&observers, method, false, run)), Poll::Ready(_)));
        assert_eq!(log.take(), [expected]);
    }
}

/// Observer of error codes and types.
struct Codes(CallLog);

impl Observer for Codes {
    fn call_started(&self, _: &CallStart<'_>) -> CallState {
        CallState::Token(0)
    }

    fn call_ended(&self, _: u64, end: &CallEnd<'_>) {
        let class = end.error_type().map_or("-".into(), CallErrorType::name);
        self.0.add(format!("{:?} {class}", end.error_code()));
    }
}

/// Observer that panics in every method.
struct Panicking;

impl Observer for Panicking {
    fn call_started(&self, _: &CallStart<'_>) -> CallState {
        CallState::Scope(Box::new(Panicking))
    }

    fn event(&self, _: &ObservedEvent<'_>) {
        panic!("event")
    }
}

impl CallScope for Panicking {
    fn run(&mut self, _: &mut dyn FnMut()) {
        panic!("run")
    }

    fn ended(&mut self, _: &CallEnd<'_>) {
        panic!("ended")
    }
}

#[test]
fn a_panic_of_an_observer_disturbs_nothing() {
    let log = CallLog::default();
    let observers = Observers::default().with(Panicking).with(Counting(log.clone()));
    let mut call = start(&observers, Method::CallTool, false, || at_once(ToolResult::text("x")));
    assert!(matches!(poll(&mut call), Poll::Ready(Event::Done(Outcome::Complete(_)))));
    assert_eq!(log.take()[1..], ["7 complete [] "]);
    observers.emit(|| ObservedEvent::Queue { running: 1, waiting: 0 });
}

#[test]
fn the_end_of_a_subscription_is_no_failure() {
    let log = CallLog::default();
    let observers = Observers::default().with(Counting(log.clone()));
    drop(start(&observers, Method::Listen, false, || Box::pin(pending())));
    assert_eq!(log.take()[1..], ["7 cancelled [] "]);
    let mut call = start(&observers, Method::Listen, false, || Box::pin(pending()));
    call.end_early(&Reply::Listened.into());
    drop(call);
    assert_eq!(log.take()[1..], ["7 complete [] "]);
}

#[test]
fn a_forwarded_call_is_reported_by_both_sides() {
    let (client, server) = (CallLog::default(), CallLog::default());
    let observers = Observers::default().with(Counting(client.clone()));
    let forward = |run: CallFn| {
        let service = ObservedService(Observers::default().with(Counting(server.clone())), run);
        let outbox = Outbox::new(Arc::new(FixedTimer), Deadlines::NONE);
        let request = RequestBuilder::new(Method::CallTool).target("t").build();
        let server = &ObservedServer::default();
        let (observers, protocol_version, has_target) = (&observers, None, None);
        let client = ClientObservation {
            observers,
            server,
            protocol_version,
            has_target,
            forwards_baggage: false,
        };
        forward_for_client(&service, request, outbox, client)
    };
    let cases: [(CallFn, &str); 3] = [
        (|| at_once(ToolResult::text("x")), "7 complete [] "),
        (|| panic!("at the start"), "7 panicked [panic] at the start"),
        (|| Box::pin(async { panic!("later") }), "7 panicked [panic] later"),
    ];
    for (run, expected) in cases {
        let mut call = forward(run);
        assert!(call.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready());
        assert_eq!(client.take()[1..], [expected]);
        assert_eq!(server.take()[1..], [expected]);
    }
    drop(forward(|| Box::pin(pending())));
    assert_eq!(
        (&client.take()[1], &server.take()[1]),
        (&"7 cancelled [cancelled] ".to_owned(), &"7 cancelled [cancelled] ".to_owned())
    );
}

#[test]
fn faults_of_the_caller_are_classified() {
    for code in [-32700, -32600, -32601, -32602, -32002] {
        assert!(CallErrorType::Code(code).is_caller_fault(), "{code}");
    }
    for other in [CallErrorType::Code(-32603), CallErrorType::ToolError, CallErrorType::Timeout] {
        assert!(!other.is_caller_fault(), "{other:?}");
    }
}

/// Observer that does not receive the bytes of messages.
struct Uncounting;

impl Observer for Uncounting {
    fn counts_bytes(&self) -> bool {
        false
    }
}

#[test]
fn bytes_are_counted_once_an_observer_wants_them() {
    let observers = Observers::default();
    assert!(!observers.count_bytes());
    let observers = observers.with(Arc::new(Uncounting));
    assert!(!observers.count_bytes());
    let observers = observers.with(Counting(CallLog::default())).with(Uncounting);
    assert!(observers.count_bytes());
}
