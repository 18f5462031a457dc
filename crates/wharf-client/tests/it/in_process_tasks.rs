//! Tasks of a real server in the same process.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use crate::support::SECOND;
use serde_json::json;
use wharf_client::{CallOptions, ClientHandle, ClientHandlerBuilder, local};
use wharf_model::{ElicitResult, ErrorKind, Implementation, TaskState, TaskStatus, ToolResult};
use wharf_server::{Ctx, Router, TaskMode, Tool, ToolError};
use wharf_testbed::TokioTimer;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct ConfirmForm {
    confirmed: bool,
}

async fn deploy(ctx: Ctx) -> Result<String, ToolError> {
    ctx.step("build", tokio::time::sleep(20 * SECOND)).await;
    let answer: ConfirmForm = ctx.ask("confirm", "Deploy?").await?;
    Ok(if answer.confirmed { "deployed" } else { "kept" }.to_owned())
}

async fn caller(answers: ClientHandlerBuilder) -> ClientHandle {
    let router = Router::builder()
        .add(Tool::new("deploy", deploy).task(TaskMode::required()))
        .add(
            Tool::new("sleep", async || tokio::time::sleep(600 * SECOND).await)
                .task(TaskMode::optional()),
        )
        .add(
            Tool::new("fail", async || Err::<(), _>(ToolError::new("no wind")))
                .task(TaskMode::optional()),
        )
        .build()
        .unwrap();
    let transport = local(Arc::new(router), Implementation::new("harbour", "1")).await.unwrap();
    ClientHandle::new(transport, Arc::new(TokioTimer), CallOptions::default(), Arc::new(answers))
}

fn yes() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({"confirmed": true}))))
}

fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_and_answers() {
    let caller = caller(yes()).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = seen.clone();
    let result = caller
        .call("deploy", ())
        .on_task(move |task| see.lock().unwrap().push(task.status()))
        .await
        .unwrap();
    assert_eq!(text(&result), "deployed");
    let mut seen = seen.lock().unwrap().clone();
    seen.dedup();
    use TaskStatus::{Completed, InputRequired, Working};
    assert_eq!(*seen.first().unwrap(), Working);
    assert!(seen.contains(&InputRequired), "{seen:?}");
    assert_eq!(*seen.last().unwrap(), Completed);
}

#[tokio::test(start_paused = true)]
async fn a_tools_own_failure_is_its_result() {
    let result = caller(yes()).await.call("fail", ()).await.unwrap();
    assert!(result.is_error && text(&result).contains("no wind"), "{result:?}");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_cancels_its_task() {
    let caller = caller(yes()).await;
    let task = Arc::new(Mutex::new(None));
    let see = task.clone();
    let call =
        caller.call("sleep", ()).on_task(move |it| *see.lock().unwrap() = Some(it.id.clone()));
    assert!(tokio::time::timeout(5 * SECOND, call.into_future()).await.is_err());
    caller.close().await;
    let id = task.lock().unwrap().clone().unwrap();
    let state = caller.task(id).get().await.unwrap().state;
    assert_eq!(state, TaskState::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_answered_through_its_handle() {
    let caller = caller(yes()).await;
    let task = caller.call_task("deploy", ()).await.unwrap();
    let mut changes = task.changes();
    let asked = loop {
        let state = changes.next().await.unwrap().unwrap().state;
        if let TaskState::InputRequired(asked) = state {
            break asked;
        }
    };
    task.update(json!({&asked[0].0: {"action": "accept", "content": {"confirmed": false}}}))
        .await
        .unwrap();
    assert_eq!(text(&task.wait().await.unwrap()), "kept");
    assert_eq!(task.get().await.unwrap().status(), TaskStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn an_unknown_task_is_an_error() {
    let caller = caller(yes()).await;
    let error = caller.task("0123456789abcdef").get().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TaskNotFound);
    let error = caller.task("x").wait().timeout(Duration::from_secs(1)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn requests_by_name_return_tasks_too() {
    let caller = caller(yes()).await;
    let made = caller.request("tools/call", json!({"name": "sleep"})).await.unwrap();
    let made: serde_json::Value = serde_json::from_str(made.get()).unwrap();
    assert_eq!((&made["resultType"], &made["status"]), (&json!("task"), &json!("working")));
    let id = json!({"taskId": made["taskId"]});
    let seen = caller.request("tasks/get", &id).await.unwrap();
    let seen: serde_json::Value = serde_json::from_str(seen.get()).unwrap();
    assert_eq!((&seen["taskId"], &seen["status"]), (&made["taskId"], &json!("working")));
    caller.request("tasks/cancel", &id).await.unwrap();
    assert_eq!(
        caller.task(made["taskId"].as_str().unwrap()).get().await.unwrap().state,
        TaskState::Cancelled
    );
}
