//! Limits of one connection.

use std::time::Duration;

use wharf_model::setters;

/// Limits of one connection.
///
/// ```
/// # mod wharf { pub mod server { pub use wharf_transport::*; } }
/// use std::time::Duration;
/// use wharf::server::LineLimits;
///
/// let patient = LineLimits::default().calls(64).grace(Duration::from_secs(30));
/// assert_eq!(patient.listens, 1024);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineLimits {
    /// Maximum number of calls in flight. At that number, reading pauses until a call ends
    /// (back-pressure).
    pub calls: usize,
    /// Maximum time for which reading pauses. A call that still exceeds the limit is then rejected.
    pub patience: Duration,
    /// Maximum number of subscriptions. One more is rejected.
    pub listens: usize,
    /// Maximum number of bytes that the messages of calls in flight may hold. At that number,
    /// reading pauses as it does at the limit of calls.
    pub held: usize,
    /// Maximum number of bytes queued for a slow client. At that number, calls wait
    /// (back-pressure).
    pub output: usize,
    /// Graceful shutdown timeout: time for calls in flight after the client has disconnected or the
    /// server shuts down.
    pub grace: Duration,
    /// Maximum time from a message's first byte to its last, plus its length at 64 KiB per second,
    /// and maximum time between two reads of it. Does not apply to stdio.
    pub arrival: Duration,
    /// Maximum time in which the client must read something while output waits for it. Then the
    /// connection is closed. Does not apply to stdio, where the client may be stopped in a debugger,
    /// nor to connections within the process. WebSockets have `HttpLimits::write` instead.
    pub write: Duration,
    /// Maximum number of bytes of partially received messages, on all connections of a listening
    /// socket or of an HTTP endpoint; at least twice the maximum message length. One caller gets at
    /// most half of it. A message beyond it is answered with an error.
    pub unfinished: usize,
    /// Maximum number of bytes of all messages that are being read or handled, on all connections
    /// of a listening socket. WebSockets share `HttpLimits::bodies` instead.
    pub messages: usize,
}

impl Default for LineLimits {
    fn default() -> Self {
        LineLimits {
            calls: 1024,
            patience: Duration::from_secs(5),
            listens: 1024,
            held: 64 << 20,
            output: 256 << 10,
            grace: Duration::from_secs(5),
            arrival: Duration::from_secs(10),
            write: Duration::from_secs(10),
            unfinished: 48 << 20,
            messages: 256 << 20,
        }
    }
}

setters!(LineLimits {
    calls: usize,
    patience: Duration,
    listens: usize,
    held: usize,
    output: usize,
    grace: Duration,
    arrival: Duration,
    write: Duration,
    unfinished: usize,
    messages: usize,
});
