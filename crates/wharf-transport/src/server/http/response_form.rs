//! Decides the form of the response to a POST: one JSON message, or server-sent events.

use std::{future::Future, time::Duration};

use tokio::time::timeout;

use crate::server::http::{Streaming, request_headers::AcceptHeader};

/// Form of the response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResponseForm {
    /// One JSON message. Messages before the reply are dropped.
    Json,
    /// Events, even if the reply is the only message.
    Events,
    /// JSON if the reply is the only message, else events.
    Smart,
}

impl ResponseForm {
    /// Returns the form without a session, where no response can be resumed.
    pub(crate) fn without_session(
        accept: AcceptHeader,
        streaming: Streaming,
        is_listen: bool,
    ) -> Self {
        match (ResponseForm::in_session(accept), streaming) {
            (_, Streaming::Never) => ResponseForm::Json,
            (ResponseForm::Smart, Streaming::Smart) => ResponseForm::Smart,
            (ResponseForm::Smart, _) if !is_listen => ResponseForm::Json,
            (accepted, _) => accepted,
        }
    }

    /// Returns the form in a session: the one that the client accepts.
    pub(crate) fn in_session(accept: AcceptHeader) -> Self {
        match accept {
            AcceptHeader { json: false, .. } => ResponseForm::Events,
            AcceptHeader { events: false, .. } => ResponseForm::Json,
            AcceptHeader { json: true, events: true } => ResponseForm::Smart,
        }
    }

    /// Returns whether the client gets the reply only: no other message can be sent.
    pub(crate) fn is_reply_only(self) -> bool {
        self == ResponseForm::Json
    }

    /// Returns whether a reply with this HTTP status, as the only message, is sent as JSON.
    pub(crate) fn is_json_for(self, status: u16) -> bool {
        // The status of the HTTP response can only be set without a stream.
        self != ResponseForm::Events || status != 200
    }

    /// Waits for the first message. None if the response has to begin before, as a stream, because the client could take
    /// the connection for dead.
    pub(crate) async fn first_message<T>(
        self,
        keep_alive: Duration,
        first: impl Future<Output = T>,
    ) -> Option<T> {
        match self {
            ResponseForm::Json => Some(first.await),
            _ => timeout(keep_alive, first).await.ok(),
        }
    }
}
