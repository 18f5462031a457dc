//! The server that the official conformance suite is run against: `cargo xtask conformance`.
//!
//! Its tools, resources and prompts are those that the suite's scenarios look for, under the names
//! and with the words that they expect; nothing here knows how messages travel. A fixture that only
//! one era's scenarios use says so; it works in both. The fixtures of the extension for skills come
//! with that extension.
#![forbid(unsafe_code)]

mod asking;
mod content;
mod jobs;
mod media;
mod prompts;
mod resources;
mod rounds;
mod running;
mod schemas;

use wharf::Server;

#[tokio::main]
async fn main() -> wharf::Result<()> {
    server().run().await
}

fn server() -> Server {
    let server = Server::new("everything-server", env!("CARGO_PKG_VERSION"))
        .title("Everything")
        .description("Has whatever the conformance suite of the Model Context Protocol looks for.");
    // Scenarios about headers call the first tool there is: it must need nothing.
    let server = content::tools(server);
    let server = running::tools(server);
    let server = asking::tools(server);
    let server = rounds::tools(server);
    let server = schemas::tools(server);
    let server = jobs::tools(server);
    prompts::prompts(resources::resources(server))
}
