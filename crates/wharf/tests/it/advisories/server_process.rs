//! Server in a separate process, whose memory can be measured.

use std::{net::SocketAddr, process::Stdio, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, BufReader, Lines},
    process::{Child, ChildStdout, Command},
};
use wharf::{Endpoint, http::HttpLimits, server::Limits};

use crate::advisories::{
    attacked_server::{HandlerCounts, server},
    harness::PATIENCE,
    http_client::HttpClient,
    web,
};

/// Tells the test below that it is the child.
const ROLE: &str = "WHARF_ADVISORIES_CHILD";
const PLAIN: &str = "plain";
const IMPATIENT: &str = "impatient";

/// What streams may keep in a child that is impatient.
pub const REPLAY_TOTAL: usize = 4 << 20;

/// Server role of the child process; does nothing without the environment variable.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the parent reads where the child is")]
async fn the_child_serves_until_it_is_killed() {
    let Some(role) = std::env::var_os(ROLE) else { return };
    let limits = match role == IMPATIENT {
        true => HttpLimits::default().write(Duration::from_secs(1)).replay_total(REPLAY_TOTAL),
        false => HttpLimits::default(),
    };
    let limits = Limits::default().http(limits);
    let endpoint = server(&HandlerCounts::default()).limits(limits).build().unwrap();
    let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
    let lines = Endpoint::listen_tcp("127.0.0.1:0").await.unwrap();
    println!("\nlines {}", lines.local_addr().unwrap());
    println!("address {}", listener.local_addr().unwrap());
    let serving =
        async { tokio::join!(endpoint.serve_http_on(listener), endpoint.serve_listener(lines)) };
    let _ = tokio::time::timeout(5 * PATIENCE, serving).await;
}

pub struct ServerProcess {
    child: Child,
    pub address: SocketAddr,
    /// Where it speaks lines over TCP.
    pub lines: SocketAddr,
    /// Kept open: after a minute the test harness of the child says that it takes long, and ends if it cannot.
    _stdout: Lines<BufReader<ChildStdout>>,
}

impl ServerProcess {
    /// With the default configuration.
    pub async fn start() -> ServerProcess {
        ServerProcess::spawn(PLAIN, &[]).await
    }

    /// With one second for clients to read, and less memory for what they have not read.
    pub async fn impatient() -> ServerProcess {
        ServerProcess::spawn(IMPATIENT, &[]).await
    }

    /// With an allocator that gives back what is large and free, whatever lies around it: what is measured then is what
    /// the server keeps.
    pub async fn start_tidy() -> ServerProcess {
        let tidy = [("MALLOC_MMAP_THRESHOLD_", "65536"), ("MALLOC_ARENA_MAX", "1")];
        ServerProcess::spawn(PLAIN, &tidy).await
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
                return ServerProcess { child, address, lines: over_tcp, _stdout: lines };
            }
        }
    }

    /// A caller of it, with no session yet.
    pub fn caller(&self, revision: &'static str) -> HttpClient {
        let url = format!("http://{}/mcp", self.address);
        HttpClient { pool: web::http1(), url, revision, session: None, bearer: None }
    }

    /// How many files and sockets it has open.
    pub fn files(&self) -> usize {
        let id = self.child.id().expect("a running child");
        std::fs::read_dir(format!("/proc/{id}/fd")).unwrap().count()
    }

    /// The most memory it ever had, in bytes.
    pub fn peak(&self) -> usize {
        self.memory("VmHWM:")
    }

    /// The memory it has now, in bytes.
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
