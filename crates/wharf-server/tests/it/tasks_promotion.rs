//! Promotion: calls that become tasks while they run.

use crate::task_support::*;
use serde_json::json;
use wharf_model::{
    ErrorKind, Event, InputMode, LogLevel, Notification, Outcome, TaskRequest, TaskStatus,
};
use wharf_server::{
    ClientRequestError, Ctx, Router, State, StepError, TaskMode, TaskOptions, Tool, ToolError,
};

async fn takes(ctx: Ctx, time: u64) -> String {
    tokio::time::sleep(seconds(time)).await;
    ctx.task_id().is_some().to_string()
}

fn options() -> TaskOptions {
    quick().threshold(Some(seconds(10)))
}

fn router(test_stores: &TestStores, effects: &Counter) -> Router {
    let server = test_stores.server().tasks(options()).state(effects.clone());
    let router = server
        .add(Tool::new("short", |ctx: Ctx| takes(ctx, 5)))
        .add(Tool::new("long", |ctx: Ctx| takes(ctx, 20)))
        .add(Tool::new("never", |ctx: Ctx| takes(ctx, 20)).task(TaskMode::forbidden()))
        .add(
            Tool::new("after", |ctx: Ctx| takes(ctx, 5))
                .task(TaskMode::optional().after(seconds(2))),
        )
        .add(Tool::new("bare", async || {
            tokio::time::sleep(seconds(20)).await;
            "bare"
        }))
        .add(Tool::new("detaches", detaches).task(TaskMode::optional().on_detach()))
        .build()
        .unwrap();
    router.start_tasks(&timer());
    router
}

/// Sends a client request, runs a step, detaches, runs another step, sends another client request.
async fn detaches(State(effects): State<Counter>, ctx: Ctx) -> Result<String, ToolError> {
    let before: Confirm = ctx.ask("before", "Before?").await?;
    let first = ctx.step("first", async { effects.hit() }).await;
    ctx.detach().await?;
    let second = ctx.step("second", async { effects.hit() }).await;
    tokio::time::sleep(seconds(60)).await;
    let after: Confirm = ctx.ask("after", "After?").await?;
    Ok(format!("{} {first} {second} {} {}", before.sure, after.sure, ctx.task_id().is_some()))
}

#[tokio::test(start_paused = true)]
async fn a_long_call_is_promoted_to_a_task() {
    let router = router(&TestStores::new(), &Counter::default());
    let client = client(&router);
    assert_eq!(text(&result(client.call("short").await)), "false");
    assert_eq!(text(&result(client.call("never").await)), "false");
    for (tool, said) in [("long", "true"), ("after", "true"), ("bare", "bare")] {
        let task = client.task(tool).await;
        assert_eq!(task.status(), TaskStatus::Working);
        pass(seconds(21)).await;
        assert_eq!(completed_text(&client.get(&task.id).await), said);
    }
    // Only callers that support tasks get one.
    for tasking in [TaskRequest::Unknown, TaskRequest::Declined] {
        assert_eq!(text(&result(client.with_tasking(tasking).call("long").await)), "false");
    }
    // A caller that requests a task gets it at once if the tool allows tasks.
    let wants = client.with_tasking(TaskRequest::Wanted(None));
    assert_eq!(wants.task("after").await.status(), TaskStatus::Working);
    assert_eq!(error(wants.call("long").await).kind, ErrorKind::TaskForbidden);
}

#[tokio::test(start_paused = true)]
async fn before_promotion_it_is_a_plain_call() {
    async fn reports_and_asks(ctx: Ctx) -> Result<String, ClientRequestError> {
        ctx.progress(1.0).await;
        ctx.info("hello").await;
        let confirm: Confirm = ctx.ask("c", "Sure?").await?;
        Ok(confirm.sure.to_string())
    }
    let test_stores = TestStores::new();
    let router = test_stores
        .server()
        .tasks(options())
        .add(Tool::new("reports_and_asks", reports_and_asks))
        .build()
        .unwrap();
    let client = client(&router).with_input_mode(InputMode::Deliver);
    let mut request = client.request(call("reports_and_asks"));
    (request.progress, request.log_level) = (true, Some(LogLevel::Debug));
    let mut active_call = client.start(request);
    assert!(matches!(next(&mut active_call).await, Event::Notify(Notification::Progress { .. })));
    assert!(matches!(next(&mut active_call).await, Event::Notify(Notification::Log { .. })));
    let Event::ClientRequest(id, _) = next(&mut active_call).await else {
        panic!("no client request was sent")
    };
    // A pending client request prevents the promotion.
    pass(seconds(100)).await;
    active_call.response_sender().deliver(id, Ok(sure().to_string()));
    assert_eq!(text(&result(done(&mut active_call).await)), "true");
}

#[tokio::test(start_paused = true)]
async fn an_idle_call_still_times_out() {
    let test_stores = TestStores::new();
    let limits = wharf_server::CallLimits::default().idle(seconds(5));
    let server = test_stores.server().tasks(options()).limits(limits);
    let router = server.add(Tool::new("long", |ctx: Ctx| takes(ctx, 20))).build().unwrap();
    let outcome = result(client(&router).call("long").await);
    assert!(outcome.is_error);
}

#[tokio::test(start_paused = true)]
async fn responses_and_steps_before_promotion_are_stored_in_the_task() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = router(&test_stores, &effects);
    let client_of = client;
    let client = client_of(&first);
    let Outcome::InputRequired(required) = client.call("detaches").await else {
        panic!("no client request was sent")
    };
    assert_eq!(required.requests[0].0, "before");
    let retry = || {
        call("detaches")
            .input_responses(&json!({"before": sure()}).to_string())
            .request_state(required.state.as_ref().unwrap())
    };
    let id = task(client.send(retry()).await).id;
    settle().await;
    assert_eq!(effects.count(), 2);
    pass(seconds(61)).await;
    assert_eq!(open_keys(&client.get(&id).await), ["after"]);
    drop((first, client));
    // Another process has the response from before the task, and both steps.
    let second = router(&test_stores, &effects);
    let client = client_of(&second);
    pass(seconds(110)).await;
    assert_eq!(open_keys(&client.get(&id).await), ["after"]);
    client.update(&id, json!({"after": sure()})).await;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "true 1 2 true true");
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn detaching_has_no_effect_for_callers_without_task_support() {
    let effects = Counter::default();
    let router = router(&TestStores::new(), &effects);
    let client =
        client(&router).with_tasking(TaskRequest::Unknown).with_input_mode(InputMode::Deliver);
    let mut active_call = client.start(client.request(call("detaches")));
    for _ in 0..2 {
        let Event::ClientRequest(id, _) = next(&mut active_call).await else {
            panic!("no client request was sent")
        };
        active_call.response_sender().deliver(id, Ok(sure().to_string()));
    }
    assert_eq!(text(&result(done(&mut active_call).await)), "true 1 2 true false");
}

#[tokio::test(start_paused = true)]
async fn without_room_a_long_call_continues_and_detach_returns_an_error() {
    async fn detaches(ctx: Ctx) -> String {
        ctx.detach().await.unwrap_err().to_string()
    }
    let test_stores = TestStores::new();
    let router = test_stores
        .server()
        .tasks(options())
        .add(Tool::new("long", |ctx: Ctx| takes(ctx, 35)))
        .add(Tool::new("detaches", detaches).task(TaskMode::optional().on_detach()))
        .build()
        .unwrap();
    let client = client(&router);
    test_stores.records.set_broken(true);
    assert_eq!(text(&result(client.call("long").await)), "false");
    let said = text(&result(client.call("detaches").await)).to_owned();
    assert!(said.contains("store") && !said.contains("secret"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_detaches_too() {
    let tool = Tool::blocking("t", |ctx: Ctx| -> Result<String, ToolError> {
        ctx.block_on(ctx.detach())?;
        let step = ctx.block_on(ctx.step("s", async { 7 }));
        Ok(format!("{step} {}", ctx.task_id().is_some()))
    });
    let tool = tool.task(TaskMode::required().on_detach());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("t").await.id;
    while client.get(&id).await.status() == TaskStatus::Working {
        tokio::task::yield_now().await;
    }
    assert_eq!(completed_text(&client.get(&id).await), "7 true");
}

#[tokio::test(start_paused = true)]
async fn a_one_time_step_in_progress_is_not_retried() {
    async fn works(State(effects): State<Counter>, ctx: Ctx) -> String {
        let slow = async {
            effects.hit();
            tokio::time::sleep(seconds(60)).await;
        };
        match ctx.step_once("s", slow).await {
            Ok(()) => "done".into(),
            Err(StepError::Spent) => "spent".into(),
            Err(error) => error.to_string(),
        }
    }
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let node = || {
        let server = test_stores.server().tasks(options()).state(effects.clone());
        let router = server.add(Tool::new("t", works)).build().unwrap();
        router.start_tasks(&timer());
        router
    };
    let first = node();
    let id = client(&first).task("t").await.id;
    drop(first);
    let second = node();
    pass(seconds(45)).await;
    assert_eq!(completed_text(&client(&second).get(&id).await), "spent");
    assert_eq!(effects.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn responses_without_a_request_are_requested_again_in_the_task() {
    async fn asks(ctx: Ctx) -> Result<String, ToolError> {
        let before: Confirm = ctx.ask("before", "Before?").await?;
        ctx.detach().await?;
        let after: Confirm = ctx.ask("after", "After?").await?;
        Ok(format!("{} {}", before.sure, after.sure))
    }
    let tool = Tool::new("t", asks).task(TaskMode::optional().on_detach());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client = client(&router);
    // There is no state, so the responses do not belong to a request yet.
    let early = json!({"before": sure(), "after": sure()}).to_string();
    let id = task(client.send(call("t").input_responses(&early)).await).id;
    settle().await;
    assert_eq!(open_keys(&client.get(&id).await), ["after"]);
    client.update(&id, json!({"after": sure()})).await;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "true true");
}

#[tokio::test(start_paused = true)]
async fn a_call_without_a_free_slot_at_promotion_continues() {
    let options = quick().threshold(Some(seconds(0))).running(0);
    let server = TestStores::new().server().tasks(options);
    let router = server.add(Tool::new("long", |ctx: Ctx| takes(ctx, 5))).build().unwrap();
    assert_eq!(text(&result(client(&router).call("long").await)), "false");
}
