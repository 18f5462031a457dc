//! Server-sent events (`text/event-stream`): writing messages as events.

pub(crate) mod parser;

use std::time::Duration;

pub use crate::framing::sse::parser::{EventParser, ServerEvent};
use crate::json::writer;

/// Keep-alive comment for idle connections. No blank line follows, because some readers take a blank line for
/// an event.
pub const KEEP_ALIVE: &[u8] = b":\n";

/// Appends an event with one message. All messages are single lines.
///
/// ```
/// use wharf_wire::sse;
///
/// let mut out = Vec::new();
/// sse::event(&mut out, Some("1-7"), br#"{"jsonrpc":"2.0","id":1,"result":{}}"#);
/// assert_eq!(out, b"id: 1-7\ndata: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}\n\n");
/// ```
pub fn event(out: &mut Vec<u8>, id: Option<&str>, message: &[u8]) {
    debug_assert!(memchr::memchr2(b'\n', b'\r', message).is_none());
    out.reserve(message.len() + 48);
    if let Some(id) = id {
        field(out, "id", id.as_bytes());
    }
    open(out);
    out.extend_from_slice(message);
    close(out);
}

/// Starts an event; the caller appends its one message and then calls [`close`].
///
/// ```
/// use wharf_wire::sse;
///
/// let mut out = Vec::new();
/// sse::open(&mut out);
/// out.extend_from_slice(b"{}");
/// sse::close(&mut out);
/// assert_eq!(out, b"data: {}\n\n");
/// ```
pub fn open(out: &mut Vec<u8>) {
    out.extend_from_slice(b"data: ");
}

/// Ends an event that [`open`] started.
pub fn close(out: &mut Vec<u8>) {
    out.extend_from_slice(b"\n\n");
}

/// Appends a priming event: an event id for resumption, and the reconnect delay if `retry` is given.
pub fn priming(out: &mut Vec<u8>, id: &str, retry: Option<Duration>) {
    field(out, "id", id.as_bytes());
    if let Some(after) = retry {
        retry_field(out, after);
    }
    field(out, "data", b"");
    out.push(b'\n');
}

/// Appends the reconnect delay for the time after the stream closes. The field takes effect when it is read, so
/// it needs no data and no reader dispatches an event.
pub fn retry(out: &mut Vec<u8>, after: Duration) {
    retry_field(out, after);
    out.push(b'\n');
}

/// Appends an event that is not a message: `endpoint` of HTTP+SSE (2024-11-05).
pub fn named(out: &mut Vec<u8>, event: &str, data: &[u8]) {
    field(out, "event", event.as_bytes());
    field(out, "data", data);
    out.push(b'\n');
}

fn retry_field(out: &mut Vec<u8>, after: Duration) {
    out.extend_from_slice(b"retry: ");
    writer::integer(out, after.as_millis());
    out.push(b'\n');
}

fn field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.push(b'\n');
}
