//! Tools that go on as tasks, for clients that follow them.

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
struct Confirm {
    confirm: bool,
}

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Greets at once, and never as a task.
#[tool(read_only)]
async fn greet(name: String) -> String {
    format!("Hello, {name}!")
}

/// Takes as long as it is told to.
#[tool(read_only, task)]
async fn slow_compute(seconds: f64, label: Option<String>) -> String {
    sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()).await;
    format!("{}: computed for {seconds} s", label.as_deref().unwrap_or("unlabelled"))
}

/// Fails after a second, as tools fail. Only as a task.
#[tool(task = "required")]
async fn failing_job() -> Result<String, ToolError> {
    sleep(Duration::from_secs(1)).await;
    Err(ToolError::new("The job has failed, as it was meant to."))
}

/// Ends in an error of the protocol.
#[tool(task)]
async fn protocol_error_job() -> Result<String, Error> {
    sleep(Duration::from_millis(100)).await;
    Err(Error::new(ErrorKind::InternalError))
}

/// Deletes nothing, once the user agrees.
#[tool(task)]
async fn confirm_delete(filename: String, ctx: Ctx) -> Result<String, ToolError> {
    let Confirm { confirm } = ctx.ask("confirm", format!("Delete {filename}?")).await?;
    Ok(format!("{filename} was {}.", if confirm { "deleted" } else { "kept" }))
}

/// Asks two things at once.
#[tool(task)]
async fn multi_input(ctx: Ctx) -> Result<String, ToolError> {
    let (name, confirm) =
        tokio::join!(ctx.ask("name", "What is your name?"), ctx.ask("confirm", "Shall we go on?"),);
    let (Name { name }, Confirm { confirm }) = (name?, confirm?);
    Ok(format!("{name} said {}.", if confirm { "yes" } else { "no" }))
}

/// Asks the user's name, and then goes on as a task.
#[tool(task = "required", after = "detach")]
async fn test_tool_with_task(ctx: Ctx) -> Result<String, ToolError> {
    let Name { name } = ctx.ask("user_name", "What is your name?").await?;
    ctx.detach().await?;
    sleep(Duration::from_millis(100)).await;
    Ok(format!("The task of {name} is done."))
}
