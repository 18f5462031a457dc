//! Errors for a server that violates the protocol, or a limit of the client.

use wharf_model::{Error, ErrorKind, FailureOrigin};

pub(crate) fn protocol_violation(what: &str) -> Error {
    let message = format!("The server {what}: this violates the protocol");
    invalid(message)
}

pub(crate) fn limit_exceeded(what: &str) -> Error {
    let message = format!("The server {what}; raise `CallOptions::rounds` to allow more");
    invalid(message)
}

fn invalid(message: String) -> Error {
    let error = Error::new(ErrorKind::ValidationFailed).with_message(message);
    error.from_client(FailureOrigin::Protocol)
}
