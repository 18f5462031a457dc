//! WebSocket: one message a text frame.

use std::sync::Arc;

use http::request::Parts;
use wharf_model::Scope;

use super::{respond::{self, Reply}, service::Site};

/// Whether the client wants a WebSocket.
pub(crate) fn is_asked(_: &Parts) -> bool {
    false
}

/// Answers the handshake, and serves the client once the connection is a WebSocket.
pub(crate) fn upgrade(_: &Arc<Site>, _: &Parts, _: Scope) -> Reply {
    respond::status(501)
}
