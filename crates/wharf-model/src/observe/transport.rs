//! Transports, as observers name them.

/// Transport of a call. Server transports insert it into the [extensions](crate::RequestExtensions) of their
/// connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObservedTransport {
    /// Lines over stdin and stdout.
    Stdio,
    /// Lines over TCP.
    Tcp,
    /// Lines over a Unix socket.
    Unix,
    /// WebSocket.
    WebSocket,
    /// Streamable HTTP, or HTTP+SSE.
    Http,
    /// Within one process.
    InMemory,
    /// Byte streams of the application.
    Stream,
}

impl ObservedTransport {
    /// All transports.
    pub const ALL: [ObservedTransport; 7] = [
        ObservedTransport::Stdio,
        ObservedTransport::Tcp,
        ObservedTransport::Unix,
        ObservedTransport::WebSocket,
        ObservedTransport::Http,
        ObservedTransport::InMemory,
        ObservedTransport::Stream,
    ];

    /// Returns the name of the transport in logs.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            ObservedTransport::Stdio => "stdio",
            ObservedTransport::Tcp => "tcp",
            ObservedTransport::Unix => "unix",
            ObservedTransport::WebSocket => "websocket",
            ObservedTransport::Http => "http",
            ObservedTransport::InMemory => "in-memory",
            ObservedTransport::Stream => "stream",
        }
    }

    /// Returns the attribute `network.transport`.
    #[must_use]
    pub fn network_transport(self) -> &'static str {
        match self {
            ObservedTransport::Stdio | ObservedTransport::Stream => "pipe",
            ObservedTransport::Tcp | ObservedTransport::WebSocket | ObservedTransport::Http => {
                "tcp"
            }
            ObservedTransport::Unix => "unix",
            ObservedTransport::InMemory => "inproc",
        }
    }

    /// Returns the attribute `network.protocol.name`, if a named protocol carries the messages.
    #[must_use]
    pub fn network_protocol(self) -> Option<&'static str> {
        match self {
            ObservedTransport::Http => Some("http"),
            ObservedTransport::WebSocket => Some("websocket"),
            _ => None,
        }
    }
}

/// Version of the protocol below the transport, such as `1.1` or `2` for HTTP, in the request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NetworkProtocolVersion(pub &'static str);
