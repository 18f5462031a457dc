//! What a transport serves.

use std::{fmt, sync::Arc, time::Duration};

use wharf_model::{Deadlines, Service, Timer};
use wharf_wire::ServerProtocol;

use crate::server::limits::message_memory::MessageBudget;

/// What a transport serves: a service, the wire that speaks for it, and the limits of one line of
/// messages.
#[derive(Clone)]
pub struct ServerContext {
    /// Turns bytes into calls and outcomes into bytes.
    pub wire: Arc<ServerProtocol>,
    /// Answers the calls.
    pub service: Arc<dyn Service>,
    /// The clock that calls are timed by.
    pub timer: Arc<dyn Timer>,
    /// How long a call may take, unless the service says otherwise.
    pub deadlines: Deadlines,
    /// What one connection may use.
    pub limits: LineLimits,
}

impl fmt::Debug for ServerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerContext").field("limits", &self.limits).finish_non_exhaustive()
    }
}

/// What one connection may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineLimits {
    /// The longest line that is read, in bytes. A longer one is answered with an error.
    pub message: usize,
    /// How many calls may be under way. At that number, reading stops until one ends.
    pub calls: usize,
    /// How long reading stops at most. The call that still finds no place is then refused.
    pub patience: Duration,
    /// How many listens may be under way. One more is refused.
    pub listens: usize,
    /// How many bytes the messages of calls under way may hold. At that number, reading stops as it
    /// does at the limit of calls.
    pub held: usize,
    /// How many bytes may wait for a slow reader before calls are held back.
    pub output: usize,
    /// How long calls under way may go on once the client is gone or the server shuts down.
    pub grace: Duration,
    /// How long a message may take from its first byte to its last, beside what it needs at 64 KiB a second, and how
    /// long nothing of it may come. Over stdio it may take as long as it likes.
    pub arrival: Duration,
    /// Bytes of all messages that have begun to come and have not ended, on all connections of a listening socket or of
    /// an HTTP endpoint; at least twice the longest message. One caller alone gets half of it. What finds no room is
    /// answered with an error.
    pub unfinished: usize,
    /// Bytes of all messages that are being read or answered, on all connections of a listening socket. WebSockets
    /// share `HttpLimits::bodies` instead.
    pub messages: usize,
}

impl LineLimits {
    /// Bytes of all messages that have not ended. One caller must be able to send the longest.
    pub(crate) fn unfinished(&self) -> usize {
        self.unfinished.max(self.message.saturating_mul(2))
    }

    /// Room for the messages of a listening socket.
    pub(crate) fn budget(&self) -> Arc<MessageBudget> {
        MessageBudget::new(self.messages.max(self.unfinished()), self.unfinished())
    }
}

impl Default for LineLimits {
    fn default() -> Self {
        LineLimits {
            message: 16 << 20,
            calls: 1024,
            patience: Duration::from_secs(5),
            listens: 1024,
            held: 64 << 20,
            output: 256 << 10,
            grace: Duration::from_secs(5),
            arrival: Duration::from_secs(10),
            unfinished: 48 << 20,
            messages: 256 << 20,
        }
    }
}
