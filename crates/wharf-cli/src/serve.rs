//! `wharf serve`: the demo server.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use wharf::Endpoint;

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
    tcp: Option<SocketAddr>,
    /// Serve lines over a Unix socket
    #[arg(long, value_name = "PATH")]
    unix: Option<PathBuf>,
}

impl Serve {
    pub(crate) async fn run(self) -> wharf::Result<()> {
        let server = demo::server().build()?;
        tokio::spawn(server.shutdown_on_signals());
        match (self.tcp, self.unix) {
            (Some(address), _) => {
                let listener = Endpoint::listen_tcp(address).await?;
                banner(&format!("Connect with lines of JSON to tcp://{}.", listener.local_addr()?));
                server.serve_listener(listener).await;
            }
            (_, Some(path)) => {
                banner(&format!("Connect with lines of JSON to unix:{}.", path.display()));
                server.serve_unix(path).await?;
            }
            _ => {
                banner("Speaking over stdin and stdout: let a client start `wharf serve`.");
                server.serve_stdio().await?;
            }
        }
        Ok(())
    }
}

/// Stdout carries messages, so people are told on stderr.
fn banner(how_to_connect: &str) {
    eprintln!("wharf-demo {}: a demo server of every MCP revision.", env!("CARGO_PKG_VERSION"));
    eprintln!("{how_to_connect}");
}
