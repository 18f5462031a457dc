//! A Redis for the show, with its files in a directory of its own.

use std::env;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::{self, Stdio};

use tokio::process::{Child, Command};
use wharf::RunError;

use crate::stage::{free_address, listens};

const MISSING: &str = "\
This example needs a redis-server, and there is none on the PATH. To get one:
  Debian, Ubuntu:  sudo apt-get install redis-server
  Fedora:          sudo dnf install redis
  macOS:           brew install redis";

/// Ends, and takes its files along, when it is dropped.
pub(crate) struct Redis {
    pub(crate) address: SocketAddr,
    home: PathBuf,
    process: Child,
}

impl Redis {
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
                _ => RunError::new(format!("redis-server does not start: {error}")),
            }
        })?;
        let redis = Redis { address, home, process };
        listens(address).await?;
        Ok(redis)
    }

    pub(crate) fn url(&self) -> String {
        format!("redis://{}/0", self.address)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        // It may write once more before it is gone; what is left then is an empty log.
        let _ = self.process.start_kill();
        let _ = fs::remove_dir_all(&self.home);
    }
}
