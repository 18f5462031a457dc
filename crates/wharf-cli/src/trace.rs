//! Trace of all messages (`--trace`).

use std::{sync::Arc, time::Instant};

use wharf::client::TraceEvent;

use crate::terminal::{StderrOutput, clean_line, ellipsis};

/// Prefix of a trace note with a line of the server's stderr.
const STDERR: &str = "stderr: ";

/// Maximum length of a message at a terminal.
const MAX_MESSAGE_BYTES: usize = 16 << 10;

/// Shows every message, or only the server's stderr.
pub(crate) struct MessageTrace {
    all: bool,
    started: Instant,
    screen: Arc<StderrOutput>,
}

impl MessageTrace {
    pub(crate) fn new(all: bool, screen: Arc<StderrOutput>) -> Self {
        MessageTrace { all, started: Instant::now(), screen }
    }

    pub(crate) fn record(&self, what: TraceEvent<'_>) {
        if self.all {
            return self.screen.line(&self.line(what));
        }
        if let TraceEvent::Note(note) = what
            && let Some(line) = note.strip_prefix(STDERR)
        {
            self.screen.line(&self.screen.paint().dim(&clean_line(line)));
        }
    }

    /// `12.345 --> {…}`: milliseconds since the start, the direction, the message.
    fn line(&self, what: TraceEvent<'_>) -> String {
        let paint = self.screen.paint();
        let time = format!("{:9.3}", self.started.elapsed().as_secs_f64() * 1000.0);
        let (arrow, text) = match what {
            TraceEvent::Sent(message) => (paint.cyan("-->"), self.shown(message)),
            TraceEvent::Received(message) => (paint.yellow("<--"), self.shown(message)),
            TraceEvent::Note(note) => (paint.dim("---"), self.shown(note.as_bytes())),
            _ => (paint.dim("---"), String::new()),
        };
        format!("{} {arrow} {text}", paint.dim(&time))
    }

    /// Message on one line: complete for programs, truncated at a terminal.
    fn shown(&self, message: &[u8]) -> String {
        let all = message.len();
        let shown = if self.screen.is_terminal() { all.min(MAX_MESSAGE_BYTES) } else { all };
        let text = String::from_utf8_lossy(&message[..shown]);
        let line = clean_line(text.trim_end());
        if shown < all { format!("{line}{} ({all} bytes)", ellipsis()) } else { line.into_owned() }
    }
}
