//! Errors of the version negotiation.

use serde_json::json;
use wharf_model::{Error, ErrorKind, FailureOrigin, excerpt};

use crate::{AllowedRevisions, Revision};

/// Error that lists the revisions of both sides.
pub(super) fn no_common_revision(theirs: &[String], allowed: AllowedRevisions) -> Error {
    let supported = match theirs.is_empty() {
        true => "no revision".to_owned(),
        false => excerpt(&theirs.join(", ")).into_owned(),
    };
    let ours = Revision::ALL.into_iter().filter(|revision| allowed.has(*revision));
    let ours = ours.map(Revision::as_str).collect::<Vec<_>>().join(", ");
    let ours = match allowed {
        AllowedRevisions::Any => format!("the client supports {ours}"),
        AllowedRevisions::One(_) => format!("the client is pinned to {ours}"),
        AllowedRevisions::Era(_) => format!("the client is restricted to {ours}"),
    };
    Error::new(ErrorKind::UnsupportedProtocolVersion)
        .with_message(format!("The server supports {supported}, but {ours}"))
        .with_data(json!({"supported": theirs}))
        .from_client(FailureOrigin::NoCommonVersion)
}

/// Error for a reply that is not that of a server of `revision`.
pub(super) fn not_modern(revision: Revision, answer: &str) -> Error {
    let error = Error::new(ErrorKind::UnsupportedProtocolVersion).with_message(format!(
        "The server does not support {revision}: it answered `server/discover` with {answer}. Pin \
         another revision, or none"
    ));
    error.from_client(FailureOrigin::NoCommonVersion)
}

pub(super) fn no_version() -> Error {
    Error::new(ErrorKind::ValidationFailed)
        .with_message("Invalid result of initialize: missing `protocolVersion`")
        .from_client(FailureOrigin::Protocol)
}

/// Error for a server that is silent. The transport adds the length of its timeout.
pub(super) fn timed_out() -> Error {
    Error::new(ErrorKind::RequestTimeout).with_message(
        "The server did not reply to the handshake in time: check that it is an MCP server and \
         that it starts in time",
    )
}

pub(super) fn connection_closed() -> Error {
    let error = Error::new(ErrorKind::ConnectionClosed).with_message(
        "The server closed the connection before the handshake was complete: check the \
         server's log or stderr",
    );
    error.from_client(FailureOrigin::Interrupted)
}

/// Error for an HTTP status that does not indicate the supported revisions.
pub(super) fn inconclusive_status(status: u16, answer: Option<Error>) -> Error {
    let (kind, problem) = match status {
        401 => (ErrorKind::Unauthenticated, "it requires credentials, or other ones"),
        403 => (ErrorKind::Forbidden, "it denies access to this client"),
        429 => (ErrorKind::RateLimited, "too many requests; try again later"),
        503 => (ErrorKind::Overloaded, "it is overloaded; try again later"),
        500..=599 => (ErrorKind::TemporarilyUnavailable, "it failed; try again later"),
        _ => (ErrorKind::TransportError, "which is not a valid response to a request"),
    };
    let mut message = format!("The server answered with HTTP status {status}: {problem}");
    let answer = answer.map(|error| {
        message.push_str(&format!(" (`{}`)", excerpt(&error.message)));
        error.data
    });
    let mut error = Error::new(kind).with_message(message);
    if kind == ErrorKind::TransportError {
        error = error.from_client(FailureOrigin::Protocol);
    }
    error.data = answer.flatten().or_else(|| Some(Box::new(json!({"status": status}))));
    error
}

pub(super) fn no_reply(status: u16) -> Error {
    let message = format!(
        "The server answered `initialize` with HTTP status {status} and no reply: check that \
         this is the URL of an MCP server"
    );
    let error = Error::new(ErrorKind::TransportError).with_message(message);
    error.with_data(json!({"status": status})).from_client(FailureOrigin::Protocol)
}
