//! What the show stands on: addresses, and three processes whose words are heard.

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

/// What a node says, under its name; `None` when it is gone.
pub(crate) type Said = (&'static str, Option<String>);

/// A node, which ends when this is dropped.
pub(crate) struct Node {
    pub(crate) name: &'static str,
    pub(crate) address: SocketAddr,
    process: Child,
}

impl Node {
    /// Starts a node. What it says goes to `hear`.
    pub(crate) async fn start(
        name: &'static str,
        store: &str,
        key: &str,
        hear: UnboundedSender<Said>,
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
                    let _ = hear.send((name, Some(line)));
                }
                let _ = hear.send((name, None));
            });
        }
        listens(address).await?;
        Ok(Node { name, address, process })
    }

    pub(crate) fn process_id(&self) -> u32 {
        self.process.id().unwrap_or_default()
    }

    /// Ends it as `kill -9` does: it has no say in it.
    pub(crate) async fn kill(&mut self) -> wharf::Result<()> {
        Ok(self.process.kill().await?)
    }
}

/// A key that all nodes share, so that each reads what another one sealed.
pub(crate) fn random_key() -> wharf::Result<String> {
    let mut key = [0; 32];
    getrandom::fill(&mut key).map_err(|error| RunError::new(error.to_string()))?;
    Ok(BASE64_STANDARD.encode(key))
}

pub(crate) fn free_address() -> wharf::Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Waits until somebody listens there.
pub(crate) async fn listens(address: SocketAddr) -> wharf::Result<()> {
    for _ in 0..300 {
        if TcpStream::connect(address).await.is_ok() {
            return Ok(());
        }
        sleep(Duration::from_millis(50)).await;
    }
    Err(RunError::new(format!("nobody listens at {address}")))
}
