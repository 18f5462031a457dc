//! `wharf serve`: the demo server.

use std::{
    io::{self, Write},
    path::PathBuf,
};

use clap::Args;
use wharf::Transport;

use crate::demo;

/// How to reach the demo server.
#[derive(Debug, Args)]
#[group(multiple = false)]
pub(crate) struct Serve {
    /// Serve the client at stdin and stdout (the default)
    #[arg(long)]
    stdio: bool,
    /// Serve lines over TCP, on this machine's loopback
    #[arg(long, value_name = "ADDRESS")]
    tcp: Option<String>,
    /// Serve lines over a Unix socket
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
}

impl Serve {
    pub(crate) async fn run(self) -> wharf::Result<()> {
        let (transport, how_to_connect) = match (self.tcp, self.unix) {
            (Some(address), _) => (Transport::tcp(&address)?, "Connect and send lines of JSON."),
            (_, Some(path)) => (Transport::Unix(path), "Connect and send lines of JSON."),
            _ => (
                Transport::Stdio,
                "Speaking over stdin and stdout: let a client start `wharf serve`.",
            ),
        };
        let version = env!("CARGO_PKG_VERSION");
        // Stdout carries messages, so people are told on stderr. That nobody reads it is no failure.
        let _ = writeln!(
            io::stderr(),
            "wharf-demo {version}: a demo server of every MCP revision.\n{how_to_connect}"
        );
        demo::server().run_over(transport).await
    }
}
