//! Redis process of the demonstration, with its files in a temporary directory.

use std::env;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{self, Stdio};

use tokio::process::{Child, Command};
use wharf::RunError;

use crate::node_process::{free_address, wait_until_listening};

const MISSING: &str = "\
This example needs redis-server, which is not on the PATH. To install it:
  Debian, Ubuntu:  sudo apt-get install redis-server
  Fedora:          sudo dnf install redis
  macOS:           brew install redis";

/// Running Redis; dropping it ends the process and removes its files.
pub(crate) struct RedisProcess {
    pub(crate) address: SocketAddr,
    home: PathBuf,
    process: Child,
}

impl RedisProcess {
    pub(crate) async fn start() -> wharf::Result<Self> {
        let address = free_address()?;
        let home = env::temp_dir().join(format!("wharf-cluster-{}", process::id()));
        fs::create_dir_all(&home)?;
        let started = Command::new("redis-server")
            .args(["--bind", "127.0.0.1", "--port", &address.port().to_string()])
            .args(["--save", "", "--appendonly", "yes"])
            .current_dir(&home)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn();
        let process = started.map_err(|error| {
            let _ = fs::remove_dir_all(&home);
            match error.kind() {
                io::ErrorKind::NotFound => RunError::new(MISSING),
                _ => RunError::new(format!("cannot start redis-server: {error}")),
            }
        })?;
        let redis = RedisProcess { address, home, process };
        wait_until_listening(address).await?;
        Ok(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        // A last write may recreate the directory; then an empty log remains.
        let _ = self.process.start_kill();
        let _ = fs::remove_dir_all(&self.home);
    }
}
