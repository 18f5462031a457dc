//! `wharf serve`: the demo server.

use std::{
    io::{self, Write},
    net::SocketAddr,
    path::PathBuf,
};

use clap::Args;
use wharf::{
    Server,
    http::{Http, Tls},
    server::Transport,
};

use crate::demo;
use crate::{error::CliError, store_options::StoreOptions};

/// Transport options of the demo server.
#[derive(Debug, Args)]
#[command(
    after_help = "Logs go to stderr: warnings, or the levels selected by RUST_LOG, such as RUST_LOG=info."
)]
pub(crate) struct Serve {
    /// Serve stdin and stdout (the default)
    #[arg(long, group = "transport")]
    stdio: bool,
    /// Serve HTTP at this address [default: 127.0.0.1:8000], with /live and /ready for load balancers
    #[arg(long, group = "transport", value_name = "ADDRESS", num_args = 0..=1,
          default_missing_value = "127.0.0.1:8000")]
    http: Option<String>,
    /// Serve line-delimited JSON over TCP, at a loopback address
    #[arg(long, group = "transport", value_name = "ADDRESS")]
    tcp: Option<String>,
    /// Serve line-delimited JSON over a Unix socket
    #[arg(long, group = "transport", value_name = "PATH")]
    unix: Option<PathBuf>,
    /// Accept HTTP requests with this Host header too
    #[arg(long, requires = "http", value_name = "NAME")]
    allow_host: Vec<String>,
    /// Allow web pages of this origin to call and read replies (CORS)
    #[arg(long, requires = "http", value_name = "ORIGIN")]
    allow_origin: Vec<String>,
    /// Trust the client address that this reverse proxy forwards (an address, or a network such as 10.0.0.0/8)
    #[arg(long, requires = "http", value_name = "ADDRESS")]
    trusted_proxy: Vec<String>,
    /// Serve clients of protocol version 2024-11-05 too, at /sse
    #[arg(long, requires = "http")]
    sse: bool,
    /// TLS certificate chain (PEM)
    #[arg(long, requires_all = ["http", "tls_key"], value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Private key of the certificate (PEM)
    #[arg(long, requires_all = ["http", "tls_cert"], value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Serve metrics and health checks for operators at this address, such as 127.0.0.1:9464
    #[arg(long, value_name = "ADDRESS")]
    admin: Option<SocketAddr>,
    #[command(flatten)]
    stored: StoreOptions,
}

// Printed before the address is bound, which may fail, so neither claims that it is served.
const HTTP: &str = "Ctrl-C stops it.";
const LINES: &str = "One JSON-RPC message per line; Ctrl-C stops it.";

/// Configuration for a client that starts its servers.
fn client_configuration() -> String {
    let program = std::env::current_exe().unwrap_or_else(|_| "wharf".into());
    let command = serde_json::Value::from(program.to_string_lossy());
    format!(
        "Serving stdin and stdout. Configuration for a client that starts it:\n  \
         {{\"mcpServers\": {{\"wharf-demo\": {{\"command\": {command}, \"args\": [\"serve\"]}}}}}}"
    )
}

impl Serve {
    pub(crate) async fn run(self) -> Result<(), CliError> {
        self.has_private_key()?;
        let server = self.stored.keep(demo::server()).await?;
        // Errors that prevent serving concern an address, a path or a file on the command line.
        self.serve(server).await.map_err(|failure| CliError::usage(failure.to_string()))
    }

    /// Rejects a TLS key that other users can read.
    fn has_private_key(&self) -> Result<(), CliError> {
        let Some(file) = &self.tls_key else { return Ok(()) };
        let read = wharf::server::read_private(file).map(drop);
        read.map_err(|error| CliError::usage(format!("--tls-key {}: {error}", file.display())))
    }

    async fn serve(self, server: Server) -> wharf::Result<()> {
        let http = self.options()?;
        let kept = self.stored.told();
        let server = match self.admin {
            Some(address) => server.admin(address),
            None => server,
        };
        let (transport, how_to_connect) = match (self.http, self.tcp, self.unix) {
            (Some(address), ..) => (Transport::http(&address)?, HTTP.to_owned()),
            (_, Some(address), _) => (Transport::tcp(&address)?, LINES.to_owned()),
            (.., Some(path)) => (Transport::Unix(path), LINES.to_owned()),
            _ => (Transport::Stdio, client_configuration()),
        };
        let version = env!("CARGO_PKG_VERSION");
        // Stdout carries messages, so this goes to stderr. A closed stderr is not an error.
        let _ = writeln!(
            io::stderr(),
            "wharf-demo {version}: a demo server of every MCP revision.\n{kept}{how_to_connect}"
        );
        server.http(http).run_over(transport).await
    }

    fn options(&self) -> wharf::Result<Http> {
        let http = self.allow_host.iter().fold(Http::new(), |http, host| http.host(host));
        let http = http.cors(&self.allow_origin).trusted_proxies(&self.trusted_proxy)?;
        let http = if self.sse { http.sse_2024() } else { http };
        Ok(match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => http.tls(Tls::from_pem_files(certificate, key)?),
            _ => http,
        })
    }
}
