//! Trace of a client transport: messages and other events, passed to a callback.

use std::{fmt, sync::Arc};

use crate::client::ClientTransportOptions;

/// Trace callback of a transport. It must not block.
pub type Trace = Arc<dyn Fn(TraceEvent<'_>) + Send + Sync>;

/// A message on a transport, or another event.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::TraceEvent;
///
/// /// Prints an event, as the trace callback of a client.
/// fn print(event: TraceEvent<'_>) {
///     match event {
///         TraceEvent::Sent(message) => eprintln!("> {}", String::from_utf8_lossy(message)),
///         TraceEvent::Received(message) => eprintln!("< {}", String::from_utf8_lossy(message)),
///         TraceEvent::Note(note) => eprintln!("# {note}"),
///         _ => {}
///     }
/// }
/// # print(TraceEvent::Note("connected"));
/// ```
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum TraceEvent<'a> {
    /// A message to the server.
    Sent(&'a [u8]),
    /// A message from the server.
    Received(&'a [u8]),
    /// Another event: a status line, a line of a child's stderr, a new connection.
    Note(&'a str),
}

impl ClientTransportOptions {
    /// Passes an event to the trace callback.
    pub(crate) fn record(&self, what: TraceEvent<'_>) {
        if let Some(trace) = &self.trace {
            trace(what);
        }
    }

    /// Passes a note to the trace callback.
    pub(crate) fn note(&self, note: impl fmt::Display) {
        if let Some(trace) = &self.trace {
            trace(TraceEvent::Note(&note.to_string()));
        }
    }
}
