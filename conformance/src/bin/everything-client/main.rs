//! Client for the official conformance suite, over HTTP.
//!
//! It works with any server: it lists everything, calls each tool with arguments that match its schema, reads each
//! resource, gets each prompt, and accepts every server request.

mod auth;
mod call_plan;
mod sample_values;
mod server_requests;
mod skills;
mod use_server;

use std::env;
use std::process::ExitCode;
use std::time::Duration;

use wharf::{Client, ProtocolVersion};

use call_plan::{CallPlan, SuiteContext};

/// Timeout of a call: below the suite's own, so that the client reports a server that does not respond.
const CALL_TIMEOUT: Duration = Duration::from_secs(25);

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
    let suite_context = SuiteContext::from_environment()?;
    let (plan, auth) = (CallPlan::of(&suite_context), suite_context.credentials.auth()?);
    let mut builder = Client::builder()
        .name("everything-client", env!("CARGO_PKG_VERSION"))
        .handler(server_requests::handler())
        .auth(auth)
        .timeout(CALL_TIMEOUT)
        .total(CALL_TIMEOUT);
    if let Ok(revision) = env::var("MCP_CONFORMANCE_PROTOCOL_VERSION") {
        builder = builder.protocol_version(revision.parse::<ProtocolVersion>()?);
    }
    let client = builder.connect(url).await?;
    let result = use_server::run(&client, &plan).await;
    client.close().await;
    result
}
