//! Processes of the servers under test.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

/// Timeout for the start, on a busy machine.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Running server, killed on drop.
pub(crate) struct ServerProcess {
    pub(crate) url: String,
    name: String,
    child: Child,
    stderr: Receiver<String>,
}

impl ServerProcess {
    /// Starts the server at a free port, which the server prints on stderr.
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
        while let Ok(line) = server.stderr.recv_timeout(START_TIMEOUT) {
            if let Some(url) = line.split_whitespace().find(|word| word.starts_with("http://")) {
                url.clone_into(&mut server.url);
                return Ok(server);
            }
            eprintln!("{line}");
        }
        Err(format!("{} did not print its URL on stderr", server.name))
    }

    /// Prints the server's stderr since the start, and its exit status if it has exited.
    pub(crate) fn print_status(&mut self) {
        for line in self.stderr.try_iter() {
            eprintln!("{}: {line}", self.name);
        }
        if let Ok(Some(status)) = self.child.try_wait() {
            eprintln!("{} exited with {status}", self.name);
        }
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        // Fails only if the process has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Reads continuously, so that the server never blocks on a full pipe.
fn forward(pipe: ChildStderr, lines: &Sender<String>) {
    for line in BufReader::new(pipe).lines().map_while(Result::ok) {
        let _ = lines.send(line);
    }
}
