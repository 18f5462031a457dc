//! Cancels a request on the server when the caller drops it.

use crate::client::{pending::PendingReply, stream::connection::StreamConnection};

/// A sent request. Dropping it before the reply sends `notifications/cancelled`.
pub(super) struct SentRequest {
    pub(super) connection: StreamConnection,
    pub(super) pending_reply: PendingReply,
}

impl Drop for SentRequest {
    fn drop(&mut self) {
        if self.connection.is_dead() || !self.pending_reply.is_open() {
            return;
        }
        let (codec, mut message) = (self.connection.codec(), Vec::new());
        codec.cancelled(&self.pending_reply.id, "the caller dropped the request", &mut message);
        self.connection.send_soon(message);
    }
}
