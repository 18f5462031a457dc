//! Benchmark server for tasks, on Wharf. `BENCH_STORE` is the URL of the task store.

use std::env;
use std::time::Duration;

use bench::command_line::Serve;
use wharf::prelude::*;
use wharf::{RunError, tasks::TaskOptions};

#[derive(Serialize, Deserialize, JsonSchema)]
struct CountResult {
    result: u64,
}

/// Returns the number, as a task of one step.
#[tool(task = "required")]
async fn job(n: u64, ctx: Ctx) -> Json<CountResult> {
    Json(CountResult { result: ctx.step("count", async { n }).await })
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let Serve::Http { address, .. } = Serve::from_command_line().map_err(RunError::new)? else {
        return Err(RunError::new("tasks are measured over HTTP"));
    };
    let options = TaskOptions::default()
        .poll_interval(Duration::from_millis(env::var("BENCH_POLL_MS")?.parse()?))
        // All clients are one owner here, and tasks are kept for an hour.
        .per_owner(100_000_000);
    let store = wharf::store::open(&env::var("BENCH_STORE")?).await?;
    Server::new("bench", "0.1.0")
        .tool::<job>()
        .tasks(options)
        .store(store)
        .serve_http(address)
        .await
}
