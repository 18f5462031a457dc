//! Tools that run as tasks.

use std::time::Duration;

use tokio::time::sleep;
use wharf::{Error, ErrorKind, prelude::*};

pub(crate) fn tools(server: Server) -> Server {
    server
        .tool::<greet>()
        .tool::<slow_compute>()
        .tool::<failing_job>()
        .tool::<protocol_error_job>()
        .tool::<confirm_delete>()
        .tool::<multi_input>()
        .tool::<test_tool_with_task>()
}

#[derive(Deserialize, JsonSchema)]
struct DeleteConfirmation {
    confirm: bool,
}

#[derive(Deserialize, JsonSchema)]
struct TaskNameForm {
    name: String,
}

/// Returns a greeting; never runs as a task.
#[tool(read_only)]
async fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Sleeps for the given time.
#[tool(read_only, task)]
async fn slow_compute(seconds: f64, label: Option<String>) -> String {
    sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()).await;
    format!("{}: computed for {seconds} s", label.as_deref().unwrap_or("unlabelled"))
}

/// Returns a tool error after a second; runs only as a task.
#[tool(task = "required")]
async fn failing_job() -> Result<String, ToolError> {
    sleep(Duration::from_secs(1)).await;
    Err(ToolError::new("The job has failed, as it was meant to."))
}

/// Returns a protocol error.
#[tool(task)]
async fn protocol_error_job() -> Result<String, Error> {
    sleep(Duration::from_millis(100)).await;
    Err(Error::new(ErrorKind::InternalError))
}

/// Pretends to delete a file after the user confirms.
#[tool(task)]
async fn confirm_delete(filename: String, ctx: Ctx) -> Result<String, ToolError> {
    let DeleteConfirmation { confirm } = ctx.ask("confirm", format!("Delete {filename}?")).await?;
    Ok(format!("{filename} was {}.", if confirm { "deleted" } else { "kept" }))
}

/// Elicits two inputs concurrently.
#[tool(task)]
async fn multi_input(ctx: Ctx) -> Result<String, ToolError> {
    let (name, confirm) =
        tokio::join!(ctx.ask("name", "What is your name?"), ctx.ask("confirm", "Shall we go on?"),);
    let (TaskNameForm { name }, DeleteConfirmation { confirm }) = (name?, confirm?);
    Ok(format!("{name} said {}.", if confirm { "yes" } else { "no" }))
}

/// Elicits the user's name, then becomes a task.
#[tool(task = "required", after = "detach")]
async fn test_tool_with_task(ctx: Ctx) -> Result<String, ToolError> {
    let TaskNameForm { name } = ctx.ask("user_name", "What is your name?").await?;
    ctx.detach().await?;
    sleep(Duration::from_millis(100)).await;
    Ok(format!("The task of {name} is done."))
}
