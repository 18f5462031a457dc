//! Benchmark server with observers: the environment variable `BENCH_OBSERVERS` is `none`; `log-warn` or `log-info` for the
//! log with this filter; `metrics`; or `traces` for metrics and traces of which 1 % are recorded.

use std::env;

use bench::command_line::{Mode, Serve};
use wharf::http::Http;
use wharf::observe::{Logs, Metrics, Traces};
use wharf::{RunError, prelude::*};

/// Share of the traces that is recorded.
const SAMPLED: f64 = 0.01;

/// Returns its text.
#[tool]
async fn echo(text: String) -> String {
    text
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let serve = Serve::from_command_line().map_err(RunError::new)?;
    let server = Server::new("bench", "0.1.0").tool::<echo>();
    let server = match env::var("BENCH_OBSERVERS").as_deref() {
        Ok("log-warn") => logged(server, "warn")?,
        Ok("log-info") => logged(server, "info")?,
        Ok("metrics") => server.observe(Metrics::new()),
        Ok("traces") => server.observe(Metrics::new()).observe(Traces::without_export(SAMPLED)),
        _ => server,
    };
    match serve {
        Serve::Stdio { .. } => server.serve_stdio().await,
        Serve::Http { address, mode: Mode::Stateless, .. } => {
            server.http(Http::new().stateless()).serve_http(address).await
        }
        Serve::Http { address, .. } => server.serve_http(address).await,
    }
}

/// Installs the log, as a server that ends in `run` does.
fn logged(server: Server, filter: &'static str) -> wharf::Result<Server> {
    Logs::default().otherwise(filter).start()?;
    Ok(server)
}
