//! Progress, logs and the metadata of a call, seen by a handler.

use std::time::Duration;

use crate::context_support::*;
use serde_json::json;
use wharf_model::{
    ActiveCall, Event, LogLevel, Notification, Outcome, Principal, Reply, RequestBuilder,
};
use wharf_server::{CallLimits, Ctx, State, Tool};

fn progress(event: &Event) -> Option<f64> {
    match event {
        Event::Notify(Notification::Progress { progress, .. }) => Some(*progress),
        _ => None,
    }
}

fn values(events: &[Event]) -> Vec<f64> {
    events.iter().filter_map(progress).collect()
}

fn watching(request: RequestBuilder) -> wharf_model::Request {
    let mut request = suspending(request);
    request.progress = true;
    request
}

#[derive(Clone, Default)]
struct ReportGate(std::sync::Arc<tokio::sync::Notify>);

/// Reports 1 to 300, waits, and reports 301 to 310.
async fn busy(State(gate): State<ReportGate>, ctx: Ctx) -> &'static str {
    for n in 1..=300 {
        ctx.progress_of(f64::from(n), 310.0).await;
    }
    gate.0.notified().await;
    for n in 301..=310 {
        ctx.progress(f64::from(n)).await;
    }
    "done"
}

fn started(gate: &ReportGate, timer: &FakeTimer) -> ActiveCall {
    let router = builder(Tool::new("tool", busy)).state(gate.clone()).build().unwrap();
    start(&router, watching(call("tool")), timer)
}

#[test]
fn progress_is_rate_limited_and_ends_with_the_last_value() {
    let (gate, timer) = (ReportGate::default(), FakeTimer::default());
    let mut active_call = started(&gate, &timer);
    let burst = values(&events(&mut active_call));
    assert_eq!((burst.len(), burst.last()), (256, Some(&256.0)));
    timer.advance(Duration::from_millis(99));
    assert!(events(&mut active_call).is_empty());
    timer.advance(Duration::from_millis(1));
    assert_eq!(values(&events(&mut active_call)), [300.0], "the last value wins");
    timer.advance(Duration::from_millis(100));
    assert!(events(&mut active_call).is_empty(), "nothing is pending any more");
    gate.0.notify_one();
    let end = events(&mut active_call);
    assert_eq!(values(&end), [301.0, 310.0], "one token, and the final one always");
    assert!(matches!(end.last(), Some(Event::Done(_))));
}

#[test]
fn the_limits_of_progress_can_be_set() {
    async fn count(ctx: Ctx) -> &'static str {
        for n in 1..=9 {
            ctx.progress(f64::from(n)).await;
        }
        "done"
    }
    for (burst, expected) in [(8, 9), (9, 9), (3, 4)] {
        let limits = CallLimits::default().progress_burst(burst).progress_rate(0);
        let router = builder(tool(count)).limits(limits).build().unwrap();
        let events = events(&mut start(&router, watching(call("tool")), &FakeTimer::default()));
        assert_eq!(values(&events).len(), expected, "a burst of {burst}, and the final one");
    }
}

#[test]
fn progress_that_does_not_increase_is_dropped() {
    async fn handler(ctx: Ctx) -> &'static str {
        for n in [1.0, 1.0, 0.5, f64::NAN, f64::INFINITY, 2.0] {
            ctx.progress_message(n, None, "text").await;
        }
        "done"
    }
    let router = router(tool(handler));
    let timer = FakeTimer::default();
    assert_eq!(values(&events(&mut start(&router, watching(call("tool")), &timer))), [1.0, 2.0]);
    let quiet = events(&mut start(&router, suspending(call("tool")), &timer));
    assert!(values(&quiet).is_empty(), "progress was not requested");
}

#[test]
fn progress_is_flushed_before_a_suspension() {
    async fn handler(ctx: Ctx) -> &'static str {
        ctx.progress(1.0).await;
        ctx.progress(2.0).await;
        let _ = ctx.roots("r").await;
        "done"
    }
    let limits = CallLimits::default().progress_burst(1);
    let router = builder(tool(handler)).limits(limits).build().unwrap();
    let events = events(&mut start(&router, watching(call("tool")), &FakeTimer::default()));
    assert_eq!(values(&events), [1.0, 2.0]);
    assert!(matches!(events.last(), Some(Event::Done(Outcome::InputRequired(_)))));
}

async fn chatty(ctx: Ctx) -> &'static str {
    ctx.debug("d").await;
    ctx.info("i").await;
    ctx.notice("n").await;
    let db = ctx.logger("db");
    db.warning(json!({"slow": true})).await;
    db.error("e").await;
    db.log(LogLevel::Emergency, 1).await;
    "done"
}

fn logs(events: Vec<Event>) -> Vec<String> {
    let log = |event| match event {
        Event::Notify(Notification::Log { level, logger, data }) => {
            Some(format!("{} {} {data}", level.as_str(), logger.unwrap_or_default()))
        }
        _ => None,
    };
    events.into_iter().filter_map(log).collect()
}

#[test]
fn logs_are_sent_from_the_requested_level_up() {
    let router = router(tool(chatty));
    let logged = |level| {
        let mut request = suspending(call("tool"));
        request.log_level = level;
        logs(events(&mut start(&router, request, &FakeTimer::default())))
    };
    assert!(logged(None).is_empty());
    assert_eq!(logged(Some(LogLevel::Debug)).len(), 6);
    let expected = [r#"warning db {"slow":true}"#, r#"error db "e""#, "emergency db 1"];
    assert_eq!(logged(Some(LogLevel::Warning)), expected);
}

#[test]
fn a_server_that_declared_no_logging_sends_none() {
    let router = builder(tool(chatty)).logging(false).build().unwrap();
    let mut request = suspending(call("tool"));
    request.log_level = Some(LogLevel::Debug);
    assert!(logs(events(&mut start(&router, request, &FakeTimer::default()))).is_empty());
}

#[test]
fn a_handler_reads_the_metadata_of_its_call() {
    #[derive(Clone)]
    struct Tenant(&'static str);
    async fn handler(ctx: Ctx) -> String {
        let meta = ctx.meta().unwrap();
        format!(
            "{} {} {} {} {} {}",
            ctx.principal().unwrap().id(),
            ctx.extension::<Tenant>().unwrap().0,
            ctx.trace_context().unwrap(),
            meta["k"],
            ctx.is_cancelled(),
            ctx.client().capabilities.roots.is_some(),
        )
    }
    let router = router(tool(handler));
    let traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let meta = format!(r#"{{"traceparent":"{traceparent}","k":1}}"#);
    let mut request = suspending(call("tool").meta(&meta));
    request.scope.insert(Principal::new("alice"));
    request.scope.insert(Tenant("acme"));
    let outcome = end(&router, request, &FakeTimer::default());
    assert_eq!(text(outcome), format!("alice acme {traceparent} 1 false true"));
}

#[test]
fn a_handler_can_change_what_the_server_offers() {
    async fn handler(ctx: Ctx) -> &'static str {
        ctx.registry().add(Tool::new("new", async || "hello")).unwrap();
        "added"
    }
    let (router, timer) = (router(tool(handler)), FakeTimer::default());
    end(&router, suspending(call("tool")), &timer);
    let outcome = end(&router, suspending(call("new")), &timer);
    assert!(matches!(outcome, Outcome::Complete(Reply::Tool(_))));
}

#[test]
fn a_cancelled_call_drops_its_handler() {
    struct Dropped(Counter);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.hit();
        }
    }
    async fn handler(State(counter): State<Counter>, ctx: Ctx) -> &'static str {
        let _dropped = Dropped(counter);
        ctx.cancelled().await;
        "never"
    }
    let counter = Counter::default();
    let router = builder(tool(handler)).state(counter.clone()).build().unwrap();
    let mut active_call = start(&router, suspending(call("tool")), &FakeTimer::default());
    assert!(events(&mut active_call).is_empty());
    drop(active_call);
    assert_eq!(counter.count(), 1);
}

#[test]
fn release_connection_is_an_event_and_has_no_other_effect() {
    async fn long(State(gate): State<ReportGate>, ctx: Ctx) -> &'static str {
        ctx.release_connection();
        gate.0.notified().await;
        "done"
    }
    let (gate, timer) = (ReportGate::default(), FakeTimer::default());
    let router = builder(Tool::new("tool", long)).state(gate.clone()).build().unwrap();
    let mut active_call = start(&router, suspending(call("tool")), &timer);
    assert!(matches!(events(&mut active_call)[..], [Event::ConnectionMayClose]));
    gate.0.notify_one();
    assert!(matches!(events(&mut active_call)[..], [Event::Done(Outcome::Complete(_))]));
}
