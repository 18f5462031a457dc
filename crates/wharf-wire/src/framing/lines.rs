//! Newline-delimited message framing (JSON Lines).

use bytes::{Bytes, BytesMut};
use memchr::memchr;

/// Result of [`Lines::next`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// One message, without its newline.
    Message(Bytes),
    /// A line longer than the limit; its content was discarded.
    TooLong,
}

/// Splits a stream of bytes into lines. Buffers at most one line of the maximum length.
///
/// ```
/// use wharf_wire::{Line, Lines};
///
/// let mut lines = Lines::new(8);
/// lines.push(b"one\r\n\ntwo\nmuch too long\nthr");
/// assert_eq!(lines.next(), Some(Line::Message("one".into())));
/// assert_eq!(lines.next(), Some(Line::Message("two".into())));
/// assert_eq!(lines.next(), Some(Line::TooLong));
/// assert_eq!(lines.next(), None);
/// lines.push(b"ee\n");
/// assert_eq!(lines.next(), Some(Line::Message("three".into())));
/// ```
#[derive(Debug)]
pub struct Lines {
    buffer: BytesMut,
    limit: usize,
    /// Number of buffered bytes already searched for a newline.
    searched: usize,
    /// Set while the rest of an oversized line is discarded.
    skipping: bool,
}

impl Lines {
    /// Creates a splitter for lines of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Lines { buffer: BytesMut::new(), limit, searched: 0, skipping: false }
    }

    /// Appends received bytes. Take every line out before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the buffer so that a reader can append to it. The reader must not change existing bytes.
    pub fn buffer(&mut self) -> &mut BytesMut {
        &mut self.buffer
    }

    /// Returns the next line that is not blank.
    #[expect(clippy::should_implement_trait, reason = "more may come after None")]
    pub fn next(&mut self) -> Option<Line> {
        if self.buffer.is_empty() {
            return None;
        }
        loop {
            let Some(offset) = find_newline(&self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return self.reject_if_too_long();
            };
            let end = self.searched + offset;
            let mut line = self.buffer.split_to(end + 1);
            self.searched = 0;
            if std::mem::take(&mut self.skipping) {
                continue;
            }
            line.truncate(end - usize::from(line[..end].ends_with(b"\r")));
            if line.len() > self.limit {
                return Some(Line::TooLong);
            }
            if !line.iter().all(u8::is_ascii_whitespace) {
                return Some(Line::Message(line.freeze()));
            }
        }
    }

    /// Returns the last line of a stream that ended without a newline.
    pub fn finish(&mut self) -> Option<Line> {
        self.push(b"\n");
        self.next()
    }

    /// Discards the line that is incomplete so far, and its rest when that arrives.
    pub fn abandon(&mut self) {
        if !self.buffer.is_empty() {
            self.buffer = BytesMut::new();
            self.searched = 0;
            self.skipping = true;
        }
    }

    /// Returns whether no line is incomplete.
    #[must_use]
    pub fn is_between(&self) -> bool {
        self.buffer.is_empty() && !self.skipping
    }

    fn reject_if_too_long(&mut self) -> Option<Line> {
        if self.skipping {
            self.buffer.clear();
            self.searched = 0;
            return None;
        }
        // One byte more than the limit may be the carriage return of a line at the limit.
        if self.buffer.len() <= self.limit.saturating_add(1) {
            return None;
        }
        self.buffer = BytesMut::new();
        self.searched = 0;
        self.skipping = true;
        Some(Line::TooLong)
    }
}

/// Returns the position of the first newline.
fn find_newline(bytes: &[u8]) -> Option<usize> {
    // SSE2 is present on every x86-64 CPU; detecting more features takes longer than scanning a first message.
    #[cfg(target_arch = "x86_64")]
    if let Some(search) = memchr::arch::x86_64::sse2::memchr::One::new(b'\n') {
        return search.find(bytes);
    }
    memchr(b'\n', bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(lines: &mut Lines) -> Vec<Line> {
        std::iter::from_fn(|| lines.next()).collect()
    }

    #[test]
    fn a_line_at_the_limit_passes_and_one_past_it_does_not() {
        for ending in ["\n", "\r\n"] {
            let mut lines = Lines::new(4);
            lines.push(format!("1234{ending}12345{ending}1{ending}").as_bytes());
            let expected = [Line::Message("1234".into()), Line::TooLong, Line::Message("1".into())];
            assert_eq!(all(&mut lines), expected, "{ending:?}");
        }
    }

    #[test]
    fn a_line_without_end_is_reported_once_and_not_kept() {
        let mut lines = Lines::new(4);
        let mut found = Vec::new();
        for _ in 0..100 {
            lines.push(b"xxxx");
            found.extend(all(&mut lines));
            assert!(lines.buffer.len() <= 8);
        }
        lines.push(b"x\nok\n");
        found.extend(all(&mut lines));
        assert_eq!(found, [Line::TooLong, Line::Message("ok".into())]);
    }

    #[test]
    fn the_rest_of_an_abandoned_line_is_dropped() {
        let mut lines = Lines::new(64);
        lines.abandon();
        lines.push(b"one\ntw");
        assert_eq!(all(&mut lines), [Line::Message("one".into())]);
        lines.abandon();
        assert!(!lines.is_between() && lines.buffer().is_empty());
        lines.push(b"o\nthree\n");
        assert_eq!(all(&mut lines), [Line::Message("three".into())]);
        assert!(lines.is_between());
    }

    #[test]
    fn the_last_line_needs_no_newline() {
        let mut lines = Lines::new(8);
        lines.push(b"a\nb");
        assert_eq!(all(&mut lines), [Line::Message("a".into())]);
        assert_eq!(lines.finish(), Some(Line::Message("b".into())));
        assert_eq!(lines.finish(), None);
    }
}
