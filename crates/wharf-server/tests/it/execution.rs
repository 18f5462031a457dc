//! Execution of handlers: threads, timeouts and concurrency.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::support::*;
use schemars::JsonSchema;
use serde::Deserialize;
use wharf_model::{ErrorKind, Event, InputMode, Peer, ToolResult};
use wharf_server::{Args, CallLimits, ClientRequestError, Ctx, Router, Tool};

#[derive(Deserialize, JsonSchema)]
struct Add {
    a: i64,
    b: i64,
}

fn with(tool: Tool) -> Router {
    Router::builder().add(tool).build().unwrap()
}

#[tokio::test]
async fn blocking_functions_run_on_other_threads() {
    let here = std::thread::current().id();
    let router = Router::builder()
        .add(Tool::blocking("elsewhere", move || std::thread::current().id() != here))
        .add(Tool::blocking("boom", || -> String { panic!("secret") }))
        .build()
        .unwrap();
    assert_eq!(text(done(start(&router, call("elsewhere", "{}"))).await), "true");
    let result = crate::support::tool(done(start(&router, call("boom", "{}"))).await);
    assert!(result.is_error && !format!("{result:?}").contains("secret"));
}

#[test]
fn blocking_functions_need_no_runtime() {
    let router = with(Tool::blocking("add", |Args(Add { a, b }): Args<Add>| a + b));
    let mut active_call = start_without_runtime(&router, call("add", r#"{"a":20,"b":22}"#));
    let (wake, woken) = std::sync::mpsc::channel();
    struct Wake(std::sync::mpsc::Sender<()>);
    impl std::task::Wake for Wake {
        fn wake(self: Arc<Self>) {
            let _ = self.0.send(());
        }
    }
    let waker = Arc::new(Wake(wake)).into();
    let mut cx = std::task::Context::from_waker(&waker);
    loop {
        match active_call.poll_event(&mut cx) {
            std::task::Poll::Ready(Event::Done(outcome)) => break assert_eq!(text(outcome), "42"),
            std::task::Poll::Ready(other) => panic!("{other:?}"),
            std::task::Poll::Pending => woken.recv().unwrap(),
        }
    }
}

#[tokio::test]
async fn a_blocking_function_can_detect_cancellation() {
    let (seen, mut saw) = tokio::sync::mpsc::unbounded_channel();
    let router = with(Tool::blocking("wait", move |ctx: Ctx| {
        seen.send("started").unwrap();
        while !ctx.is_cancelled() {
            std::thread::yield_now();
        }
        seen.send("cancelled").unwrap();
    }));
    let mut active_call = start(&router, call("wait", "{}"));
    assert!(poll(&mut active_call).is_pending());
    assert_eq!(saw.recv().await, Some("started"));
    drop(active_call);
    assert_eq!(saw.recv().await, Some("cancelled"));
}

#[tokio::test]
async fn dropping_the_call_drops_the_future_of_the_handler() {
    struct Guard(Arc<AtomicUsize>);
    impl Drop for Guard {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }
    let dropped = Arc::new(AtomicUsize::new(0));
    let count = dropped.clone();
    let router = with(Tool::new("hang", move || {
        let guard = Guard(count.clone());
        async move {
            let _guard = guard;
            std::future::pending::<()>().await;
        }
    }));
    let mut active_call = start(&router, call("hang", "{}"));
    assert!(poll(&mut active_call).is_pending());
    assert_eq!(dropped.load(Ordering::SeqCst), 0);
    drop(active_call);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_timeout_ends_it_with_an_error_result() {
    let slow = async || {
        tokio::time::sleep(Duration::from_secs(200)).await;
        "slept"
    };
    let router = Router::builder()
        .add(Tool::new("hasty", slow).timeout(Duration::from_secs(199)))
        .add(Tool::new("patient", slow).timeout(Duration::from_secs(201)))
        .add(Tool::new("usual", slow))
        .build()
        .unwrap();
    let result = crate::support::tool(done(start(&router, call("hasty", "{}"))).await);
    assert_eq!(result, ToolResult::error(ErrorKind::ToolTimeout.message()));
    assert_eq!(text(done(start(&router, call("patient", "{}"))).await), "slept");
    assert!(crate::support::tool(done(start(&router, call("usual", "{}"))).await).is_error);
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_tool_starts_with_its_execution() {
    let sleep = |seconds| {
        move || async move {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            "slept"
        }
    };
    let limits = CallLimits::default().concurrent(1);
    let router = Router::builder()
        .limits(limits)
        .add(Tool::new("first", sleep(30)))
        .add(Tool::new("hasty", sleep(6)).timeout(Duration::from_secs(5)))
        .add(Tool::new("patient", sleep(6)).timeout(Duration::from_secs(7)))
        .build()
        .unwrap();
    for (second, takes, fails) in [("hasty", 35, true), ("patient", 36, false)] {
        let started = tokio::time::Instant::now();
        let first = tokio::spawn(done(start(&router, call("first", "{}"))));
        let second = crate::support::tool(done(start(&router, call(second, "{}"))).await);
        assert_eq!(second.is_error, fails);
        assert_eq!(started.elapsed().as_secs(), takes);
        first.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_for_a_response_does_not_count_for_the_tool() {
    async fn ask(ctx: Ctx) -> Result<&'static str, ClientRequestError> {
        ctx.roots("roots").await?;
        tokio::time::sleep(Duration::from_secs(4)).await;
        Ok("asked")
    }
    let tool = |name, seconds| Tool::new(name, ask).timeout(Duration::from_secs(seconds));
    let limits = CallLimits::default().total(Duration::from_secs(600));
    let router = Router::builder().limits(limits).add(tool("hasty", 3)).add(tool("patient", 5));
    let router = router.build().unwrap();
    let asking = |name: &str| {
        let roots = serde_json::from_value(serde_json::json!({"roots": {}})).unwrap();
        let mut request = call(name, "{}").from_peer(Arc::new(Peer::new(None, roots)));
        request.asks = InputMode::Deliver;
        start(&router, request)
    };
    for (name, fails) in [("hasty", true), ("patient", false)] {
        let mut active_call = asking(name);
        let Event::ClientRequest(id, _) = next(&mut active_call).await else { panic!() };
        assert!(
            tokio::time::timeout(Duration::from_secs(60), next(&mut active_call)).await.is_err()
        );
        assert!(active_call.response_sender().deliver(id, Ok(r#"{"roots":[]}"#.into())));
        assert_eq!(tool_of(active_call).await.is_error, fails, "{name}");
    }
    // A client cannot keep a call open forever by not responding.
    let started = tokio::time::Instant::now();
    assert!(tool_of(asking("patient")).await.is_error);
    assert_eq!(started.elapsed().as_secs(), 600);
}

#[tokio::test]
async fn a_panicking_destructor_does_not_affect_other_calls() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in a destructor");
        }
    }
    let limits = CallLimits::default().concurrent(1).queue(0);
    let router = Router::builder()
        .limits(limits)
        .add(Tool::new("cancelled", async |_: Ctx| {
            let _bomb = Bomb;
            std::future::pending::<()>().await;
        }))
        .add(Tool::new("done", async || drop(Bomb)))
        .add(Tool::inline("fine", || "fine"))
        .build()
        .unwrap();
    let mut active_call = start(&router, call("cancelled", "{}"));
    assert!(poll(&mut active_call).is_pending());
    drop(active_call);
    assert_eq!(text(done(start(&router, call("fine", "{}"))).await), "fine");
    assert!(tool_of(start(&router, call("done", "{}"))).await.is_error);
    assert_eq!(text(done(start(&router, call("fine", "{}"))).await), "fine");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn the_concurrency_limit_holds_and_every_call_runs() {
    let (inside, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (count, highest) = (inside.clone(), most.clone());
    let tool = Tool::new("busy", move || {
        let (count, highest) = (count.clone(), highest.clone());
        async move {
            let now = count.fetch_add(1, Ordering::SeqCst) + 1;
            highest.fetch_max(now, Ordering::SeqCst);
            for _ in 0..3 {
                tokio::task::yield_now().await;
            }
            count.fetch_sub(1, Ordering::SeqCst);
        }
    });
    let limits = CallLimits::default().concurrent(4).queue(10_000);
    let router = Router::builder().limits(limits).add(tool).build().unwrap();
    let calls: Vec<_> = (0..2_000)
        .map(|n| {
            let active_call = start(&router, call("busy", "{}"));
            tokio::spawn(async move {
                match n % 5 {
                    // Some calls are dropped before they start.
                    0 => drop(active_call),
                    _ => assert!(!tool_of(active_call).await.is_error),
                }
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert!((1..=4).contains(&most.load(Ordering::SeqCst)));
    assert_eq!(inside.load(Ordering::SeqCst), 0);
    // All places are free again.
    let mut last: Vec<_> = (0..4).map(|_| start(&router, call("busy", "{}"))).collect();
    assert!(last.iter_mut().all(|active_call| poll(active_call).is_pending()));
    assert_eq!(inside.load(Ordering::SeqCst), 4);
}

async fn tool_of(active_call: wharf_model::ActiveCall) -> ToolResult {
    crate::support::tool(done(active_call).await)
}
