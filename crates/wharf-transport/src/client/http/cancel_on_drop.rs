//! Cancels a request on the server when the caller drops it.

use std::sync::Arc;

use wharf_wire::CallId;

use crate::client::http::{
    connection::{ConnectionMode, HttpConnection},
    session::HttpSession,
};
use crate::task_set::TaskSet;

/// Sends `notifications/cancelled` to a legacy server when the caller drops its request: closing
/// the connection does not cancel it there.
pub(super) struct CancelOnDrop {
    session: Arc<HttpSession>,
    tasks: Arc<TaskSet>,
    id: Option<CallId>,
}

impl CancelOnDrop {
    pub(super) fn new(connection: &HttpConnection, id: &CallId) -> CancelOnDrop {
        let id = (connection.kind != ConnectionMode::Stateless).then(|| id.clone());
        CancelOnDrop { session: connection.session.clone(), tasks: connection.tasks.clone(), id }
    }

    /// The request has ended, so there is nothing left to cancel.
    pub(super) fn disarm(&mut self) {
        self.id = None;
    }
}

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        let Some(id) = self.id.take() else { return };
        let session = self.session.clone();
        self.session.spawn(&self.tasks, async move {
            let mut message = Vec::new();
            session.codec.cancelled(&id, "The caller dropped the request", &mut message);
            let _ = session.notify(message, "notifications/cancelled").await;
        });
    }
}
