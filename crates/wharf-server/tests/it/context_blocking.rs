//! The context of a blocking handler, used on its own thread.

use std::{
    sync::{Arc, Mutex, mpsc},
    time::Duration,
};

use crate::context_support::*;
use serde_json::json;
use wharf_model::{
    ActiveCall, ElicitResult, ErrorKind, Event, InputMode, LogLevel, Notification, Outcome,
    RootsResult,
};
use wharf_server::{ClientRequestError, Ctx, HandlerTest, PanicGuard, State, Tool};

const BOTH: [InputMode; 2] = [InputMode::Deliver, InputMode::Suspend];

fn deploy(State(runs): State<Counter>, ctx: Ctx) -> Result<String, ClientRequestError> {
    let run = runs.hit();
    ctx.block_on(ctx.progress(1.0));
    ctx.block_on(ctx.info("asking"));
    let confirm: Confirm = ctx.block_on(ctx.ask("confirm", "Sure?"))?;
    let roots = ctx.block_on(ctx.roots("roots"))?;
    Ok(format!("{run} {} {}", confirm.sure, roots.len()))
}

#[tokio::test]
async fn it_sends_client_requests_in_both_input_modes() {
    for (asks, expected) in [(InputMode::Deliver, "1 true 0"), (InputMode::Suspend, "3 true 0")] {
        let runs = Counter::default();
        let tool = Tool::blocking("deploy", deploy);
        let router = builder(tool).state(runs.clone()).build().unwrap();
        let test = HandlerTest::tool(&router, "deploy")
            .answer("confirm", sure())
            .answer("roots", RootsResult::new([]));
        let report = test.run(asks).await;
        assert_eq!(report.text(), expected);
        assert_eq!(report.asked(), ["confirm", "roots"]);
        let declined =
            HandlerTest::tool(&router, "deploy").answer("confirm", ElicitResult::decline());
        assert_eq!(declined.run(asks).await.text(), ClientRequestError::Declined.to_string());
    }
}

async fn next(active_call: &mut ActiveCall) -> Event {
    std::future::poll_fn(|cx| active_call.poll_event(cx)).await
}

#[tokio::test]
async fn progress_and_logs_are_sent_while_it_runs() {
    let (go, gone) = mpsc::channel::<()>();
    let gone = Arc::new(Mutex::new(gone));
    let tool = Tool::blocking("tool", move |ctx: Ctx| {
        ctx.block_on(ctx.progress_of(1.0, 2.0));
        gone.lock().unwrap().recv().unwrap();
        ctx.block_on(ctx.info("almost"));
        "done"
    });
    let mut request = suspending(call("tool"));
    (request.progress, request.log_level) = (true, Some(LogLevel::Info));
    let mut active_call = start(&router(tool), request, &FakeTimer::default());
    let first = next(&mut active_call).await;
    assert!(matches!(first, Event::Notify(Notification::Progress { .. })), "{first:?}");
    go.send(()).unwrap();
    let second = next(&mut active_call).await;
    assert!(matches!(second, Event::Notify(Notification::Log { .. })), "{second:?}");
    let Event::Done(outcome) = next(&mut active_call).await else { panic!() };
    assert_eq!(text(outcome), "done");
}

#[tokio::test]
async fn a_client_request_ends_with_its_call() {
    for asks in BOTH {
        let (tell, told) = mpsc::channel();
        let tell = Mutex::new(tell);
        let tool = Tool::blocking("tool", move |ctx: Ctx| {
            let answer = ctx.block_on(ctx.ask::<Confirm>("c", "Sure?"));
            tell.lock().unwrap().send(answer.map(|it| it.sure)).unwrap();
        });
        let mut request = suspending(call("tool"));
        request.asks = asks;
        let mut active_call = start(&router(tool), request, &FakeTimer::default());
        let event = next(&mut active_call).await;
        match asks {
            InputMode::Suspend => assert!(matches!(event, Event::Done(Outcome::InputRequired(_)))),
            _ => assert!(matches!(event, Event::ClientRequest(..)), "{event:?}"),
        }
        drop((active_call, event));
        let answer = told.recv_timeout(Duration::from_secs(10)).unwrap();
        assert_eq!(answer, Err(ClientRequestError::Suspended));
    }
}

#[test]
fn block_on_panics_where_it_would_deadlock() {
    let inline = Tool::inline("tool", |ctx: Ctx| ctx.block_on(ctx.info("never")));
    let awaiting = Tool::new("tool", async |ctx: Ctx| ctx.block_on(async { json!(1).to_string() }));
    for tool in [inline, awaiting] {
        let router = builder(tool).layer(PanicGuard).build().unwrap();
        let outcome = end(&router, suspending(call("tool")), &FakeTimer::default());
        assert_eq!(text(outcome), ErrorKind::ToolPanicked.message());
    }
}
