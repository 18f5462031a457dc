//! Writes lines to stderr without waiting for the process that reads it.
//!
//! A parent process that starts a server and does not read its stderr leaves the pipe full. A blocking write would then
//! stop the thread, and with it the calls that it runs. The buffer of the pipe (64 KiB on Linux) is the queue of the log: a
//! line that does not fit is dropped and counted, and the number precedes the next line that fits. A queue with a thread
//! of its own would lose its lines when the process ends, which are those that explain the end.

use std::io::{self, StderrLock, Write as _};

use tracing::Level;
use wharf_model::Lock;

use super::{LogFormat, fields::LogFields, line::write_line};

/// Bytes that a pipe takes at once if it is writable (`PIPE_BUF`).
const PIPE_BUF: usize = if cfg!(target_os = "linux") { 4096 } else { 512 };

static STDERR: Lock<StderrState> = Lock::new(StderrState { dropped: 0, is_cut: false });

struct StderrState {
    /// Number of lines that were dropped since the last one that was written.
    dropped: u64,
    /// True if the last line was written in part.
    is_cut: bool,
}

/// Writes a line, or drops it if stderr is full. A closed stderr is not an error.
pub(super) fn write(format: LogFormat, line: &str) {
    let mut state = STDERR.lock();
    let dropped = state.dropped;
    if dropped > 0 {
        let text = format!("dropped {dropped} log lines: stderr was not read");
        let fields = LogFields::message(&text);
        let note = write_line(format, Level::WARN, module_path!(), &fields);
        if !state.put(&note) {
            state.dropped += 1;
            return;
        }
        state.dropped = 0;
    }
    if !state.put(line) {
        state.dropped += 1;
    }
}

impl StderrState {
    /// Returns false if the line, or a part of it, was not written.
    fn put(&mut self, line: &str) -> bool {
        // Locked for the whole line, so that lines of several threads do not mix.
        let mut stderr = io::stderr().lock();
        let end = if self.is_cut { "\n" } else { "" };
        let text = format!("{end}{line}");
        for (index, chunk) in text.as_bytes().chunks(PIPE_BUF).enumerate() {
            if !is_writable(&stderr) {
                self.is_cut |= index > 0;
                return false;
            }
            let _ = stderr.write_all(chunk);
        }
        self.is_cut = false;
        true
    }
}

/// Returns whether a write does not block. An error of the system shows in the write.
#[cfg(unix)]
fn is_writable(stderr: &StderrLock<'_>) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    !matches!(poll(&mut [PollFd::new(stderr, PollFlags::OUT)], Some(&now)), Ok(0))
}

/// Other systems cannot tell: a write waits for the reader there.
#[cfg(not(unix))]
fn is_writable(_: &StderrLock<'_>) -> bool {
    true
}
