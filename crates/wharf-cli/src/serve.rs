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

const LINES: &str = "Connect and send one JSON-RPC message a line.";

/// What to put into the configuration of a client that starts its servers.
fn client_configuration() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "wharf".into());
    let command = serde_json::Value::from(program.to_string_lossy());
    format!(
        "Speaking over stdin and stdout. To let a client start it, configure:\n  \
         {{\"mcpServers\": {{\"wharf-demo\": {{\"command\": {command}, \"args\": [\"serve\"]}}}}}}"
    )
}

impl Serve {
    pub(crate) async fn run(self) -> wharf::Result<()> {
        let (transport, how_to_connect) = match (self.tcp, self.unix) {
            (Some(address), _) => (Transport::tcp(&address)?, LINES.to_owned()),
            (_, Some(path)) => (Transport::Unix(path), LINES.to_owned()),
            _ => (Transport::Stdio, client_configuration()),
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
