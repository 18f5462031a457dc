//! Version negotiation of a client, without I/O.

pub(crate) mod classify_reply;
pub(crate) mod error;
mod http_fallback;
pub(crate) mod state_machine;

use wharf_model::{Discovery, Error, Implementation};

use crate::CallId;
pub use crate::client::negotiation::state_machine::Negotiation;
use crate::client::{ClientCodec, ClientIdentity};

/// Kind of transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransportKind {
    /// A stream of messages: stdio, a socket, a WebSocket.
    Lines,
    /// Requests over HTTP.
    Http,
}

/// Outcome of the last message that the negotiation sent.
#[derive(Clone, Debug)]
pub enum NegotiationEvent<'a> {
    /// Reply to this id: the JSON text of its result, or its error.
    Reply(CallId, Result<&'a str, &'a Error>),
    /// Complete HTTP response: its body is JSON, or the reply extracted from an event stream.
    Http {
        /// HTTP status.
        status: u16,
        /// Response body.
        body: &'a [u8],
    },
    /// No reply within the timeout.
    Silence,
    /// The connection closed.
    Closed,
}

/// Kind of timeout for a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NegotiationTimeout {
    /// Short: the server may not support the probe.
    Probe,
    /// Timeout of a handshake.
    Handshake,
}

/// Next action of the negotiation.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum NegotiationStep {
    /// Send this message and report the outcome.
    Send {
        /// The message.
        message: Vec<u8>,
        /// HTTP headers of the message.
        headers: Vec<(String, String)>,
        /// Timeout for the reply.
        timeout: NegotiationTimeout,
        /// Set if the connection closed and must be reopened first.
        reopen: bool,
    },
    /// Send nothing and continue to wait.
    Wait(NegotiationTimeout),
    /// The negotiation succeeded.
    Open {
        /// Codec for the negotiated revision.
        codec: ClientCodec,
        /// Name and version of the server.
        info: Implementation,
        /// Capabilities of the server.
        discovery: Discovery,
        /// Revisions that the server listed; empty if it listed none.
        supported: Vec<String>,
        /// First message to send.
        then: Option<Vec<u8>>,
    },
    /// Try HTTP+SSE of 2024-11-05, and call [`Negotiation::over_events`] once it is connected.
    TryEvents,
    /// The negotiation failed.
    Fail(Error),
}
