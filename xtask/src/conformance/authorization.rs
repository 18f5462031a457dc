//! Runs the suite's authorization scenarios: the suite is an OAuth client that needs a user agent.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// Client id that `everything-authority` has registered.
const CLIENT: &str = "conformance-suite";

/// Runs the suite against the authorization server at `url`. `user_agent` opens the pages that the suite prints.
pub(crate) fn run(
    mut command: Command,
    url: &str,
    user_agent: &Path,
    mut log: File,
) -> Result<ExitStatus, String> {
    let port = free_port()?.to_string();
    let resource = format!("{url}/mcp");
    command.args(["--client-id", CLIENT, "--resource", &resource, "--port", &port]);
    let child = command.stdout(Stdio::piped()).spawn();
    let mut suite = SuiteProcess(child.map_err(|e| format!("cannot run the suite: {e}"))?);
    let output = suite.0.stdout.take().ok_or("the suite has no output")?;
    let page = format!("{url}/authorize?");
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        writeln!(log, "{line}").map_err(|e| format!("cannot write the suite's log: {e}"))?;
        if line.starts_with(&page) {
            // Without a response the suite would wait for five minutes.
            approve(user_agent, &line)?;
        }
    }
    suite.0.wait().map_err(|e| format!("cannot wait for the suite: {e}"))
}

fn approve(user_agent: &Path, page: &str) -> Result<(), String> {
    let output = Command::new(user_agent).arg(page).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot run {}: {e}", user_agent.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let output = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("cannot approve the authorization at {page}: {}", output.trim()))
}

/// Returns a free port, because the suite cannot choose one.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    listener.map(|it| it.port()).map_err(|e| format!("there is no free port: {e}"))
}

/// Process of the suite, killed on drop.
struct SuiteProcess(Child);

impl Drop for SuiteProcess {
    fn drop(&mut self) {
        // Fails only if the process has already exited.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
