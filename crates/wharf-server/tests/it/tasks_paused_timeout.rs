//! Timeouts while a task waits for its owner: the time does not count for the tool.

use crate::task_support::*;
use serde_json::json;
use wharf_model::{ErrorKind, TaskState};
use wharf_server::{ClientRequestError, Ctx, Router, TaskMode, TaskOptions, Tool, ToolError};

/// Uses half of its time before the client request, and `rest` seconds after it.
async fn asks(ctx: &Ctx, rest: u64) -> Result<String, ClientRequestError> {
    tokio::time::sleep(seconds(10)).await;
    let confirm: Confirm = ctx.ask("c", "Sure?").await?;
    tokio::time::sleep(seconds(rest)).await;
    Ok(format!("sure: {}", confirm.sure))
}

async fn detaches(ctx: Ctx, rest: u64) -> Result<String, ToolError> {
    ctx.detach().await?;
    Ok(asks(&ctx, rest).await?)
}

/// Sends the client request from another tokio task.
async fn elsewhere(ctx: Ctx) -> Result<String, ClientRequestError> {
    tokio::spawn(async move { asks(&ctx, 5).await }).await.unwrap()
}

fn router() -> Router {
    let kept = TaskOptions::default().ttl(seconds(3 * 3600));
    let at_once = TaskMode::optional();
    let later = TaskMode::optional().on_detach();
    let tools = [
        Tool::new("quick", async |ctx: Ctx| asks(&ctx, 5).await).task(at_once.clone()),
        Tool::new("slow", async |ctx: Ctx| asks(&ctx, 15).await).task(at_once.clone()),
        Tool::new("spawned", elsewhere).task(at_once),
        Tool::new("detached", |ctx: Ctx| detaches(ctx, 5)).task(later.clone()),
        Tool::new("detached-slow", |ctx: Ctx| detaches(ctx, 15)).task(later),
    ];
    let server = TestStores::new().server().tasks(kept);
    let add =
        |server: wharf_server::RouterBuilder, tool: Tool| server.add(tool.timeout(seconds(20)));
    tools.into_iter().fold(server, add).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn the_timeout_of_a_tool_pauses_while_its_task_waits_for_input() {
    let client = client(&router());
    let timed_out = ErrorKind::ToolTimeout.message();
    for (tool, said) in [
        ("quick", "sure: true"),
        ("spawned", "sure: true"),
        ("slow", timed_out),
        ("detached", "sure: true"),
        ("detached-slow", timed_out),
    ] {
        let id = client.task(tool).await.id;
        // Longer than the total timeout of a call.
        pass(seconds(2 * 3600)).await;
        assert_eq!(open_keys(&client.get(&id).await), ["c"], "{tool}");
        client.update(&id, json!({"c": sure()})).await;
        pass(seconds(60)).await;
        assert_eq!(completed_text(&client.get(&id).await), said, "{tool}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_client_request_ends_with_its_task() {
    let client = client(&router());
    let id = client.task("quick").await.id;
    pass(seconds(3 * 3600 - 60)).await;
    assert!(matches!(client.get(&id).await.state, TaskState::InputRequired(_)));
    pass(seconds(120)).await;
    let gone = client.send_for_task(wharf_model::Method::GetTask, &id).await;
    assert_eq!(error(gone).kind, ErrorKind::TaskNotFound);
}
