//! Errors of the version negotiation.

use serde_json::json;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::Revision;

/// Error that lists the revisions of both sides.
pub(super) fn no_common_revision(theirs: &[String], pin: Option<Revision>) -> Error {
    let spoken = match theirs.is_empty() {
        true => "no revision".to_owned(),
        false => excerpt(&theirs.join(", ")).into_owned(),
    };
    let ours = match pin {
        Some(pin) => format!("the client is held to {pin}"),
        None => format!("the client speaks {}", Revision::ALL.map(Revision::as_str).join(", ")),
    };
    Error::new(ErrorKind::UnsupportedProtocolVersion)
        .with_message(format!("The server speaks {spoken}, but {ours}"))
        .with_data(json!({"supported": theirs}))
}

/// Error for a reply that is not that of a server of `revision`.
pub(super) fn not_modern(revision: Revision, answer: &str) -> Error {
    Error::new(ErrorKind::UnsupportedProtocolVersion).with_message(format!(
        "The server does not speak {revision}: it answered `server/discover` with {answer}. Try \
         another revision, or none in particular"
    ))
}

pub(super) fn no_version() -> Error {
    Error::new(ErrorKind::ValidationFailed)
        .with_message("Invalid result of initialize: it names no protocolVersion")
}

pub(super) fn timed_out() -> Error {
    Error::new(ErrorKind::RequestTimeout).with_message(
        "The server did not answer the opening of the conversation: is it an MCP server, and \
         does it start in time?",
    )
}

pub(super) fn connection_closed() -> Error {
    Error::new(ErrorKind::ConnectionClosed).with_message(
        "The server closed the connection before the conversation was open: see what it says \
         about that",
    )
}

/// Error for an HTTP status that does not indicate the supported revisions.
pub(super) fn inconclusive_status(status: u16, answer: Option<Error>) -> Error {
    let (kind, problem) = match status {
        401 => (ErrorKind::Unauthenticated, "it wants credentials, or others"),
        403 => (ErrorKind::Forbidden, "it does not let this client in"),
        429 => (ErrorKind::RateLimited, "it is asked too often; try again later"),
        503 => (ErrorKind::Overloaded, "it has too much to do; try again later"),
        500..=599 => (ErrorKind::TemporarilyUnavailable, "it failed; try again later"),
        _ => (ErrorKind::TransportError, "which is no answer to a request"),
    };
    let mut message = format!("The server answered with HTTP status {status}: {problem}");
    let answer = answer.map(|error| {
        message.push_str(&format!(" (`{}`)", excerpt(&error.message)));
        error.data
    });
    let mut error = Error::new(kind).with_message(message);
    error.data = answer.flatten().or_else(|| Some(Box::new(json!({"status": status}))));
    error
}

pub(super) fn no_reply(status: u16) -> Error {
    let message = format!(
        "The server answered `initialize` with HTTP status {status} and no reply: is this the \
         address of an MCP server?"
    );
    Error::new(ErrorKind::TransportError).with_message(message).with_data(json!({"status": status}))
}
