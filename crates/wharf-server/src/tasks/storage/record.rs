//! The record of a task and all of its state changes. Pure: the time is an argument, and a change
//! is applied as a whole or rejected.

#[cfg(test)]
#[path = "record_tests.rs"]
pub(crate) mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wharf_model::{CallErrorType, ClientRequest, Error, Task, TaskState, Timestamp, ToolResult};

use crate::{
    context::progress::ProgressUpdate,
    tasks::storage::{
        nested_json,
        stored_types::{SavedCall, SavedClientRequest, SavedError},
    },
};

/// Stored state of one task. Fields that are columns of the store are not in its JSON.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct TaskRecord {
    #[serde(skip)]
    pub(crate) id: String,
    #[serde(skip)]
    pub(crate) owner: String,
    #[serde(skip)]
    pub(crate) created: u64,
    #[serde(skip)]
    pub(crate) version: u64,
    /// Fencing token: incremented with each holder. Changes with an earlier one are rejected.
    #[serde(skip)]
    pub(crate) fence: u64,
    /// End of the lease of its holder, or the time from which it can be claimed.
    #[serde(skip)]
    pub(crate) due: Option<u64>,
    #[serde(skip)]
    pub(crate) expires: Option<u64>,
    pub(crate) call: SavedCall,
    /// The node that runs it.
    pub(crate) node: Option<String>,
    /// Number of attempts to run it.
    pub(crate) attempts: u32,
    pub(crate) updated: u64,
    pub(crate) message: Option<String>,
    pub(crate) progress: Option<(f64, Option<f64>)>,
    /// All client requests so far: the fingerprint of the request by key.
    pub(crate) asked: BTreeMap<String, String>,
    /// Client requests without a response, in the order of their creation.
    pub(crate) open: Vec<InputRequest>,
    pub(crate) answers: BTreeMap<String, StoredResponse>,
    /// Steps completed before the call was promoted to a task.
    pub(crate) steps: BTreeMap<String, Box<RawValue>>,
    pub(crate) end: Option<TaskEnd>,
    /// Class of the failure that the observers of a run reported, for the event of the end; not stored.
    #[serde(skip)]
    pub(crate) failure: Option<CallErrorType>,
}

/// Client request that waits for a response.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InputRequest {
    pub(crate) key: String,
    #[serde(with = "nested_json")]
    ask: SavedClientRequest,
}

/// A response, and the fingerprint of its request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredResponse {
    pub(crate) question: String,
    #[serde(rename = "said")]
    pub(crate) response: ClientResponse,
}

/// Response of the client.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ClientResponse {
    Result(Box<RawValue>),
    Refused(SavedError),
}

/// End of a task.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum TaskEnd {
    Completed(#[serde(with = "nested_json")] Box<ToolResult>),
    Failed(SavedError),
    Cancelled,
}

impl TaskEnd {
    /// Class of the failure; a result for the model may be one, too.
    pub(crate) fn error_type(&self) -> Option<CallErrorType> {
        match self {
            TaskEnd::Completed(result) => result.is_error.then_some(CallErrorType::ToolError),
            TaskEnd::Failed(error) => Some(error.error_type()),
            TaskEnd::Cancelled => None,
        }
    }

    /// Name of the final state.
    pub(crate) fn name(&self) -> &'static str {
        match self {
            TaskEnd::Completed(_) => "completed",
            TaskEnd::Failed(_) => "failed",
            TaskEnd::Cancelled => "cancelled",
        }
    }
}

/// Reason why a change is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeRejection {
    /// The task has ended.
    Over,
    /// Another process holds it, or has held it since.
    Lost,
    /// It is not due yet.
    Early,
    /// The key belongs to another client request.
    KeyTaken,
    /// The task has reached its limit of client requests.
    TooManyQuestions,
}

/// Tells whether a change must be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordChanged {
    Yes,
    No,
}

type ChangeResult = Result<RecordChanged, ChangeRejection>;

/// Node that claims a task, and the duration of its lease.
#[derive(Clone, Debug)]
pub(crate) struct TaskClaim {
    pub(crate) node: String,
    pub(crate) lease: u64,
}

impl TaskRecord {
    /// Creates a record for this call, without a holder.
    pub(crate) fn new(id: String, owner: String, call: SavedCall, now: u64, ttl: u64) -> Self {
        TaskRecord {
            id,
            owner,
            created: now,
            version: 0,
            fence: 0,
            due: Some(now),
            expires: Some(now.saturating_add(ttl)),
            call,
            node: None,
            attempts: 0,
            updated: now,
            message: None,
            progress: None,
            asked: BTreeMap::new(),
            open: Vec::new(),
            answers: BTreeMap::new(),
            steps: BTreeMap::new(),
            end: None,
            failure: None,
        }
    }

    /// Claims the task for a node: it has no holder, or the lease of its holder has expired.
    pub(crate) fn claim(&mut self, claim: &TaskClaim, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.check_due(now)?;
        self.fence += 1;
        self.attempts = self.attempts.saturating_add(1);
        self.node = Some(claim.node.clone());
        self.due = Some(now.saturating_add(claim.lease));
        Ok(RecordChanged::Yes)
    }

    /// Renews the lease of its holder.
    pub(crate) fn renew(&mut self, fence: u64, lease: u64, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        self.due = Some(now.saturating_add(lease));
        Ok(RecordChanged::Yes)
    }

    /// Releases the task: it can be claimed after `delay`. If `counts` is false, the attempt does
    /// not count.
    pub(crate) fn release(
        &mut self,
        fence: u64,
        delay: u64,
        counts: bool,
        now: u64,
    ) -> ChangeResult {
        self.check_holder(fence)?;
        self.fence += 1;
        self.node = None;
        self.due = Some(now.saturating_add(delay));
        if !counts {
            self.attempts = self.attempts.saturating_sub(1);
        }
        Ok(RecordChanged::Yes)
    }

    /// Ends an expired lease: the task can be claimed after `delay`.
    pub(crate) fn lapse(&mut self, delay: u64, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.check_due(now)?;
        self.fence += 1;
        self.node = None;
        self.due = Some(now.saturating_add(delay));
        Ok(RecordChanged::Yes)
    }

    /// Fails a task without a holder.
    pub(crate) fn fail(&mut self, error: &Error, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.check_due(now)?;
        self.end_with(TaskEnd::Failed(error.into()), now);
        Ok(RecordChanged::Yes)
    }

    /// Adds a client request of its handler. If there is a response already, the record does not
    /// change.
    pub(crate) fn ask(
        &mut self,
        fence: u64,
        (key, fingerprint): (&str, &str),
        ask: &ClientRequest,
        most: usize,
        now: u64,
    ) -> ChangeResult {
        self.check_holder(fence)?;
        match self.asked.get(key) {
            Some(known) if known != fingerprint => return Err(ChangeRejection::KeyTaken),
            None if self.asked.len() >= most => return Err(ChangeRejection::TooManyQuestions),
            _ => {}
        }
        if self.answers.contains_key(key) || self.open.iter().any(|it| it.key == key) {
            return Ok(RecordChanged::No);
        }
        self.asked.insert(key.into(), fingerprint.into());
        self.open.push(InputRequest { key: key.into(), ask: ask.into() });
        self.updated = now;
        Ok(RecordChanged::Yes)
    }

    /// Removes a client request that its handler has dropped.
    pub(crate) fn withdraw(&mut self, fence: u64, key: &str, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        let before = self.open.len();
        self.open.retain(|question| question.key != key);
        Ok(self.mark_updated_if(self.open.len() != before, now))
    }

    /// Adds responses of its owner. Only open client requests accept one.
    pub(crate) fn answer(
        &mut self,
        responses: &BTreeMap<String, ClientResponse>,
        now: u64,
    ) -> ChangeResult {
        if self.end.is_some() {
            return Ok(RecordChanged::No);
        }
        let before = self.open.len();
        let (asked, answers) = (&self.asked, &mut self.answers);
        self.open.retain(|InputRequest { key, .. }| match (responses.get(key), asked.get(key)) {
            (Some(response), Some(question)) => {
                let answer =
                    StoredResponse { question: question.clone(), response: response.clone() };
                answers.insert(key.clone(), answer);
                false
            }
            _ => true,
        });
        Ok(self.mark_updated_if(self.open.len() != before, now))
    }

    /// Sets the progress of its handler.
    pub(crate) fn report(&mut self, fence: u64, update: &ProgressUpdate, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        self.progress = Some((update.progress, update.total));
        self.message = Some(update.text());
        Ok(self.mark_updated_if(true, now))
    }

    /// Sets the end of its handler.
    pub(crate) fn finish(&mut self, fence: u64, end: &TaskEnd, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        self.end_with(end.clone(), now);
        Ok(RecordChanged::Yes)
    }

    /// Cancels the task for its owner.
    pub(crate) fn cancel(&mut self, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.end_with(TaskEnd::Cancelled, now);
        Ok(RecordChanged::Yes)
    }

    fn end_with(&mut self, end: TaskEnd, now: u64) {
        // From here on, steps of the last holder are rejected.
        self.fence += 1;
        (self.due, self.node) = (None, None);
        // Data that only the handler needed: a result may be kept for long.
        self.call.clear_arguments();
        self.open.clear();
        (self.asked, self.answers, self.steps) = Default::default();
        self.message = match &end {
            TaskEnd::Failed(error) => Some(error.message.clone()),
            TaskEnd::Cancelled => Some("The task was cancelled by request.".into()),
            TaskEnd::Completed(_) => self.message.take(),
        };
        self.end = Some(end);
        self.updated = now;
    }

    fn mark_updated_if(&mut self, changed: bool, now: u64) -> RecordChanged {
        if changed {
            self.updated = now;
            return RecordChanged::Yes;
        }
        RecordChanged::No
    }

    fn check_not_ended(&self) -> Result<(), ChangeRejection> {
        if self.end.is_some() { Err(ChangeRejection::Over) } else { Ok(()) }
    }

    fn check_holder(&self, fence: u64) -> Result<(), ChangeRejection> {
        self.check_not_ended()?;
        if self.fence == fence && self.node.is_some() { Ok(()) } else { Err(ChangeRejection::Lost) }
    }

    fn check_due(&self, now: u64) -> Result<(), ChangeRejection> {
        if self.due.is_some_and(|due| due <= now) { Ok(()) } else { Err(ChangeRejection::Early) }
    }
}

/// # Views
impl TaskRecord {
    /// The task as its owner sees it.
    pub(crate) fn task(&self, poll_interval: u64) -> Task {
        let mut task = Task::new(self.id.clone(), Timestamp::from_millis(self.created));
        task.state = match &self.end {
            Some(TaskEnd::Completed(result)) => TaskState::Completed(result.clone()),
            Some(TaskEnd::Failed(error)) => TaskState::Failed(Box::new(error.into())),
            Some(TaskEnd::Cancelled) => TaskState::Cancelled,
            None if self.open.is_empty() => TaskState::Working,
            None => TaskState::InputRequired(self.questions().collect()),
        };
        task.message.clone_from(&self.message);
        task.updated_at = Timestamp::from_millis(self.updated);
        task.ttl = self.expires.map(|expires| expires.saturating_sub(self.created));
        task.poll_interval = Some(poll_interval);
        task
    }

    pub(crate) fn questions(&self) -> impl Iterator<Item = (String, ClientRequest)> + '_ {
        self.open.iter().map(|question| (question.key.clone(), (&question.ask).into()))
    }

    /// JSON text of the progress token of its owner.
    pub(crate) fn progress_token(&self) -> Option<Box<RawValue>> {
        #[derive(Deserialize)]
        struct Meta {
            #[serde(rename = "progressToken")]
            token: Option<Box<RawValue>>,
        }
        let meta: Meta = serde_json::from_str(self.call.meta.as_ref()?.get()).ok()?;
        meta.token
    }
}

impl ProgressUpdate {
    /// The progress as text.
    fn text(&self) -> String {
        let steps = match self.total {
            Some(total) => format!("{} of {total}", self.progress),
            None => self.progress.to_string(),
        };
        match &self.message {
            None => steps,
            // The status message is all that clients of 2026-07-28 see of a task's progress.
            Some(message) if self.total.is_some() && !message.contains(&steps) => {
                format!("{steps}: {message}")
            }
            Some(message) => message.clone(),
        }
    }
}
