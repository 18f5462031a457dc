//! Where servers keep their tasks: a file, or a Redis that is started for it.

use std::env;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{self, Command};
use std::thread;
use std::time::{Duration, Instant};

use bench::process::{Cores, Server};

use super::contenders::free_address;

/// What keeps the tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Engine {
    Sqlite,
    Redis,
}

/// An empty store of one server, which is gone with this.
pub(crate) struct Store {
    url: String,
    home: PathBuf,
    redis: Option<Server>,
}

/// What is written to disk when: once a second, by a thread of Redis'.
const REDIS: [&str; 8] =
    ["--bind", "127.0.0.1", "--save", "", "--appendonly", "yes", "--appendfsync", "everysec"];

impl Engine {
    pub(crate) fn open(self, cores: &Cores, server: &str) -> Result<Store, String> {
        let home = home(server)?;
        match self {
            Engine::Sqlite => {
                let url = format!("sqlite:{}", home.join("tasks.db").display());
                Ok(Store { url, home, redis: None })
            }
            Engine::Redis => {
                let address = free_address().map_err(|e| format!("no free port: {e}"))?;
                let mut command = Command::new("redis-server");
                command.current_dir(&home).arg("--port").arg(address.port().to_string());
                command.args(REDIS);
                let redis = Server::without_pipes(cores, &mut command);
                let redis =
                    redis.map_err(|e| format!("no redis-server (`cargo xtask redis`): {e}"))?;
                let url = format!("redis://{address}/0");
                let store = Store { url, home, redis: Some(redis) };
                answers(address).then_some(store).ok_or_else(|| "Redis does not listen".to_owned())
            }
        }
    }
}

impl Store {
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// Its process, if it has one of its own.
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

/// An empty directory beside the programs: a temporary one may be in memory, where nothing is durable.
fn home(server: &str) -> Result<PathBuf, String> {
    let here = env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
    let home = here.with_file_name(format!("bench-store-{server}-{}", process::id()));
    let _ = fs::remove_dir_all(&home);
    fs::create_dir_all(&home).map_err(|e| format!("cannot create {}: {e}", home.display()))?;
    Ok(home)
}

fn answers(address: SocketAddr) -> bool {
    let late = Instant::now() + Duration::from_secs(10);
    while Instant::now() < late {
        if TcpStream::connect(address).is_ok() {
            return true;
        }
        thread::sleep(Duration::from_millis(10));
    }
    false
}
