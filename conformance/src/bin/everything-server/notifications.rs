//! Tools that send notifications, during the call or to subscribers.

use std::time::Duration;

use tokio::time::sleep;
use wharf::prelude::*;

const STEP_DELAY: Duration = Duration::from_millis(50);

pub(crate) fn tools(server: Server) -> Server {
    server
        .tool::<test_tool_with_logging>()
        .tool::<test_logging_tool>()
        .tool::<test_tool_with_progress>()
        .tool::<test_reconnection>()
        .tool::<test_trigger_tool_change>()
        .tool::<test_trigger_prompt_change>()
}

/// Logs three messages. For legacy clients, which set the log level once.
#[tool(read_only)]
async fn test_tool_with_logging(ctx: Ctx) -> &'static str {
    ctx.info("Tool execution started").await;
    sleep(STEP_DELAY).await;
    ctx.info("Tool processing data").await;
    sleep(STEP_DELAY).await;
    ctx.info("Tool execution completed").await;
    "Logged three messages."
}

/// Logs one message. For modern clients, which set the log level per call.
#[tool(read_only)]
async fn test_logging_tool(ctx: Ctx) -> &'static str {
    ctx.info("Log message of this call").await;
    "Logged one message, if the log level allows it."
}

/// Reports progress three times.
#[tool(read_only)]
async fn test_tool_with_progress(ctx: Ctx) -> &'static str {
    ctx.progress_of(0.0, 100.0).await;
    sleep(STEP_DELAY).await;
    ctx.progress_of(50.0, 100.0).await;
    sleep(STEP_DELAY).await;
    ctx.progress_of(100.0, 100.0).await;
    "Done, with progress."
}

/// Releases the connection and responds after the client has reconnected. For legacy clients.
#[tool(read_only)]
async fn test_reconnection(ctx: Ctx) -> &'static str {
    ctx.release_connection();
    sleep(2 * STEP_DELAY).await;
    "Finished after the connection was released."
}

/// Notifies subscribers of a tool list change without changing the list. For modern clients.
#[tool]
async fn test_trigger_tool_change(ctx: Ctx) -> &'static str {
    ctx.registry().tools_changed();
    "Notified the subscribers of the tool list."
}

/// Notifies subscribers of a prompt list change without changing the list. For modern clients.
#[tool]
async fn test_trigger_prompt_change(ctx: Ctx) -> &'static str {
    ctx.registry().prompts_changed();
    "Notified the subscribers of the prompt list."
}
