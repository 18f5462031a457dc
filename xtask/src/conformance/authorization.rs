//! The suite's third side: it is an OAuth client, and wants a person with a browser.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};

/// The client that `everything-authority` knows.
const CLIENT: &str = "conformance-suite";

/// Runs the suite against the authorization server at `url`. Whichever page it wants opened, `person` opens.
pub(crate) fn run(
    mut command: Command,
    url: &str,
    person: &Path,
    mut log: File,
) -> Result<ExitStatus, String> {
    let port = free_port()?.to_string();
    let resource = format!("{url}/mcp");
    command.args(["--client-id", CLIENT, "--resource", &resource, "--port", &port]);
    let child = command.stdout(Stdio::piped()).spawn();
    let mut suite = Running(child.map_err(|e| format!("cannot run the suite: {e}"))?);
    let said = suite.0.stdout.take().ok_or("the suite has no output")?;
    let page = format!("{url}/authorize?");
    for line in BufReader::new(said).lines().map_while(Result::ok) {
        writeln!(log, "{line}").map_err(|e| format!("cannot write what the suite says: {e}"))?;
        if line.starts_with(&page) {
            // Without an answer the suite would wait for five minutes.
            agree(person, &line)?;
        }
    }
    suite.0.wait().map_err(|e| format!("cannot wait for the suite: {e}"))
}

fn agree(person: &Path, page: &str) -> Result<(), String> {
    let output = Command::new(person).arg(page).stdin(Stdio::null()).output();
    let output = output.map_err(|e| format!("cannot run {}: {e}", person.display()))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("nobody could agree at {page}: {}", said.trim()))
}

/// A port that nothing listens at: the suite cannot choose one by itself.
fn free_port() -> Result<u16, String> {
    let listener = TcpListener::bind("127.0.0.1:0").and_then(|it| it.local_addr());
    listener.map(|it| it.port()).map_err(|e| format!("there is no free port: {e}"))
}

/// The suite, which ends with this value.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // If it cannot be killed, it is gone already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
