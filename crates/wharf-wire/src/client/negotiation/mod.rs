//! Which revision a server speaks: found out by asking, without I/O.

pub(crate) mod classify;
pub(crate) mod error;
pub(crate) mod state_machine;

use wharf_model::{Discovery, Error, Implementation};

use crate::CallId;
pub use crate::client::negotiation::state_machine::Negotiation;
use crate::client::{ClientCodec, ClientIdentity};

/// What messages travel on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Carrier {
    /// A stream of messages: stdio, a socket, a WebSocket.
    Lines,
    /// Requests over HTTP.
    Http,
}

/// What happened to the last message that an opening sent.
#[derive(Clone, Debug)]
pub enum Answered<'a> {
    /// A reply to this id: the JSON text of its result, or its error.
    Reply(CallId, Result<&'a str, &'a Error>),
    /// The whole HTTP answer: its body is JSON, or the reply taken out of an event stream.
    Http {
        /// The status.
        status: u16,
        /// The body.
        body: &'a [u8],
    },
    /// Nothing came within the patience given.
    Silence,
    /// The connection ended.
    Closed,
}

/// How long to wait for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// For a probe that a server may not know: briefly.
    Probe,
    /// For a handshake.
    Handshake,
}

/// What to do next.
#[derive(Clone, Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one at a time")]
pub enum Step {
    /// Send this and report what comes back.
    Send {
        /// The message.
        message: Vec<u8>,
        /// The HTTP headers that go with it.
        headers: Vec<(String, String)>,
        /// How long to wait for the answer.
        patience: Patience,
        /// Whether to open the connection anew first: it ended.
        reopen: bool,
    },
    /// Nothing to send; go on waiting.
    Wait(Patience),
    /// The conversation is open.
    Open {
        /// How to speak with the server.
        talk: ClientCodec,
        /// Its name and version.
        info: Implementation,
        /// What it can do.
        discovery: Discovery,
        /// Every revision it says it speaks; empty if it did not say.
        supported: Vec<String>,
        /// What to send first.
        then: Option<Vec<u8>>,
    },
    /// Try HTTP+SSE of 2024-11-05, and call [`Negotiation::over_events`] once it is there.
    TryEvents,
    /// There is no way to speak with this server.
    Fail(Error),
}
