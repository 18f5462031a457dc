//! Node processes of the demonstration, with their output, and free addresses.

use std::env;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::process::Stdio;
use std::time::Duration;

use base64::{Engine, prelude::BASE64_STANDARD};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::sleep;
use wharf::RunError;

/// Line of a node's output, with the node's name; `None` at its end.
pub(crate) type OutputLine = (&'static str, Option<String>);

/// Running node; dropping it ends the process.
pub(crate) struct NodeProcess {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    process: Child,
}

impl NodeProcess {
    /// Starts a node and sends its output to `sender`.
    pub(crate) async fn start(
        name: &'static str,
        store: &str,
        key: &str,
        sender: UnboundedSender<OutputLine>,
    ) -> wharf::Result<Self> {
        let address = free_address()?;
        let mut process = Command::new(env::current_exe()?)
            .args(["node", name, &address.port().to_string(), store])
            .env("WHARF_STATE_KEY", key)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        if let Some(output) = process.stdout.take() {
            tokio::spawn(async move {
                let mut lines = BufReader::new(output).lines();
                while let Ok(Some(line)) = lines.next_line().await {
                    let _ = sender.send((name, Some(line)));
                }
                let _ = sender.send((name, None));
            });
        }
        wait_until_listening(address).await?;
        Ok(NodeProcess { name, address, process })
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id().unwrap_or_default()
    }

    /// Kills the process like `kill -9`, without a graceful shutdown.
    pub(crate) async fn kill(&mut self) -> wharf::Result<()> {
        Ok(self.process.kill().await?)
    }
}

/// Returns a random encryption key, which all nodes share.
pub(crate) fn random_key() -> wharf::Result<String> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| RunError::new(error.to_string()))?;
    Ok(BASE64_STANDARD.encode(key))
}

pub(crate) fn free_address() -> wharf::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Waits until a server listens at `address`.
pub(crate) async fn wait_until_listening(address: SocketAddr) -> wharf::Result<()> {
    for _ in 0..300 {
        if TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Err(RunError::new(format!("no server listens at {address} after 15 s")))
}
