//! Server in a separate process, whose memory can be measured.

use std::{net::SocketAddr, path::PathBuf, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};
use wharf::{
    Endpoint,
    http::{Http, HttpLimits},
    server::{Limits, MessageLimits},
};

use crate::advisories::{
    attacked_server::{HandlerCounts, server},
    harness::PATIENCE,
    http_client::HttpClient,
    web,
};

/// Environment variable that selects the server role for the test below.
const ROLE: &str = "WHARF_ADVISORIES_CHILD";
const PLAIN: &str = "plain";
const IMPATIENT: &str = "impatient";
const TIDY: &str = "tidy";
const CROWDED: &str = "crowded";
const SMALL: &str = "small";
/// Environment variable with the connection limit of the child.
const CONNECTIONS: &str = "WHARF_ADVISORIES_CONNECTIONS";

/// Settings with which glibc returns large free blocks to the system.
const TIDY_ALLOCATOR: [(&str, &str); 2] =
    [("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_ARENA_MAX", "1")];

/// Limit of the memory of bodies in a child with small limits, in bytes.
pub const BODIES_TOTAL: usize = 32 << 20;
/// Length of a message there: a sixteenth, as by default.
pub const MESSAGE: usize = BODIES_TOTAL / 16;

/// Limit of replay memory in a child with short timeouts, in bytes.
pub const REPLAY_TOTAL: usize = 4 << 20;

/// Server role of the child process; does nothing without the environment variable.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the parent reads where the child is")]
async fn the_child_serves_until_it_is_killed() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let role = role.to_str().unwrap();
    // As in a server that ends in `run`: without a subscriber, the server does not read what only a log contains.
    tracing_subscriber::fmt().with_writer(std::io::sink).init();
    let limits = match role {
        IMPATIENT => HttpLimits::default().write(Duration::from_secs(1)).replay_total(REPLAY_TOTAL),
        CROWDED => {
            let connections = std::env::var(CONNECTIONS).unwrap().parse().unwrap();
            HttpLimits::default().connections(connections).head(5 * PATIENCE)
        }
        SMALL => HttpLimits::default().bodies(BODIES_TOTAL).body(PATIENCE),
        _ => HttpLimits::default(),
    };
    let messages = match role {
        SMALL => MessageLimits::default().message(MESSAGE),
        _ => MessageLimits::default(),
    };
    let limits = Limits::default().http(limits).messages(messages);
    let http = if role == TIDY { Http::new().sse_2024() } else { Http::new() };
    let server = server(&HandlerCounts::default()).limits(limits).http(http);
    let endpoint = server.build().unwrap();
    let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
    let lines = Endpoint::listen_tcp("127.0.0.1:0").await.unwrap();
    println!("\nlines {}", lines.local_addr().unwrap());
    let address = listener.local_addr().unwrap();
    let socket = unix_path(std::process::id());
    // The last future is polled once the socket listens.
    let serving = async {
        tokio::join!(
            endpoint.serve_http_on(listener),
            endpoint.serve_listener(lines),
            endpoint.serve_unix(&socket),
            async { println!("address {address}") },
        )
    };
    let _ = tokio::time::timeout(5 * PATIENCE, serving).await;
}

/// Path of the Unix socket of a child.
fn unix_path(child: u32) -> PathBuf {
    std::env::temp_dir().join(format!("wharf-advisories-{child}.sock"))
}

pub struct ServerProcess {
    child: Child,
    pub address: SocketAddr,
    /// Address at which the child serves lines over TCP.
    pub lines: SocketAddr,
    /// Path of the Unix socket at which the child serves lines.
    pub unix: PathBuf,
    /// Kept open: after a minute the child's test harness prints a warning, and exits if it cannot.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl ServerProcess {
    /// Starts a child with the default configuration.
    pub async fn start() -> ServerProcess {
        ServerProcess::spawn(PLAIN, &[]).await
    }

    /// Starts a child with one second for clients to read, and less memory for unread output.
    pub async fn impatient() -> ServerProcess {
        ServerProcess::spawn(IMPATIENT, &[]).await
    }

    /// Starts a child whose allocator returns large free blocks to the system, so that the measured memory is what the
    /// server keeps. It serves HTTP+SSE too.
    pub async fn start_tidy() -> ServerProcess {
        ServerProcess::spawn(TIDY, &TIDY_ALLOCATOR).await
    }

    /// Starts a child with that allocator, whose bodies have an eighth of the usual memory and length.
    pub async fn start_small() -> ServerProcess {
        ServerProcess::spawn(SMALL, &TIDY_ALLOCATOR).await
    }

    /// Starts a child with this connection limit. Its timeouts are long, so idle connections stay open.
    pub async fn crowded(connections: usize) -> ServerProcess {
        ServerProcess::spawn(CROWDED, &[(CONNECTIONS, &connections.to_string())]).await
    }

    async fn spawn(role: &str, variables: &[(&str, &str)]) -> ServerProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "advisories::server_process::the_child_serves_until_it_is_killed",
                "--nocapture",
            ])
            .env(ROLE, role)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut over_tcp = None;
        loop {
            let line = lines.next_line().await.unwrap().expect("an address");
            if let Some(address) = line.strip_prefix("lines ") {
                over_tcp = Some(address.parse().unwrap());
            }
            if let Some(address) = line.strip_prefix("address ") {
                let address = address.parse().unwrap();
                let over_tcp = over_tcp.expect("where it speaks lines");
                let unix = unix_path(child.id().expect("a running child"));
                return ServerProcess { child, address, lines: over_tcp, unix, _stdout: lines };
            }
        }
    }

    /// HTTP client of the child, without a session.
    pub fn caller(&self, revision: &'static str) -> HttpClient {
        let url = format!("http://{}/mcp", self.address);
        HttpClient { pool: web::http1(), url, revision, session: None, bearer: None }
    }

    /// Waits until the process has ended and its files are closed.
    pub async fn stop(mut self) {
        self.child.kill().await.unwrap();
    }

    /// Number of open files and sockets.
    pub fn files(&self) -> usize {
        let id = self.child.id().expect("a running child");
        std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
    }

    /// Peak memory in bytes.
    pub fn peak(&self) -> usize {
        self.memory("VmHWM:")
    }

    /// Current memory in bytes.
    pub fn resident(&self) -> usize {
        self.memory("VmRSS:")
    }

    fn memory(&self, name: &str) -> usize {
        let id = self.child.id().expect("a running child");
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.trim().trim_end_matches(" kB").parse::<usize>().unwrap() << 10
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.unix);
    }
}
