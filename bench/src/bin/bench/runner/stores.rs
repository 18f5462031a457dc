//! Task stores of the servers: a SQLite file or a Redis process.

use std::env;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{self, Command};
use std::thread;
use std::time::{Duration, Instant};

use bench::process::{Cores, Server};

use super::contenders::free_address;

/// Type of the task store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoreEngine {
    Sqlite,
    Redis,
}

/// Empty store of one server, removed on drop.
pub(crate) struct Store {
    url: String,
    home: PathBuf,
    redis: Option<Server>,
}

/// Options of Redis: append-only file, synced once a second.
const REDIS: [&str; 8] =
    ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];

impl StoreEngine {
    pub(crate) fn open(self, cores: &Cores, server: &str) -> Result<Store, String> {
        let home = home(server)?;
        match self {
            StoreEngine::Sqlite => {
                let url = format!("sqlite:{}", home.join("tasks.db").display());
                Ok(Store { url, home, redis: None })
            }
            StoreEngine::Redis => {
                let address = free_address().map_err(|e| format!("no free port: {e}"))?;
                let mut command = Command::new("redis-server");
                command.current_dir(&home).arg("--port").arg(address.port().to_string());
                command.args(REDIS);
                let redis = Server::without_pipes(cores, &mut command);
                let redis =
                    redis.map_err(|e| format!("no redis-server (`cargo xtask redis`): {e}"))?;
                let url = format!("redis://{address}/0");
                let store = Store { url, home, redis: Some(redis) };
                waits_until_listening(address)
                    .then_some(store)
                    .ok_or_else(|| "Redis does not listen after 10 s".to_owned())
            }
        }
    }
}

impl Store {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Process of the store, if it is Redis.
    pub(crate) fn process(&self) -> Option<&Server> {
        self.redis.as_ref()
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        drop(self.redis.take());
        let _ = fs::remove_dir_all(&self.home);
    }
}

/// Creates an empty directory beside the programs; the temporary directory may be in memory.
fn home(server: &str) -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let home = here.with_file_name(format!("bench-store-{server}-{}", process::id()));
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).map_err(|e| format!("cannot create {}: {e}", home.display()))?;
    Ok(home)
}

fn waits_until_listening(address: SocketAddr) -> bool {
    let late = Instant::now() + Duration::from_secs(10);
    while Instant::now() < late {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}
