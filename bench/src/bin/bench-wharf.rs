//! Benchmark server on Wharf.

use bench::command_line::{Mode, Serve};
use bench::work::{NOTIFICATIONS, WAIT, prime_factors};
use wharf::prelude::*;
use wharf::{RunError, http::Http};

#[derive(Serialize, Deserialize, JsonSchema)]
struct Number {
    result: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
struct CountResult {
    result: u64,
}

/// Returns its text.
#[tool]
async fn echo(text: String) -> String {
    text
}

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> Json<Number> {
    Json(Number { result: a + b })
}

/// Sends a hundred notifications.
#[tool]
async fn progress(ctx: Ctx) -> &'static str {
    for done in 1..=NOTIFICATIONS {
        ctx.progress_of(done.into(), NOTIFICATIONS.into()).await;
    }
    "done"
}

/// Returns the number.
#[tool]
async fn noop(n: u64) -> Json<CountResult> {
    Json(CountResult { result: n })
}

/// Counts prime factors.
#[tool]
async fn compute(n: u64) -> Json<CountResult> {
    Json(CountResult { result: prime_factors(n) })
}

/// Counts prime factors between two waits.
#[tool]
async fn io(n: u64) -> Json<CountResult> {
    tokio::time::sleep(WAIT).await;
    let result = prime_factors(n);
    tokio::time::sleep(WAIT).await;
    Json(CountResult { result })
}

#[resource("mem://static", mime = "text/plain")]
async fn fixed() -> &'static str {
    "static"
}

/// A greeting.
#[prompt]
async fn hello() -> &'static str {
    "hello"
}

#[derive(Deserialize, JsonSchema)]
struct EchoArgs {
    text: String,
}

fn generated_tool(i: usize) -> Tool {
    Tool::new(format!("tool_{i}"), |Args(args): Args<EchoArgs>| async move { args.text })
        .description(format!("Generated tool number {i}"))
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let serve = Serve::from_command_line().map_err(RunError::new)?;
    let server = Server::new("bench", "0.1.0")
        .tool::<echo>()
        .tool::<add>()
        .tool::<progress>()
        .tool::<noop>()
        .tool::<compute>()
        .tool::<io>()
        .resource::<fixed>()
        .prompt::<hello>();
    let server = (0..serve.tools()).fold(server, |server, i| server.add(generated_tool(i)));
    match serve {
        Serve::Stdio { .. } => server.serve_stdio().await,
        Serve::Http { address, mode: Mode::Stateless, .. } => {
            server.http(Http::new().stateless()).serve_http(address).await
        }
        Serve::Http { address, .. } => server.serve_http(address).await,
    }
}
