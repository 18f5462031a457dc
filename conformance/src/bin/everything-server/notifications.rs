//! Tools that say something while they run, or to those who listen.

use std::time::Duration;

use tokio::time::sleep;
use wharf::prelude::*;

const A_MOMENT: Duration = Duration::from_millis(50);

pub(crate) fn tools(server: Server) -> Server {
    server
        .tool::<test_tool_with_logging>()
        .tool::<test_logging_tool>()
        .tool::<test_tool_with_progress>()
        .tool::<test_reconnection>()
        .tool::<test_trigger_tool_change>()
        .tool::<test_trigger_prompt_change>()
}

/// Logs three messages. For legacy clients, which say once which levels they want.
#[tool(read_only)]
async fn test_tool_with_logging(ctx: Ctx) -> &'static str {
    ctx.info("Tool execution started").await;
    sleep(A_MOMENT).await;
    ctx.info("Tool processing data").await;
    sleep(A_MOMENT).await;
    ctx.info("Tool execution completed").await;
    "Logged three messages."
}

/// Logs one message. For modern clients, which say with each call which levels they want.
#[tool(read_only)]
async fn test_logging_tool(ctx: Ctx) -> &'static str {
    ctx.info("This call wants to hear of itself").await;
    "Logged one message, if it was wanted."
}

/// Reports progress three times.
#[tool(read_only)]
async fn test_tool_with_progress(ctx: Ctx) -> &'static str {
    ctx.progress_of(0.0, 100.0).await;
    sleep(A_MOMENT).await;
    ctx.progress_of(50.0, 100.0).await;
    sleep(A_MOMENT).await;
    ctx.progress_of(100.0, 100.0).await;
    "Done, with progress."
}

/// Lets go of the connection and answers the client that comes back. For legacy clients.
#[tool(read_only)]
async fn test_reconnection(ctx: Ctx) -> &'static str {
    ctx.release_connection();
    sleep(2 * A_MOMENT).await;
    "Finished after the connection was let go."
}

/// Tells those who listen that the list of tools is another, which it is not. For modern clients.
#[tool]
async fn test_trigger_tool_change(ctx: Ctx) -> &'static str {
    ctx.registry().tools_changed();
    "Told those who listen to tools."
}

/// Tells those who listen that the list of prompts is another, which it is not. For modern clients.
#[tool]
async fn test_trigger_prompt_change(ctx: Ctx) -> &'static str {
    ctx.registry().prompts_changed();
    "Told those who listen to prompts."
}
