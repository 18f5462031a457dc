//! Foreign programs, run by scripts in `tests/foreign`.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStderr, Command};

use wharf_testbed::foreign_programs::Installed;

/// Running script of `tests/foreign`, killed on drop.
pub(crate) struct Program {
    name: String,
    /// Process, killed on drop.
    process: Child,
    stderr: Option<Lines<BufReader<ChildStderr>>>,
}

impl Program {
    pub(crate) fn start(script: &str, arguments: &[&str]) -> Self {
        let mut command = command(script);
        let mut process = command
            .args(arguments)
            // A script exits when stdin closes, even if the test was killed.
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap_or_else(|e| {
                panic!("cannot run {script}: {e}; run `cargo xtask foreign` again")
            });
        let stderr = process.stderr.take().map(|stderr| BufReader::new(stderr).lines());
        Self { name: script.to_owned(), process, stderr }
    }

    /// Returns the rest of the next line that starts with `word`.
    pub(crate) async fn line_after(&mut self, word: &str) -> String {
        let lines = self.stderr.as_mut().expect("it was not let go");
        let mut said = String::new();
        while let Ok(Some(line)) = lines.next_line().await {
            if let Some(rest) = line.strip_prefix(word) {
                return rest.trim().to_owned();
            }
            said = said + &line + "\n";
        }
        let ended = self.process.try_wait();
        panic!("{} did not print {word:?} ({ended:?}); stderr:\n{said}", self.name);
    }

    /// Keeps reading in the background, so that the script never blocks on a full pipe.
    pub(crate) fn release_connection(&mut self) {
        let lines = self.stderr.take();
        tokio::spawn(async move {
            let Some(mut lines) = lines else { return };
            while let Ok(Some(line)) = lines.next_line().await {
                eprintln!("{line}");
            }
        });
    }
}

/// Command for a script in `tests/foreign`.
pub(crate) fn command(script: &str) -> Command {
    let installed = Installed::find().unwrap_or_else(|why| panic!("{why}"));
    let mut command = Command::new(installed.runtime(script));
    command
        .arg(script)
        .current_dir(&installed.scripts)
        .env("WHARF_FOREIGN", &installed.home)
        .env("PYTHONDONTWRITEBYTECODE", "1");
    command
}
