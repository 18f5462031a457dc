//! Legacy sessions over HTTP: `Mcp-Session-Id`, streams that can be resumed, questions to the client.

use std::{sync::Arc, task::{Context, Poll}};

use bytes::Bytes;
use wharf_model::Scope;

use super::{HttpLimits, heads::Seen, respond::{self, Reply}, tasks::Tasks};
use crate::{Host, Shutdown};

/// The legacy sessions of one endpoint.
pub(crate) struct Sessions;

impl Sessions {
    pub(crate) fn new(_: Arc<Host>, _: HttpLimits, _: Arc<Tasks>, _: Shutdown) -> Arc<Self> {
        Arc::new(Sessions)
    }

    /// Answers a message that no modern header goes with.
    pub(crate) async fn post(self: &Arc<Self>, _: &Seen<'_>, _: Bytes, _: Scope) -> Reply {
        respond::status(501)
    }

    /// Opens the session's own stream, or resumes any of its streams.
    pub(crate) fn get(self: &Arc<Self>, _: &Seen<'_>, _: Scope) -> Reply {
        respond::status(501)
    }

    /// Ends a session.
    pub(crate) fn delete(&self, _: &Seen<'_>, _: Scope) -> Reply {
        respond::status(501)
    }
}

/// Follows a stream of a session: what is kept of it, then what comes.
pub(crate) struct Follower;

impl Follower {
    pub(crate) fn poll_chunk(&mut self, _: &mut Context<'_>) -> Poll<Option<Bytes>> {
        Poll::Ready(None)
    }
}
