//! Maps task progress of the upstream server to the progress tokens of downstream clients.

use std::collections::VecDeque;

use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_model::{Lock, Notification, Outcome, Request, TaskRequest};

/// Maximum number of tokens. The oldest is dropped, and its client has to poll its task.
const MAX_TOKENS: usize = 4096;

/// Progress tokens of downstream clients, by task. The server's notifications carry the proxy's own
/// tokens.
#[derive(Default)]
pub(crate) struct ProgressTokens(Lock<VecDeque<(String, Box<RawValue>)>>);

impl ProgressTokens {
    /// Records the caller's progress token if `outcome` is a task.
    pub(crate) fn record(&self, outcome: &Outcome, token: Box<RawValue>) {
        let Outcome::Task(task) = outcome else { return };
        let mut tokens = self.0.lock();
        if tokens.len() >= MAX_TOKENS {
            tokens.pop_front();
        }
        tokens.push_back((task.id.clone(), token));
    }

    /// Replaces the proxy's token by that of the downstream client; `None` if the client has none.
    pub(crate) fn translate(&self, notification: Notification) -> Option<Notification> {
        let Notification::TaskProgress { id, progress, total, message, .. } = notification else {
            return Some(notification);
        };
        let tokens = self.0.lock();
        let token = tokens.iter().rev().find(|(task, _)| *task == id)?.1.clone();
        Some(Notification::TaskProgress { id, token, progress, total, message })
    }
}

/// The progress token of a request that asks for a task.
pub(crate) fn requested_token(request: &Request) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Meta {
        #[serde(rename = "progressToken")]
        token: Option<Box<RawValue>>,
    }
    let wants_task = matches!(request.tasking, TaskRequest::Wanted(_));
    let meta = request.meta().filter(|_| wants_task)?;
    serde_json::from_str::<Meta>(meta).ok()?.token
}
