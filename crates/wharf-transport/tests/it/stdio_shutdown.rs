//! Graceful shutdown of a server over stdio, in a process of its own: this program, started again.

use std::{
    process::{ExitStatus, Stdio},
    sync::Arc,
    time::Duration,
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    process::{Child, ChildStdin, ChildStdout, Command},
    time::timeout,
};
use wharf_model::{
    BoxFuture, Deadlines, Implementation, Method, Outbox, Outcome, Reply, Request, Service,
    ToolResult,
};
use wharf_transport::{LineLimits, ServerContext, Shutdown, server::stdio};
use wharf_wire::ServerProtocol;

const PATIENCE: Duration = Duration::from_secs(60);
/// Environment variable that makes this program the server.
const ROLE: &str = "WHARF_STDIO_SHUTDOWN_SERVER";

/// Service whose tool `hang` never returns.
struct HangService;

impl Service for HangService {
    fn call(&self, request: Request, _: Outbox) -> BoxFuture<Outcome> {
        Box::pin(async move {
            match (request.method, &*request.target()) {
                (Method::Discover, _) => Reply::Discover(Box::default()).into(),
                (_, "hang") => std::future::pending().await,
                _ => ToolResult::text("now").into(),
            }
        })
    }
}

/// Runs the server in the child process; does nothing in the test run.
#[test]
fn as_a_server() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    let limits = LineLimits::default().grace(Duration::from_millis(200));
    let host = ServerContext::new(
        Arc::new(ServerProtocol::new(Implementation::new("toy", "1"))),
        HangService,
    )
    .deadlines(Deadlines::NONE)
    .limits(limits);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // The test harness has not ended its line.
    println!();
    runtime.block_on(stdio::serve(Arc::new(host), Shutdown::new())).unwrap();
    std::process::exit(0);
}

struct ServerProcess {
    child: Child,
    stdin: ChildStdin,
    stdout: Lines<BufReader<ChildStdout>>,
}

impl ServerProcess {
    fn start() -> ServerProcess {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "stdio_shutdown::as_a_server", "--nocapture", "--test-threads=1"])
            .env(ROLE, "1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        ServerProcess { child, stdin, stdout: BufReader::new(stdout).lines() }
    }

    async fn send(&mut self, message: Value) {
        self.stdin.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    /// Next message; `None` at the end of the output.
    async fn next(&mut self) -> Option<Value> {
        loop {
            let line = timeout(PATIENCE, self.stdout.next_line()).await.expect("patience");
            // The child's test harness writes its own lines first.
            if let Ok(message) = serde_json::from_str(&line.unwrap()?) {
                return Some(message);
            }
        }
    }

    fn terminate(&self) {
        let process = i32::try_from(self.child.id().unwrap()).unwrap();
        kill_process(Pid::from_raw(process).unwrap(), Signal::TERM).unwrap();
    }

    async fn ended(&mut self) -> ExitStatus {
        timeout(PATIENCE, self.child.wait()).await.expect("patience").unwrap()
    }
}

fn call(id: u64, name: &str, is_modern: bool) -> Value {
    let mut params = json!({"name": name});
    if is_modern {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    }
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

#[tokio::test]
async fn a_call_that_outlasts_the_shutdown_timeout_after_sigterm_is_answered() {
    for is_modern in [true, false] {
        let mut server = ServerProcess::start();
        if !is_modern {
            let params = json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "t", "version": "1"},
            });
            let hello =
                json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
            server.send(hello).await;
            assert_eq!(server.next().await.unwrap()["id"], 0);
        }
        server.send(call(1, "hang", is_modern)).await;
        // Its reply shows that the call before it was started.
        server.send(call(2, "now", is_modern)).await;
        assert_eq!(server.next().await.unwrap()["id"], 2);
        server.terminate();
        let cut = server.next().await.expect("a reply to the call");
        let message = cut["error"]["message"].as_str().unwrap_or_default();
        assert!(cut["id"] == 1 && message.contains("shutting down"), "{cut}");
        assert_eq!(server.next().await, None);
        assert!(server.ended().await.success());
    }
}
