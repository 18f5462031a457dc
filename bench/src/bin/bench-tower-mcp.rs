//! Benchmark server on tower-mcp.

use std::net::SocketAddr;

use axum::serve::ListenerExt;
use bench::command_line::Serve;
use bench::work::{NOTIFICATIONS, WAIT, prime_factors};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;
use tokio::time::sleep;
use tower_mcp::extract::Context;
use tower_mcp::transport::http::HttpTransport;
use tower_mcp::{
    BoxError, CallToolResult, McpRouter, PromptBuilder, ResourceBuilder, StdioTransport, Tool,
    ToolBuilder,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct EchoArgs {
    text: String,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct AddArgs {
    a: i64,
    b: i64,
}

#[derive(Debug, Deserialize, JsonSchema)]
struct NumberArgs {
    n: u64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct AddResult {
    result: i64,
}

#[derive(Debug, Serialize, JsonSchema)]
struct CountResult {
    result: u64,
}

fn echo_tool(name: impl Into<String>, about: impl Into<String>) -> Tool {
    ToolBuilder::new(name)
        .description(about)
        .handler(|args: EchoArgs| async move { Ok(CallToolResult::text(args.text)) })
        .build()
}

fn add() -> Tool {
    ToolBuilder::new("add")
        .description("Adds two numbers.")
        .output_schema_for::<AddResult>()
        .handler(|args: AddArgs| async move {
            CallToolResult::from_serialize(&AddResult { result: args.a + args.b })
        })
        .build()
}

fn progress() -> Tool {
    ToolBuilder::new("progress")
        .description("Sends a hundred notifications.")
        .extractor_handler((), |context: Context| async move {
            for done in 1..=NOTIFICATIONS {
                context.report_progress(done.into(), Some(NOTIFICATIONS.into()), None).await;
            }
            Ok(CallToolResult::text("done"))
        })
        .build()
}

fn noop() -> Tool {
    ToolBuilder::new("noop")
        .description("Returns the number.")
        .output_schema_for::<CountResult>()
        .handler(|args: NumberArgs| async move {
            CallToolResult::from_serialize(&CountResult { result: args.n })
        })
        .build()
}

fn compute() -> Tool {
    ToolBuilder::new("compute")
        .description("Counts prime factors.")
        .output_schema_for::<CountResult>()
        .handler(|args: NumberArgs| async move {
            CallToolResult::from_serialize(&CountResult { result: prime_factors(args.n) })
        })
        .build()
}

fn io() -> Tool {
    ToolBuilder::new("io")
        .description("Counts prime factors between two waits.")
        .output_schema_for::<CountResult>()
        .handler(|args: NumberArgs| async move {
            sleep(WAIT).await;
            let result = prime_factors(args.n);
            sleep(WAIT).await;
            CallToolResult::from_serialize(&CountResult { result })
        })
        .build()
}

fn router(extra: usize) -> McpRouter {
    let resource = ResourceBuilder::new("mem://static").name("static").mime_type("text/plain");
    let prompt = PromptBuilder::new("hello").description("A greeting.").user_message("hello");
    let router = McpRouter::new()
        .server_info("bench", "0.1.0")
        .tool(echo_tool("echo", "Returns its text."))
        .tool(add())
        .tool(progress())
        .tool(noop())
        .tool(compute())
        .tool(io())
        .resource(resource.text("static"))
        .prompt(prompt);
    (0..extra).fold(router, |router, i| {
        router.tool(echo_tool(format!("tool_{i}"), format!("Generated tool number {i}")))
    })
}

/// Serves HTTP in all modes, with limits that the workloads need.
async fn serve_http(router: McpRouter, address: SocketAddr) -> Result<(), BoxError> {
    let transport = HttpTransport::new(router).max_body_size(16 << 20).max_sessions(1_000_000);
    let listener = TcpListener::bind(address).await?.tap_io(|stream| {
        let _ = stream.set_nodelay(true);
    });
    Ok(axum::serve(listener, transport.into_router_at("/mcp")).await?)
}

#[tokio::main]
async fn main() -> Result<(), BoxError> {
    let serve = Serve::from_command_line()?;
    let router = router(serve.tools());
    match serve {
        Serve::Stdio { .. } => Ok(StdioTransport::new(router).run().await?),
        Serve::Http { address, .. } => serve_http(router, address).await,
    }
}
