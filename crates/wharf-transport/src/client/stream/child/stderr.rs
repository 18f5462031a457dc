//! Reads a child's stderr, and keeps its last lines.

use std::{sync::Arc, time::Duration};
use wharf_model::Lock;

use bytes::BufMut;
use tokio::{
    io::{AsyncRead, AsyncReadExt},
    task::JoinHandle,
    time::timeout,
};
use wharf_wire::{Line, Lines};

use crate::client::{Trace, TraceEvent};

/// Maximum size of the tail.
const MAX_TAIL_BYTES: usize = 4 << 10;
/// Bytes per read.
const CHUNK_BYTES: usize = 4 << 10;
/// Time to read the last lines: a grandchild may keep the pipe open.
const TAIL_TIMEOUT: Duration = Duration::from_millis(200);

/// The last lines of a child's stderr.
pub(super) struct StderrTail {
    tail: Arc<Lock<String>>,
    reading: JoinHandle<()>,
}

impl StderrTail {
    /// Reads to the end, and passes each line to `trace`.
    pub(super) fn follow(
        stderr: impl AsyncRead + Send + Unpin + 'static,
        trace: Option<Trace>,
    ) -> StderrTail {
        let tail = Arc::new(Lock::new(String::new()));
        let reading = tokio::spawn(read(stderr, trace, tail.clone()));
        StderrTail { tail, reading }
    }

    /// The last lines, after the child has exited.
    pub(super) async fn text(&mut self) -> String {
        if !self.reading.is_finished() {
            let _ = timeout(TAIL_TIMEOUT, &mut self.reading).await;
        }
        self.tail.lock().clone()
    }
}

impl Drop for StderrTail {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

async fn read(mut stderr: impl AsyncRead + Unpin, trace: Option<Trace>, tail: Arc<Lock<String>>) {
    let mut lines = Lines::new(MAX_TAIL_BYTES);
    loop {
        let buffer = lines.buffer();
        buffer.reserve(CHUNK_BYTES);
        let read = stderr.read_buf(&mut buffer.limit(CHUNK_BYTES)).await;
        let ended = read.unwrap_or(0) == 0;
        while let Some(line) = lines.next().or_else(|| ended.then(|| lines.finish()).flatten()) {
            let text = match &line {
                Line::Message(line) => printable(line),
                Line::TooLong => "(a line too long to show)".into(),
            };
            if let Some(trace) = &trace {
                trace(TraceEvent::Note(&format!("stderr: {text}")));
            }
            keep(&mut tail.lock(), &text);
        }
        if ended {
            return;
        }
    }
}

/// The line without terminal control characters.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    text.chars().filter(|it| !it.is_control() || *it == '\t').collect()
}

fn keep(tail: &mut String, line: &str) {
    if !tail.is_empty() {
        tail.push('\n');
    }
    tail.push_str(line);
    let excess = tail.len().saturating_sub(MAX_TAIL_BYTES);
    let start = (excess..=tail.len()).find(|start| tail.is_char_boundary(*start));
    tail.drain(..start.unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_end_is_kept_within_bounds_and_without_control_codes() {
        let said = format!("{}\n\u{1b}[31mlast\u{7} ünd\n", "ü\n".repeat(10_000));
        let mut tail = StderrTail::follow(std::io::Cursor::new(said.into_bytes()), None);
        let text = tail.text().await;
        assert!(text.len() <= MAX_TAIL_BYTES && text.ends_with("ü\n[31mlast ünd"), "{text}");
    }
}
