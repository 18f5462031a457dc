//! Upstream server over stdio that tests start: this program, started again.

use serde_json::json;
use wharf::{Client, Server, Tool, client::ChildCommand, server::Transport};

/// Environment variable that makes the test below a server.
const ROLE: &str = "WHARF_UPSTREAM_PROGRAM";

/// Not a test: the server. It does nothing without the environment variable.
#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::print_stdout, reason = "the client skips the line of the test harness")]
async fn serve() {
    if std::env::var_os(ROLE).is_none() {
        return;
    }
    // The test harness has not ended its line on stdout.
    println!();
    let leave = Tool::new("leave", async || -> String { std::process::exit(0) });
    let server = Server::new("upstream", "1.0.0").add(leave).add(Tool::new("echo", async || "x"));
    server.run_over(Transport::Stdio).await.unwrap();
    std::process::exit(0);
}

/// Returns the command that starts the server.
pub fn command() -> ChildCommand {
    let program = std::env::current_exe().unwrap();
    ChildCommand::new(program.to_str().unwrap())
        .args(["--exact", "upstream_program::serve", "--nocapture", "--test-threads=1"])
        .env(ROLE, "server")
}

/// Ends the process of the server, and starts it again by another call.
pub async fn restart(client: &Client) {
    assert!(client.call("leave", json!({})).await.is_err());
    client.call("echo", json!({})).await.unwrap();
}
