//! Parser for server-sent events (`text/event-stream`).

#[cfg(test)]
pub(crate) mod tests;

use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use memchr::{memchr, memchr2};
use serde_json::json;
use wharf_model::{Error, ErrorKind};

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerEvent {
    /// Event type; a message if absent.
    pub name: Option<String>,
    /// Data of the event.
    pub data: Bytes,
    /// Event id.
    pub id: Option<String>,
}

/// Parses a `text/event-stream`. Buffers at most one event of the maximum length.
///
/// ```
/// use wharf_wire::sse::EventParser;
///
/// let mut events = EventParser::new(1024);
/// events.push(b"\xef\xbb\xbf: hello\r\nid: 7\r\ndata: {\"a\":\r\ndata: 1}\r\n\r\ndata: cut o");
/// let event = events.next().unwrap().unwrap();
/// assert_eq!(event.data, "{\"a\":\n1}");
/// assert!(events.next().is_none());
/// assert_eq!(events.last_id(), Some("7"));
/// ```
#[derive(Debug)]
pub struct EventParser {
    buffer: BytesMut,
    limit: usize,
    /// Number of buffered bytes already searched for a line ending.
    searched: usize,
    /// Set once the byte order mark was checked.
    started: bool,
    /// Set if a following line feed belongs to the line that ended with a carriage return.
    after_return: bool,
    /// Set while the rest of an oversized event is discarded.
    skipping: bool,
    /// Set if the start of the current line was discarded because the line is a comment or belongs to an
    /// oversized event.
    cut: bool,
    event: PendingEvent,
    last_id: Option<String>,
    retry: Option<Duration>,
}

/// Incomplete event.
#[derive(Debug, Default)]
struct PendingEvent {
    /// Size of its lines in bytes.
    size: usize,
    name: Option<String>,
    data: Option<Vec<u8>>,
    id: Option<String>,
}

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// Upper limit of the reconnection time that a server may request with `retry`.
const MAX_RETRY_DELAY: Duration = Duration::from_secs(60);

impl EventParser {
    /// Creates a parser for events of at most `limit` bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        EventParser {
            buffer: BytesMut::new(),
            limit,
            searched: 0,
            started: false,
            after_return: false,
            skipping: false,
            cut: false,
            event: PendingEvent::default(),
            last_id: None,
            retry: None,
        }
    }

    /// Appends received bytes. Take every event out before pushing more.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// Returns the next event with data, or one error for each oversized event. `id` and `retry` of events
    /// without data take effect as well.
    #[expect(clippy::should_implement_trait, reason = "more may come after None")]
    pub fn next(&mut self) -> Option<Result<ServerEvent, Error>> {
        if !self.started && !self.skip_byte_order_mark() {
            return None;
        }
        loop {
            if self.after_return && !self.buffer.is_empty() {
                self.after_return = false;
                if self.buffer.starts_with(b"\n") {
                    self.buffer.advance(1);
                }
            }
            let Some(offset) = memchr2(b'\r', b'\n', &self.buffer[self.searched..]) else {
                self.searched = self.buffer.len();
                return self.check_partial_line();
            };
            let line = self.buffer.split_to(self.searched + offset);
            self.after_return = self.buffer.get_u8() == b'\r';
            self.searched = 0;
            if let Some(found) = self.line(&line) {
                return Some(found);
            }
        }
    }

    /// Returns the id of the last event that had one, for resumption (`Last-Event-ID`).
    #[must_use]
    pub fn last_id(&self) -> Option<&str> {
        self.last_id.as_deref().filter(|id| !id.is_empty())
    }

    /// Returns the reconnect delay that the server requested: at most one minute.
    #[must_use]
    pub fn retry(&self) -> Option<Duration> {
        self.retry
    }

    /// Skips a byte order mark at the start of the stream; returns false if more bytes are needed to decide.
    fn skip_byte_order_mark(&mut self) -> bool {
        if self.buffer.starts_with(BYTE_ORDER_MARK) {
            self.buffer.advance(BYTE_ORDER_MARK.len());
        } else if BYTE_ORDER_MARK.starts_with(&self.buffer) {
            return false;
        }
        self.started = true;
        true
    }

    /// Checks the size of a line that is incomplete, so that it does not grow without bound.
    fn check_partial_line(&mut self) -> Option<Result<ServerEvent, Error>> {
        let counts = !self.skipping && !self.cut && !self.buffer.starts_with(b":");
        if self.buffer.is_empty() || (counts && self.fits(self.buffer.len())) {
            return None;
        }
        (self.buffer, self.searched, self.cut) = (BytesMut::new(), 0, true);
        counts.then(|| Err(self.reject_event()))
    }

    fn line(&mut self, line: &[u8]) -> Option<Result<ServerEvent, Error>> {
        let cut = std::mem::take(&mut self.cut);
        if line.is_empty() && !cut {
            return match std::mem::take(&mut self.skipping) {
                true => None,
                false => self.end_event().map(Ok),
            };
        }
        if cut || self.skipping || line.starts_with(b":") {
            return None;
        }
        if !self.fits(line.len()) {
            return Some(Err(self.reject_event()));
        }
        self.event.size += line.len();
        self.field(line);
        None
    }

    fn fits(&self, more: usize) -> bool {
        self.event.size.saturating_add(more) <= self.limit
    }

    fn reject_event(&mut self) -> Error {
        self.event = PendingEvent::default();
        self.skipping = true;
        let message = format!("The server sent an event of more than {} bytes", self.limit);
        let data = json!({"limit": self.limit});
        Error::new(ErrorKind::ContentTooLarge).with_message(message).with_data(data)
    }

    fn field(&mut self, line: &[u8]) {
        let (name, value) = match memchr(b':', line) {
            Some(colon) => (&line[..colon], &line[colon + 1..]),
            None => (line, &line[line.len()..]),
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        let text = || String::from_utf8_lossy(value).into_owned();
        match name {
            b"data" => match &mut self.event.data {
                Some(data) => {
                    data.push(b'\n');
                    data.extend_from_slice(value);
                }
                data => *data = Some(value.to_vec()),
            },
            b"event" => self.event.name = Some(text()),
            b"id" if memchr(0, value).is_none() => self.event.id = Some(text()),
            b"retry" if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let wait = text().parse().map_or(MAX_RETRY_DELAY, Duration::from_millis);
                self.retry = Some(wait.min(MAX_RETRY_DELAY));
            }
            _ => {}
        }
    }

    fn end_event(&mut self) -> Option<ServerEvent> {
        let PendingEvent { name, data, id, .. } = std::mem::take(&mut self.event);
        if id.is_some() {
            self.last_id.clone_from(&id);
        }
        let data = data.filter(|data| !data.is_empty())?;
        let name = name.filter(|name| !name.is_empty());
        Some(ServerEvent { name, data: data.into(), id })
    }
}
