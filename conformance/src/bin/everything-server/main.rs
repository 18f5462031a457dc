//! Server for the official conformance suite: `cargo xtask conformance`.
//!
//! Its tools, resources and prompts have the names and texts that the scenarios expect. A fixture that only the
//! scenarios of one era use says so; it works in both.
#![forbid(unsafe_code)]

mod content;
mod elicitation;
mod input_required;
mod media;
mod notifications;
mod prompts;
mod resources;
mod schemas;
mod skills;
mod tasks;

use wharf::Server;

#[tokio::main]
async fn main() -> wharf::Result<()> {
    server().run().await
}

fn server() -> Server {
    let server = Server::new("everything-server", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .description("Has every feature that the MCP conformance suite tests.");
    // Header scenarios call the first listed tool, which must not require arguments.
    let server = content::tools(server);
    let server = notifications::tools(server);
    let server = elicitation::tools(server);
    let server = input_required::tools(server);
    let server = schemas::tools(server);
    let server = tasks::tools(server);
    let server = skills::skills(server);
    prompts::prompts(resources::resources(server))
}
