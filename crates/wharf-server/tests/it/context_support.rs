//! A clock that tests control, and calls driven by hand.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
    time::{Duration, Instant, SystemTime},
};

use serde_json::{Value, json};
use wharf_model::{
    ActiveCall, BoxFuture, ClientCapabilities, Deadlines, ElicitResult, Event, InputMode,
    InputRequired, Method, Outcome, Peer, Request, RequestBuilder, Timer,
};
use wharf_server::{Router, RouterBuilder, Tool};

#[derive(serde::Deserialize, serde::Serialize, schemars::JsonSchema, Debug)]
pub(crate) struct Confirm {
    pub(crate) sure: bool,
}

pub(crate) fn sure() -> ElicitResult {
    ElicitResult::accept(json!({"sure": true}))
}

pub(crate) fn router(part: impl Into<wharf_server::Part>) -> Router {
    builder(part).build().unwrap()
}

pub(crate) fn builder(part: impl Into<wharf_server::Part>) -> RouterBuilder {
    Router::builder().add(part)
}

/// Counts effects.
#[derive(Clone, Default)]
pub(crate) struct Counter(Arc<AtomicUsize>);

impl Counter {
    pub(crate) fn hit(&self) -> usize {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

/// A clock that advances only by `advance`.
#[derive(Clone)]
pub(crate) struct FakeTimer(Arc<Mutex<FakeTimerState>>);

struct FakeTimerState {
    started: (Instant, SystemTime),
    passed: Duration,
    sleepers: Vec<Waker>,
}

impl Default for FakeTimer {
    fn default() -> Self {
        let started = (Instant::now(), SystemTime::now());
        FakeTimer(Arc::new(Mutex::new(FakeTimerState {
            started,
            passed: Duration::ZERO,
            sleepers: vec![],
        })))
    }
}

impl FakeTimer {
    pub(crate) fn advance(&self, by: Duration) {
        let mut fake = self.0.lock().unwrap();
        fake.passed += by;
        let sleepers = std::mem::take(&mut fake.sleepers);
        drop(fake);
        sleepers.into_iter().for_each(Waker::wake);
    }
}

impl Timer for FakeTimer {
    fn now(&self) -> Instant {
        let fake = self.0.lock().unwrap();
        fake.started.0 + fake.passed
    }

    fn wall(&self) -> SystemTime {
        let fake = self.0.lock().unwrap();
        fake.started.1 + fake.passed
    }

    fn sleep_until(&self, deadline: Instant) -> BoxFuture<()> {
        let timer = self.clone();
        Box::pin(poll_fn(move |cx| {
            if timer.now() >= deadline {
                return Poll::Ready(());
            }
            timer.0.lock().unwrap().sleepers.push(cx.waker().clone());
            Poll::Pending
        }))
    }
}

pub(crate) fn everything() -> ClientCapabilities {
    let all = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
    serde_json::from_value(all).unwrap()
}

/// A request with input mode `Suspend`, from a client with all capabilities.
pub(crate) fn suspending(request: RequestBuilder) -> Request {
    let mut request = request.build().from_peer(Arc::new(Peer::new(None, everything())));
    request.asks = InputMode::Suspend;
    request
}

pub(crate) fn call(name: &str) -> RequestBuilder {
    RequestBuilder::new(Method::CallTool).target(name)
}

pub(crate) fn start(router: &Router, request: Request, timer: &FakeTimer) -> ActiveCall {
    let forever = Deadlines::NONE;
    ActiveCall::start(router, request, Arc::new(timer.clone()), forever)
}

/// All pending events; the last one may be the end of the call.
pub(crate) fn events(active_call: &mut ActiveCall) -> Vec<Event> {
    let mut cx = Context::from_waker(Waker::noop());
    let mut events = vec![];
    while !matches!(events.last(), Some(Event::Done(_))) {
        match active_call.poll_event(&mut cx) {
            Poll::Ready(event) => events.push(event),
            Poll::Pending => break,
        }
    }
    events
}

/// The outcome of a call that does not wait for real time.
pub(crate) fn end(router: &Router, request: Request, timer: &FakeTimer) -> Outcome {
    match events(&mut start(router, request, timer)).pop() {
        Some(Event::Done(outcome)) => outcome,
        other => panic!("not done: {other:?}"),
    }
}

pub(crate) fn required(outcome: Outcome) -> InputRequired {
    match outcome {
        Outcome::InputRequired(required) => *required,
        other => panic!("not suspended: {other:?}"),
    }
}

pub(crate) fn text(outcome: Outcome) -> String {
    wharf_server::HandlerTestReport::from(outcome).text()
}

pub(crate) fn answers(pairs: Value) -> String {
    pairs.to_string()
}

pub(crate) fn tool<A, F>(handler: F) -> Tool
where
    F: wharf_server::Handler<A>,
    F::Output: wharf_server::IntoToolOutcome,
    A: wharf_server::Extract + Send + 'static,
{
    Tool::new("tool", handler)
}
