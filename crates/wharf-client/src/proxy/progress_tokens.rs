//! Under which tokens the fronts of a proxy hear how far their tasks have come.

use std::{
    collections::VecDeque,
    sync::{Mutex, PoisonError},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use wharf_model::{Notification, Outcome, Request, TaskRequest};

/// How many are kept: the oldest gives way, and its front has to ask how far its task has come.
const MAX_TOKENS: usize = 4096;

/// The tokens of fronts, by task. What the back says comes under the proxy's own.
#[derive(Default)]
pub(crate) struct ProgressTokens(Mutex<VecDeque<(String, Box<RawValue>)>>);

impl ProgressTokens {
    /// Remembers under which token the caller of `outcome` wants progress, if it is a task.
    pub(crate) fn record(&self, outcome: &Outcome, token: Box<RawValue>) {
        let Outcome::Task(task) = outcome else { return };
        let mut tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if tokens.len() >= MAX_TOKENS {
            tokens.pop_front();
        }
        tokens.push_back((task.id.clone(), token));
    }

    /// What the back said, as the front must hear it; none if it is under a token that is not the
    /// front's.
    pub(crate) fn translate(&self, notification: Notification) -> Option<Notification> {
        let Notification::TaskProgress { id, progress, total, message, .. } = notification else {
            return Some(notification);
        };
        let tokens = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let token = tokens.iter().rev().find(|(task, _)| *task == id)?.1.clone();
        Some(Notification::TaskProgress { id, token, progress, total, message })
    }
}

/// The token under which a front wants progress of the task that it asks for.
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
