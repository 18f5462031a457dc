//! The servers that the suite runs against.

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
    name: String,
    child: Child,
    stderr: Receiver<String>,
}

impl Server {
    /// Starts it at a port that the system chooses; the server says on stderr which.
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Self, String> {
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|e| format!("cannot run {}: {e}", program.display()))?;
        let (lines, stderr) = channel();
        let name = program.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let mut server = Self { url: String::new(), name, child, stderr };
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
        Err(format!("{} did not say where it serves", server.name))
    }

    /// Shows what the server has said since it started, and whether it is gone.
    pub(crate) fn explain(&mut self) {
        for line in self.stderr.try_iter() {
            eprintln!("{}: {line}", self.name);
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            eprintln!("{} ended by itself, with {status}", self.name);
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
