//! URL elicitations that the server reported as completed (`notifications/elicitation/complete`).

use std::{
    collections::BTreeSet,
    future::poll_fn,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    task::{Poll, Waker},
};

use wharf_model::Error;

use crate::cache::server_state::ServerState;

/// Number of completed elicitation ids that are remembered: the oldest is dropped.
const MAX_COMPLETED_IDS: usize = 1024;

/// Maximum length of an elicitation id: a server must not fill the client's memory with them.
const MAX_ELICITATION_ID_BYTES: usize = 4096;

impl ServerState {
    /// Completes when the server has sent `notifications/elicitation/complete` for all of these
    /// ids.
    pub(crate) fn completed(
        self: &Arc<Self>,
        names: BTreeSet<String>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let server_state = self.clone();
        poll_fn(move |cx| {
            let mut state = server_state.lock();
            if names.iter().all(|name| state.completed.contains(name)) {
                return Poll::Ready(Ok(()));
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    pub(super) fn elicitation_completed(&self, id: &str) {
        if id.len() > MAX_ELICITATION_ID_BYTES {
            return;
        }
        let mut state = self.lock();
        // The same notification may arrive on more than one stream.
        if state.completed.iter().any(|it| it == id) {
            return;
        }
        if state.completed.len() >= MAX_COMPLETED_IDS {
            state.completed.pop_front();
        }
        state.completed.push_back(id.to_owned());
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        // The handler is user code: its panics must not stop the transport.
        if catch_unwind(AssertUnwindSafe(|| self.handler.elicitation_complete(id))).is_err() {
            tracing::error!(id, "caught a panic of the handler in `elicitation_complete`");
        }
    }
}
