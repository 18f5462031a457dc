//! Concurrency limits, and the layers around the router.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crate::support::*;
use futures_util::FutureExt;
use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Error, ErrorKind, Event, LogLevel, Method, ObservedEvent,
    Observer, Outbox, Outcome, Rate, RateDecision, RateStore, Request, Service,
};
use wharf_server::{
    CallLimits, Concurrency, Ctx, MemoryRates, Middleware, Next, PanicGuard, RateKey, RateLimit,
    Rates, RawArgs, Router, RouterBuilder, Timeout, Tool, Tracing, from_fn, layered,
};

/// A tool that waits until its gate is opened.
fn waiting() -> (Tool, Arc<tokio::sync::Semaphore>) {
    let gate = Arc::new(tokio::sync::Semaphore::new(0));
    let inner = gate.clone();
    let tool = Tool::new("wait", move || {
        let gate = inner.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            "waited"
        }
    });
    (tool, gate)
}

fn is_waiting(active_call: &mut ActiveCall) -> bool {
    poll(active_call).is_pending()
}

fn is_overloaded(active_call: &mut ActiveCall) -> bool {
    match poll(active_call) {
        Poll::Ready(Event::Done(outcome)) => {
            let error = error(outcome);
            assert!(error.data.unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
            error.kind == ErrorKind::Overloaded
        }
        _ => false,
    }
}

#[tokio::test]
async fn calls_beyond_the_limit_and_the_queue_are_rejected() {
    let (tool, gate) = waiting();
    let limits = CallLimits::default().concurrent(2).queue(3);
    let router = Router::builder().limits(limits).add(tool).build().unwrap();
    let mut calls: Vec<_> = (0..6).map(|_| start(&router, call("wait", "{}"))).collect();
    assert!(is_overloaded(&mut calls[5]));
    assert!(calls[..5].iter_mut().all(is_waiting));
    assert!(
        matches!(now(&router, list(Method::ListTools)), Outcome::Complete(_)),
        "lists still work"
    );

    // Only running calls take permits from the gate, so the calls end in the order of their start.
    gate.add_permits(2);
    let rest = calls.split_off(2);
    for active_call in calls {
        assert_eq!(text(done(active_call).await), "waited");
    }
    let mut rest: Vec<_> = rest.into_iter().take(3).collect();
    assert!(rest.iter_mut().all(is_waiting));
    gate.add_permits(3);
    for active_call in rest {
        assert_eq!(text(done(active_call).await), "waited");
    }
    gate.add_permits(1);
    assert_eq!(text(done(start(&router, call("wait", "{}"))).await), "waited");
}

/// Number of waiting calls as it was last reported, and number of calls rejected by the full queue.
#[derive(Default)]
struct QueueReports {
    waiting: AtomicUsize,
    rejected: AtomicUsize,
}

impl Observer for QueueReports {
    fn event(&self, event: &ObservedEvent<'_>) {
        match event {
            ObservedEvent::Queue { waiting, .. } => self.waiting.store(*waiting, Ordering::SeqCst),
            ObservedEvent::QueueFull { running, waiting } => {
                assert_eq!((*running, *waiting), (1, 2));
                self.rejected.fetch_add(1, Ordering::SeqCst);
            }
            _ => {}
        }
    }
}

#[tokio::test]
async fn observers_receive_the_length_of_the_queue() {
    let (tool, gate) = waiting();
    let reports = Arc::new(QueueReports::default());
    let limits = CallLimits::default().concurrent(1).queue(2);
    let router = Router::builder().limits(limits).observe(reports.clone()).add(tool);
    let router = router.build().unwrap();
    let begin = || start(&router, call("wait", "{}"));
    let waiting = || reports.waiting.load(Ordering::SeqCst);
    let mut running = begin();
    assert!(is_waiting(&mut running));
    let (first, second) = (begin(), begin());
    assert_eq!((waiting(), reports.rejected.load(Ordering::SeqCst)), (2, 0));
    assert!(is_overloaded(&mut begin()));
    assert_eq!((waiting(), reports.rejected.load(Ordering::SeqCst)), (2, 1));
    drop(first);
    assert_eq!(waiting(), 1, "a call that leaves the queue does not wait");
    gate.add_permits(2);
    done(running).await;
    assert_eq!(waiting(), 0, "a call that runs does not wait");
    assert_eq!(text(done(second).await), "waited");
    let (running, first) = (begin(), begin());
    assert_eq!(waiting(), 1);
    drop((first, running));
    assert_eq!(waiting(), 0);
}

#[test]
fn the_last_report_of_the_queue_is_true() {
    let reports = Arc::new(QueueReports::default());
    let (tool, _gate) = waiting();
    let limits = CallLimits::default().concurrent(1).queue(9);
    let router = Router::builder().limits(limits).observe(reports.clone()).add(tool);
    let router = router.build().unwrap();
    let running = start_without_runtime(&router, call("wait", "{}"));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                (0..200).for_each(|_| drop(start_without_runtime(&router, call("wait", "{}"))))
            });
        }
    });
    assert_eq!(reports.waiting.load(Ordering::SeqCst), 0);
    drop(running);
}

#[tokio::test]
async fn queued_calls_run_in_order_of_arrival() {
    let began = Arc::new(Mutex::new(Vec::new()));
    let seen = began.clone();
    let tool = Tool::new("note", move |RawArgs(json): RawArgs| {
        seen.lock().unwrap().push(json.get().to_owned());
        std::future::ready("noted")
    });
    let (wait, gate) = waiting();
    let limits = CallLimits::default().concurrent(1).queue(9);
    let router = Router::builder().limits(limits).add(wait).add(tool).build().unwrap();
    let mut inside = start(&router, call("wait", "{}"));
    assert!(is_waiting(&mut inside));
    let numbered = |n| start(&router, call("note", &format!(r#"{{"n":{n}}}"#)));
    let mut line: Vec<_> = (0..9).map(numbered).collect();
    // Polled from the last to the first: the order of arrival counts, not the order of polling.
    assert!(line.iter_mut().rev().all(is_waiting));
    drop(line.remove(4));
    gate.add_permits(1);
    assert_eq!(text(done(inside).await), "waited");
    let calls: Vec<_> = line.into_iter().rev().map(|it| tokio::spawn(done(it))).collect();
    for call in calls {
        assert_eq!(text(call.await.unwrap()), "noted");
    }
    let expected = [0, 1, 2, 3, 5, 6, 7, 8].map(|n| format!(r#"{{"n":{n}}}"#));
    assert_eq!(*began.lock().unwrap(), expected);
}

#[test]
fn a_call_made_directly_releases_its_slot_too() {
    let limits = CallLimits::default().concurrent(1).queue(0);
    let router = Router::builder().limits(limits).add(Tool::inline("hello", || "hello"));
    let router = router.layer(Concurrency::new(1, 0)).build().unwrap();
    for _ in 0..3 {
        let outbox = Outbox::new(Arc::new(NeverTimer), Deadlines::default());
        let outcome = router.call(call("hello", "{}"), outbox).now_or_never().unwrap();
        assert_eq!(text(outcome), "hello");
    }
}

#[tokio::test]
async fn a_dropped_call_releases_its_slot_in_every_state() {
    let (tool, gate) = waiting();
    let limits = CallLimits::default().concurrent(1).queue(2);
    let router = Router::builder().limits(limits).add(tool).build().unwrap();
    let begin = || {
        let mut active_call = start(&router, call("wait", "{}"));
        assert!(is_waiting(&mut active_call));
        active_call
    };
    let (inside, first, second) = (begin(), begin(), begin());
    drop(first);
    let third = begin();
    drop(inside);
    // The place was given to `second`, which is dropped before it takes it.
    drop(second);
    gate.add_permits(1);
    assert_eq!(text(done(third).await), "waited");
    gate.add_permits(1);
    assert_eq!(text(done(start(&router, call("wait", "{}"))).await), "waited");
}

#[tokio::test(start_paused = true)]
async fn idle_and_total_timeouts_end_a_call() {
    let seconds = Duration::from_secs;
    let limits = CallLimits::default().idle(seconds(10)).total(seconds(100));
    let build = |silence: u64, rounds: u64| {
        let tool = Tool::new("work", move |ctx: Ctx| async move {
            for round in 0..rounds {
                tokio::time::sleep(Duration::from_secs(silence)).await;
                ctx.progress(round as f64 + 1.0).await;
            }
            "done"
        });
        Router::builder().limits(limits.clone()).add(tool).build().unwrap()
    };
    let run = async |silence, rounds| {
        let mut request = call("work", "{}");
        request.progress = true;
        let router = build(silence, rounds);
        tool(done(start(&router, request)).await)
    };
    assert!(!run(9, 2).await.is_error);
    assert!(run(11, 1).await.is_error, "idle timeout");
    assert!(!run(9, 11).await.is_error);
    assert!(run(9, 12).await.is_error, "total timeout");
}

#[tokio::test]
async fn blocking_functions_are_bounded_even_after_their_calls_are_dropped() {
    let (release, blocked) = std::sync::mpsc::channel::<()>();
    let blocked = Mutex::new(blocked);
    let (started, mut has_started) = tokio::sync::mpsc::unbounded_channel();
    let router = Router::builder()
        .limits(CallLimits::default().blocking(1))
        .add(Tool::blocking("block", move || {
            started.send(()).unwrap();
            let _ = blocked.lock().unwrap().recv();
            "done"
        }))
        .build()
        .unwrap();
    let mut first = start(&router, call("block", "{}"));
    assert!(is_waiting(&mut first));
    has_started.recv().await.unwrap();
    drop(first);
    let refused = done(start(&router, call("block", "{}"))).await;
    assert!(kind(refused).is_overloaded(), "the thread of the first still runs");
    release.send(()).unwrap();
    release.send(()).unwrap();
    loop {
        match done(start(&router, call("block", "{}"))).await {
            Outcome::Failed(_) => tokio::task::yield_now().await,
            outcome => break assert_eq!(text(outcome), "done"),
        }
    }
}

/// Layer that records the methods it sees.
struct RecordingLayer(&'static str, Arc<Mutex<Vec<String>>>);

impl Middleware for RecordingLayer {
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
        self.1.lock().unwrap().push(format!("{} {}", self.0, request.method.name()));
        next.run(request)
    }
}

fn hello() -> RouterBuilder {
    Router::builder().add(Tool::new("hello", async || "hello"))
}

#[test]
fn the_first_layer_is_the_outermost() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let router = hello()
        .layer(RecordingLayer("outer", notes.clone()))
        .layer(RecordingLayer("inner", notes.clone()))
        .build()
        .unwrap();
    assert_eq!(text(now(&router, call("hello", "{}"))), "hello");
    assert!(matches!(now(&router, list(Method::Discover)), Outcome::Complete(_)));
    assert_eq!(
        *notes.lock().unwrap(),
        ["outer tools/call", "inner tools/call", "outer server/discover", "inner server/discover"]
    );
}

#[test]
fn a_layer_may_answer_itself() {
    struct Closed;
    impl Middleware for Closed {
        fn call(&self, _: Request, _: Next) -> BoxFuture<Outcome> {
            Box::pin(async { Error::new(ErrorKind::TemporarilyUnavailable).into() })
        }
    }
    let router = hello().layer(Closed).build().unwrap();
    assert!(kind(now(&router, call("hello", "{}"))).is_temporarily_unavailable());
}

#[test]
fn a_function_is_a_layer() {
    async fn tools_only(request: Request, next: Next) -> Outcome {
        match request.method {
            Method::CallTool => next.run(request).await,
            _ => Error::new(ErrorKind::TemporarilyUnavailable).into(),
        }
    }
    let ends = Arc::new(Mutex::new(Vec::new()));
    let seen = ends.clone();
    let router = hello()
        .layer(from_fn(move |request, next| {
            let seen = seen.clone();
            async move {
                let outcome = next.run(request).await;
                seen.lock().unwrap().push(matches!(outcome, Outcome::Complete(_)));
                outcome
            }
        }))
        .layer(from_fn(tools_only))
        .build()
        .unwrap();
    assert_eq!(text(now(&router, call("hello", "{}"))), "hello");
    assert!(kind(now(&router, list(Method::ListTools))).is_temporarily_unavailable());
    assert_eq!(*ends.lock().unwrap(), [true, false]);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_layer_shortens_deadlines() {
    let slow = async || {
        tokio::time::sleep(Duration::from_secs(20)).await;
        "slept"
    };
    let build = |layer: Timeout| {
        Router::builder().add(Tool::new("slow", slow)).layer(layer).build().unwrap()
    };
    let run = async |layer| tool(done(start(&build(layer), call("slow", "{}"))).await);
    assert!(run(Timeout::new(Duration::from_secs(19))).await.is_error);
    assert!(!run(Timeout::new(Duration::from_secs(21))).await.is_error);
    assert!(run(Timeout::idle(Duration::from_secs(19))).await.is_error);
}

#[tokio::test]
async fn the_concurrency_layer_counts_every_kind_of_call() {
    let (tool, gate) = waiting();
    let router = Router::builder().add(tool).layer(Concurrency::new(1, 1)).build().unwrap();
    let mut first = start(&router, call("wait", "{}"));
    let mut second = start(&router, list(Method::ListTools));
    assert!(is_waiting(&mut first) && is_waiting(&mut second));
    assert!(is_overloaded(&mut start(&router, list(Method::ListTools))));
    gate.add_permits(1);
    assert_eq!(text(done(first).await), "waited");
    assert!(matches!(done(second).await, Outcome::Complete(_)));
}

fn rates(calls: f64, tool_calls: f64) -> Rates {
    let rate = |burst| Rate { per_second: 0.001, burst };
    Rates::default().calls(rate(calls)).tool_calls(rate(tool_calls))
}

#[test]
fn rates_are_counted_per_caller() {
    let limits = CallLimits::default().rates(Some(rates(3.0, 2.0)));
    let router = hello().limits(limits).build().unwrap();
    let run = |name: &str| now(&router, by(call("hello", "{}"), name));
    assert_eq!(text(run("alice")), "hello");
    assert_eq!(text(run("alice")), "hello");
    let refused = error(run("alice"));
    assert_eq!(refused.kind, ErrorKind::RateLimited);
    assert!(refused.data.unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
    assert!(kind(now(&router, by(list(Method::ListTools), "alice"))).is_rate_limited());
    assert_eq!(text(run("bob")), "hello");
}

#[test]
fn a_transport_sets_the_caller_of_an_anonymous_call() {
    let router = hello().layer(RateLimit::new(rates(1.0, 1.0))).build().unwrap();
    let from = |address: &str| {
        let mut request = call("hello", "{}");
        request.scope.insert(RateKey(address.into()));
        now(&router, request)
    };
    assert_eq!(text(from("10.0.0.1")), "hello");
    assert!(kind(from("10.0.0.1")).is_rate_limited());
    assert_eq!(text(from("10.0.0.2")), "hello");
    for _ in 0..3 {
        assert_eq!(text(now(&router, call("hello", "{}"))), "hello", "an anonymous call");
    }
}

/// Rate store with a delay, like a remote one.
struct RemoteRates(MemoryRates);

impl RateStore for RemoteRates {
    fn take(&self, key: &str, rate: Rate) -> RateDecision {
        let taking = self.0.take(key, rate);
        RateDecision::Later(Box::pin(async move {
            tokio::task::yield_now().await;
            taking.taken().await
        }))
    }
}

#[tokio::test]
async fn rates_may_be_counted_in_a_remote_store() {
    let store = Arc::new(RemoteRates(MemoryRates::default()));
    let limit = RateLimit::new(rates(3.0, 2.0)).store(store);
    let router = hello().layer(limit).build().unwrap();
    let run = |request| done(start(&router, by(request, "alice")));
    assert_eq!(text(run(call("hello", "{}")).await), "hello");
    assert_eq!(text(run(call("hello", "{}")).await), "hello");
    assert!(kind(run(call("hello", "{}")).await).is_rate_limited(), "two tools");
    assert!(kind(run(list(Method::ListTools)).await).is_rate_limited(), "three calls");
}

#[test]
fn any_service_can_have_a_layer() {
    let router = hello().build().unwrap();
    let limited = layered(router.clone(), RateLimit::new(rates(1.0, 1.0)));
    let run = || {
        let request = by(call("hello", "{}"), "alice");
        let forever = Deadlines::NONE;
        match poll(&mut ActiveCall::start(&limited, request, Arc::new(NeverTimer), forever)) {
            Poll::Ready(Event::Done(outcome)) => outcome,
            other => panic!("not done in one poll: {other:?}"),
        }
    };
    assert_eq!(text(run()), "hello");
    assert!(kind(run()).is_rate_limited());
    // The service behind the layer is unchanged.
    assert_eq!(text(now(&router, by(call("hello", "{}"), "alice"))), "hello");
}

#[test]
fn the_panic_guard_shows_panics_to_outer_layers() {
    struct Count(Arc<AtomicUsize>);
    impl Middleware for Count {
        fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
            let count = self.0.clone();
            Box::pin(async move {
                let outcome = next.run(request).await;
                count.fetch_add(1, Ordering::SeqCst);
                outcome
            })
        }
    }
    fn boom() -> String {
        panic!("boom")
    }
    let seen = Arc::new(AtomicUsize::new(0));
    let router = Router::builder()
        .add(Tool::new("future", async || boom()))
        .add(Tool::inline("inline", boom))
        .layer(Count(seen.clone()))
        .layer(PanicGuard)
        .build()
        .unwrap();
    assert!(tool(now(&router, call("future", "{}"))).is_error);
    assert!(tool(now(&router, call("inline", "{}"))).is_error);
    assert_eq!(seen.load(Ordering::SeqCst), 2);
}

#[test]
fn tracing_passes_calls_through() {
    let router = hello().observe(Tracing).build().unwrap();
    assert_eq!(text(now(&router, call("hello", "{}"))), "hello");
}

#[test]
fn a_server_without_logging_sends_no_logs() {
    let build = |logging| {
        let tool = Tool::new("log", async |ctx: Ctx| ctx.info("hello").await);
        Router::builder().logging(logging).add(tool).build().unwrap()
    };
    let first = |logging| {
        let mut request = call("log", "{}");
        request.log_level = Some(LogLevel::Debug);
        poll(&mut start_without_runtime(&build(logging), request))
    };
    assert!(matches!(first(true), Poll::Ready(Event::Notify(_))));
    assert!(matches!(first(false), Poll::Ready(Event::Done(_))));
}

#[cfg(feature = "tower")]
mod tower {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        task::{Context, Poll},
    };

    use tower_layer::Layer;
    use tower_service::Service;
    use wharf_model::Request;
    use wharf_server::TowerLayer;

    use super::*;

    /// A stateful layer, as real ones are.
    #[derive(Clone)]
    struct Count<S>(S, Arc<AtomicUsize>);

    struct CountLayer(Arc<AtomicUsize>);

    impl<S> Layer<S> for CountLayer {
        type Service = Count<S>;

        fn layer(&self, inner: S) -> Count<S> {
            self.0.fetch_add(100, Ordering::SeqCst);
            Count(inner, self.0.clone())
        }
    }

    impl<S: Service<Request>> Service<Request> for Count<S> {
        type Response = S::Response;
        type Error = S::Error;
        type Future = S::Future;

        fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
            self.0.poll_ready(cx)
        }

        fn call(&mut self, call: Request) -> S::Future {
            self.1.fetch_add(1, Ordering::SeqCst);
            self.0.call(call)
        }
    }

    #[test]
    fn tower_layers_wrap_the_router_once_and_see_every_call() {
        let count = Arc::new(AtomicUsize::new(0));
        let notes = Arc::new(Mutex::new(Vec::new()));
        let router = hello()
            .layer(TowerLayer::new(CountLayer(count.clone())))
            .layer(RecordingLayer("inside", notes.clone()))
            .layer(TowerLayer::new(CountLayer(count.clone())))
            .build()
            .unwrap();
        for _ in 0..3 {
            assert_eq!(text(now(&router, call("hello", "{}"))), "hello");
        }
        assert_eq!(count.load(Ordering::SeqCst), 206);
        assert_eq!(notes.lock().unwrap().len(), 3);
    }
}
