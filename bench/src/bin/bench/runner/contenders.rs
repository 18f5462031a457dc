//! Servers under comparison.

use std::env;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use bench::command_line::Mode;
use bench::process::{Cores, Server};

use super::stores::{Store, StoreEngine};

/// Baseline of the comparison.
pub(crate) const BARE: &str = "bare";
pub(crate) const FASTMCP: &str = "fastmcp";
pub(crate) const RMCP: &str = "rmcp";
pub(crate) const WHARF: &str = "wharf";

/// Rust server with durable tasks. It is separate from Wharf's main benchmark server, whose size is measured.
pub(crate) const TASK_SERVERS: [(&str, &str); 1] = [(WHARF, "bench-wharf-tasks")];

/// JSON Schema validators with their program.
pub(crate) const JSONSCHEMA: &str = "jsonschema";
pub(crate) const VALIDATORS: [(&str, &str); 2] =
    [(WHARF, "bench-schema"), (JSONSCHEMA, "bench-schema")];

/// Poll interval of tasks that the servers announce.
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// Server under comparison. All have the same command line.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub(crate) name: &'static str,
    words: Vec<OsString>,
    environment: Vec<(&'static str, String)>,
}

/// Rust servers: the feature that builds the server, and its program.
pub(crate) const RUST: [(&str, &str); 4] = [
    (WHARF, "bench-wharf"),
    (BARE, "bench-bare"),
    (RMCP, "bench-rmcp"),
    ("tower-mcp", "bench-tower-mcp"),
];

/// Servers in other languages: the environment variables of the interpreter and of the program.
const FOREIGN: [(&str, &str, &str); 2] = [
    (FASTMCP, "BENCH_PYTHON", "BENCH_PYTHON_SERVER"),
    ("typescript", "BENCH_NODE", "BENCH_NODE_SERVER"),
];

impl Contender {
    /// All available servers: the built ones of these programs, and those whose interpreters are set in the
    /// environment.
    pub(crate) fn all(programs: &[(&'static str, &str)]) -> Result<Vec<Self>, String> {
        let here = env::current_exe().map_err(|e| format!("cannot find this program: {e}"))?;
        let rust = programs.iter().map(|(name, program)| (*name, here.with_file_name(program)));
        let rust = rust.filter(|(_, program)| program.exists());
        let new = |name, words| Contender { name, words, environment: Vec::new() };
        let mut all: Vec<_> = rust.map(|(name, program)| new(name, vec![program.into()])).collect();
        for (name, interpreter, server) in FOREIGN {
            if let (Some(interpreter), Some(server)) =
                (env::var_os(interpreter), env::var_os(server))
            {
                all.push(new(name, vec![interpreter, server]));
            }
        }
        if all.is_empty() {
            return Err("no server is built: run `cargo xtask bench`".to_owned());
        }
        Ok(all)
    }

    /// True if it is a program of this package.
    pub(crate) fn is_rust(&self) -> bool {
        self.words.len() == 1
    }

    pub(crate) fn program(&self) -> PathBuf {
        PathBuf::from(&self.words[0])
    }

    /// Prefixes the command line, for example with valgrind.
    pub(crate) fn behind(&self, words: &[OsString]) -> Self {
        Contender { words: [words, &self.words].concat(), ..self.clone() }
    }

    /// The server with its tasks in a durable store; `None` if it does not support the store.
    pub(crate) fn with_store(&self, engine: StoreEngine, store: &Store) -> Option<Self> {
        let environment = vec![
            ("BENCH_STORE", store.url().to_owned()),
            ("BENCH_POLL_MS", POLL_INTERVAL.as_millis().to_string()),
            // Wharf requires a key with a shared store.
            ("WHARF_STATE_KEY", format!("{}=", "A".repeat(43))),
        ];
        let can = self.name == WHARF || (self.name, engine) == (FASTMCP, StoreEngine::Redis);
        can.then(|| Contender { environment, ..self.clone() })
    }

    /// The server with observers; `None` if it has none. The program is separate from Wharf's main benchmark server,
    /// whose size is measured.
    pub(crate) fn with_observers(&self, observers: &str) -> Option<Self> {
        let environment = vec![("BENCH_OBSERVERS", observers.to_owned())];
        let words = vec![self.program().with_file_name("bench-wharf-observed").into()];
        (self.name == WHARF).then(|| Contender { environment, words, ..self.clone() })
    }

    /// Command that runs a validator this number of times.
    pub(crate) fn validator(&self, operation: &str, schema: &str, calls: u64) -> Command {
        let mut command = self.command();
        command.args([self.name, operation, schema, &calls.to_string()]);
        command
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.words[0]);
        command.args(&self.words[1..]);
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn stdio(&self) -> Command {
        let mut command = self.command();
        command.args(["stdio", "0"]);
        command
    }

    /// Starts the server over HTTP and waits until it listens.
    pub(crate) fn listen(
        &self,
        cores: &Cores,
        mode: Mode,
        tools: usize,
    ) -> Result<ListeningServer, String> {
        let address = free_address().map_err(|e| format!("no free port: {e}"))?;
        let mut command = self.command();
        let words =
            ["http".to_owned(), address.port().to_string(), tools.to_string(), mode.to_string()];
        let server = Server::without_pipes(cores, command.args(words));
        let mut server = server.map_err(|e| format!("cannot start: {e}"))?;
        let late = Instant::now() + Duration::from_secs(60);
        while TcpStream::connect(address).is_err() {
            let ended = server.child().try_wait().is_ok_and(|status| status.is_some());
            if ended || Instant::now() > late {
                return Err("the server exited or does not listen after 60 s".to_owned());
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(ListeningServer { server, address })
    }
}

/// Running HTTP server; dropping it ends the process.
pub(crate) struct ListeningServer {
    pub(crate) server: Server,
    pub(crate) address: SocketAddr,
}

pub(crate) fn free_address() -> std::io::Result<SocketAddr> {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()
}
