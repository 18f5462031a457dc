//! The `wharf` binary.
#![forbid(unsafe_code)]

mod demo;
mod serve;

use clap::{Parser, Subcommand};

/// A toolbox for the Model Context Protocol.
#[derive(Debug, Parser)]
#[command(name = "wharf", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Start the demo server, which shows everything a server can offer.
    Serve(serve::Serve),
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    match Cli::parse().verb {
        Verb::Serve(serve) => serve.run().await,
    }
}
