//! A client of everything that the official conformance suite tries out, over HTTP.
//!
//! It does with any server what can be done without knowing it: lists everything, calls each tool with
//! arguments that fit its schema, reads each resource, gets each prompt, and agrees to what it is asked.

mod answers;
mod auth;
mod plan;
mod tour;
mod values;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use wharf::{Client, ProtocolVersion};

use plan::{Plan, Situation};

/// Below the suite's own limit, so that a server that never answers is told of.
const LIMIT: Duration = Duration::from_secs(25);

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match run().await {
        Ok(()) => ExitCode::SUCCESS,
        Err(problem) => {
            eprintln!("everything-client: {problem}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> wharf::Result<()> {
    let url = env::args().next_back().unwrap_or_default();
    let situation = Situation::from_environment()?;
    let (plan, auth) = (Plan::of(&situation), situation.given.auth()?);
    let mut builder = Client::builder()
        .name("everything-client", env!("CARGO_PKG_VERSION"))
        .answers(answers::answers())
        .auth(auth)
        .timeout(LIMIT)
        .total(LIMIT);
    if let Ok(revision) = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        builder = builder.pin(revision.parse::<ProtocolVersion>()?);
    }
    let client = builder.connect(url).await?;
    let made = tour::make(&client, &plan).await;
    client.close().await;
    made
}
