//! What is kept of a task, and every way in which that may change. Pure: time comes from outside,
//! and a change either happens as a whole or is refused.

#[cfg(test)]
#[path = "record_tests.rs"]
pub(crate) mod tests;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wharf_model::{ClientRequest, Error, Task, TaskState, Timestamp, ToolResult};

use crate::{
    context::progress::ProgressUpdate,
    tasks::storage::{
        nested_json,
        stored_types::{SavedCall, SavedClientRequest, SavedError},
    },
};

/// All that is kept of one task. What stands beside the body in the store is not in its JSON.
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
    /// Rises with each holder. Whoever comes with an earlier one changes nothing.
    #[serde(skip)]
    pub(crate) fence: u64,
    /// Until when its holder has it, or when it may be taken up.
    #[serde(skip)]
    pub(crate) due: Option<u64>,
    #[serde(skip)]
    pub(crate) expires: Option<u64>,
    pub(crate) call: SavedCall,
    /// The node that works on it.
    pub(crate) node: Option<String>,
    /// How often somebody has begun to work on it.
    pub(crate) attempts: u32,
    pub(crate) updated: u64,
    pub(crate) message: Option<String>,
    pub(crate) progress: Option<(f64, Option<f64>)>,
    /// Every question ever asked, by key: the fingerprint of what the key stands for.
    pub(crate) asked: BTreeMap<String, String>,
    /// The questions nobody has answered yet, in the order they were asked.
    pub(crate) open: Vec<InputRequest>,
    pub(crate) answers: BTreeMap<String, StoredResponse>,
    /// Steps that were done before the call became a task.
    pub(crate) steps: BTreeMap<String, Box<RawValue>>,
    pub(crate) end: Option<TaskEnd>,
}

/// A question that waits for an answer.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct InputRequest {
    pub(crate) key: String,
    #[serde(with = "nested_json")]
    ask: SavedClientRequest,
}

/// What was answered, and to which question.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct StoredResponse {
    pub(crate) question: String,
    #[serde(rename = "said")]
    pub(crate) response: ClientResponse,
}

/// What the client said.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum ClientResponse {
    Result(Box<RawValue>),
    Refused(SavedError),
}

/// How a task ended.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum TaskEnd {
    Completed(#[serde(with = "nested_json")] Box<ToolResult>),
    Failed(SavedError),
    Cancelled,
}

/// Why a change does not happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeRejection {
    /// The task is over.
    Over,
    /// Somebody else holds it, or has held it since.
    Lost,
    /// It is not time yet.
    Early,
    /// The key stands for another question.
    KeyTaken,
    /// The task has asked enough.
    TooManyQuestions,
}

/// Whether a change made a difference that must be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordChanged {
    Yes,
    No,
}

type ChangeResult = Result<RecordChanged, ChangeRejection>;

/// Who begins to work on a task, and until when it is theirs.
#[derive(Clone, Debug)]
pub(crate) struct TaskClaim {
    pub(crate) node: String,
    pub(crate) lease: u64,
}

impl TaskRecord {
    /// A task for this call, made now. Nobody holds it yet.
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
        }
    }

    /// A node takes it up, because nobody holds it, or nobody does so any more.
    pub(crate) fn claim(&mut self, claim: &TaskClaim, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.check_due(now)?;
        self.fence += 1;
        self.attempts = self.attempts.saturating_add(1);
        self.node = Some(claim.node.clone());
        self.due = Some(now.saturating_add(claim.lease));
        Ok(RecordChanged::Yes)
    }

    /// Its holder is still at work.
    pub(crate) fn renew(&mut self, fence: u64, lease: u64, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        self.due = Some(now.saturating_add(lease));
        Ok(RecordChanged::Yes)
    }

    /// Its holder gives it back in good order: the next one may take it up after `delay`. If that
    /// was no fault of the task, the attempt does not count.
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

    /// Its holder is gone: it may be taken up after `delay`.
    pub(crate) fn lapse(&mut self, delay: u64, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.check_due(now)?;
        self.fence += 1;
        self.node = None;
        self.due = Some(now.saturating_add(delay));
        Ok(RecordChanged::Yes)
    }

    /// Nobody holds it, and nobody shall take it up again.
    pub(crate) fn fail(&mut self, error: &Error, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.check_due(now)?;
        self.end_with(TaskEnd::Failed(error.into()), now);
        Ok(RecordChanged::Yes)
    }

    /// Its handler asks. An answer that is there already makes no difference to the record.
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

    /// Its handler does not wait for the answer any more.
    pub(crate) fn withdraw(&mut self, fence: u64, key: &str, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        let before = self.open.len();
        self.open.retain(|question| question.key != key);
        Ok(self.mark_updated_if(self.open.len() != before, now))
    }

    /// Its owner answers. Only questions that are open can be answered.
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

    /// Its handler says how far it has come.
    pub(crate) fn report(&mut self, fence: u64, update: &ProgressUpdate, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        self.progress = Some((update.progress, update.total));
        self.message = Some(update.text());
        Ok(self.mark_updated_if(true, now))
    }

    /// Its handler has ended.
    pub(crate) fn finish(&mut self, fence: u64, end: &TaskEnd, now: u64) -> ChangeResult {
        self.check_holder(fence)?;
        self.end_with(end.clone(), now);
        Ok(RecordChanged::Yes)
    }

    /// Its owner does not want it any more.
    pub(crate) fn cancel(&mut self, now: u64) -> ChangeResult {
        self.check_not_ended()?;
        self.end_with(TaskEnd::Cancelled, now);
        Ok(RecordChanged::Yes)
    }

    fn end_with(&mut self, end: TaskEnd, now: u64) {
        // Nothing more is kept on behalf of whoever held it.
        self.fence += 1;
        (self.due, self.node) = (None, None);
        // What only the handler needed: a result may be kept for long.
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

/// # Reading it
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

    /// The JSON text of the token under which its owner wants progress.
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
    /// The same in words.
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
