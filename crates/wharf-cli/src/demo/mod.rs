//! Demo server with every MCP primitive.

mod bill;
mod media;
mod prompts;
mod resources;
mod tools;

use wharf::Server;

/// Builds the demo server.
pub(crate) fn server() -> Server {
    Server::new("wharf-demo", env!("CARGO_PKG_VERSION"))
        .title("Wharf demo")
        .description("Demonstrates every feature of the Model Context Protocol.")
        .instructions("Every tool, resource and prompt of this server is safe to call.")
        .tool::<tools::add>()
        .tool::<tools::echo>()
        .tool::<tools::weather>()
        .tool::<tools::forecast>()
        .tool::<tools::countdown>()
        .tool::<tools::deploy>()
        .tool::<tools::poem>()
        .tool::<tools::sign_in>()
        .tool::<tools::workspace>()
        .tool::<tools::gallery>()
        .tool::<tools::fail>()
        .tool::<tools::sleep>()
        .tool::<tools::set_bonus>()
        .tool::<tools::touch>()
        .tool::<tools::voyage>()
        .tool::<bill::split_bill>()
        .tool::<bill::pay_share>()
        .resource::<resources::readme>()
        .resource::<resources::logo>()
        .resource::<resources::clock>()
        .resource::<resources::notes>()
        .resource::<resources::files>()
        .app(bill::app())
        .prompt::<prompts::greet>()
        .prompt::<prompts::review>()
}
