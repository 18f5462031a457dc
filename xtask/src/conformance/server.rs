//! The server that the suite runs against.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// How long it may take to start on a busy machine.
const START: Duration = Duration::from_secs(30);

/// A running server. It ends with this value.
pub(crate) struct Server {
    pub(crate) url: String,
    child: Child,
    stderr: Receiver<String>,
}

impl Server {
    /// Starts it at a port that the system chooses; the server says on stderr which.
    pub(crate) fn start(program: &Path) -> Result<Self, String> {
        let child = Command::new(program)
            .args(["--http", "127.0.0.1:0"])
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
        let (lines, stderr) = channel();
        let mut server = Self { url: String::new(), child, stderr };
        if let Some(pipe) = server.child.stderr.take() {
            thread::spawn(move || forward(pipe, &lines));
        }
        while let Ok(line) = server.stderr.recv_timeout(START) {
            if let Some(url) = line.split_whitespace().find(|word| word.starts_with("http://")) {
                url.clone_into(&mut server.url);
                return Ok(server);
            }
            eprintln!("{line}");
        }
        Err("everything-server did not say where it serves".to_owned())
    }

    /// Shows what the server has said since it started, and whether it is gone.
    pub(crate) fn explain(&mut self) {
        for line in self.stderr.try_iter() {
            eprintln!("everything-server: {line}");
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            eprintln!("everything-server ended by itself, with {status}");
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // If it cannot be killed, it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads all the time, so that the server never waits for a full pipe.
fn forward(pipe: ChildStderr, lines: &Sender<String>) {
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        let _ = lines.send(line);
    }
}
