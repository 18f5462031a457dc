//! Benchmark server with observers: the environment variable `BENCH_OBSERVERS` is `none`, `metrics`, or `traces` for
//! metrics and traces of which 1 % are recorded.

use std::env;

use wharf::observe::{Metrics, Traces};
use wharf::prelude::*;

/// Share of the traces that is recorded.
const SAMPLED: f64 = 0.01;

/// Returns its text.
#[tool]
async fn echo(text: String) -> String {
    text
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    let server = Server::new("bench", "0.1.0").tool::<echo>();
    let server = match env::var("BENCH_OBSERVERS").as_deref() {
        Ok("metrics") => server.observe(Metrics::new()),
        Ok("traces") => server.observe(Metrics::new()).observe(Traces::without_export(SAMPLED)),
        _ => server,
    };
    server.serve_stdio().await
}
