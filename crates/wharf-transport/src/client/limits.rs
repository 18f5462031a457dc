//! Limits of a client: message size, calls in flight, open server requests, queued messages.

/// Limits on the resources of a client that one server can use.
///
/// ```
/// # mod wharf { pub use wharf_transport::client; }
/// use wharf::client::ClientLimits;
///
/// let limits = ClientLimits::default().message(1 << 20).in_flight(100);
/// assert_eq!(limits.asks, 64);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClientLimits {
    /// Maximum length of a message, in bytes: a line, a body, an event. 16 MiB.
    pub message: usize,
    /// Maximum number of calls and subscriptions in flight. One more fails. 4,096.
    pub in_flight: usize,
    /// Maximum number of open requests of the server. One more is rejected. 64.
    pub asks: usize,
    /// Maximum number of messages waiting to be written, before callers wait (back-pressure). 256.
    pub outgoing: usize,
}

impl Default for ClientLimits {
    fn default() -> Self {
        ClientLimits { message: 16 << 20, in_flight: 4096, asks: 64, outgoing: 256 }
    }
}

impl ClientLimits {
    /// Sets the maximum length of a message, in bytes.
    #[must_use]
    pub fn message(mut self, bytes: usize) -> Self {
        self.message = bytes;
        self
    }

    /// Sets the maximum number of calls and subscriptions in flight.
    #[must_use]
    pub fn in_flight(mut self, calls: usize) -> Self {
        self.in_flight = calls;
        self
    }

    /// Sets the maximum number of open requests of the server.
    #[must_use]
    pub fn asks(mut self, requests: usize) -> Self {
        self.asks = requests;
        self
    }

    /// Sets the maximum number of messages waiting to be written.
    #[must_use]
    pub fn outgoing(mut self, messages: usize) -> Self {
        self.outgoing = messages;
        self
    }
}
