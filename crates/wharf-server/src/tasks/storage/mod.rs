//! Task records in the record store: load, change with compare-and-swap, publish.

pub(crate) mod nested_json;
pub(crate) mod owner;
pub(crate) mod record;
pub(crate) mod stored_types;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use serde_json::value::RawValue;
use wharf_model::{
    AttachResult, Bus, Error, ErrorKind, ObservedEvent, Observers, Principal, Record, RecordStore,
    TaskChange, TaskEvent, Timer,
};

use crate::{
    random,
    tasks::storage::{
        owner::is_owner,
        record::{ChangeRejection, RecordChanged, TaskRecord},
    },
};

/// Bus topic for changes of tasks. A message is the id of a changed task, or [`DUE_MARK`] and the
/// id of a due task.
pub(crate) const TOPIC: &str = "tasks";
/// Marks messages about due tasks.
pub(crate) const DUE_MARK: u8 = b'+';

/// Maximum number of tries of a change that lost its compare-and-swap.
const MAX_UPDATE_TRIES: u32 = 32;
const MAX_UPDATE_PAUSE: Duration = Duration::from_millis(64);
/// Longer than every generated id: longer ids are not looked up in the store.
const MAX_ID_BYTES: usize = 64;

/// Storage of tasks.
pub(crate) struct TaskStore {
    store: Arc<dyn RecordStore>,
    bus: Arc<dyn Bus>,
    observers: Observers,
}

/// Result of a change.
#[derive(Debug)]
pub(crate) enum UpdateResult {
    /// Stored, or without effect. With the current record.
    Done(Box<TaskRecord>, RecordChanged),
    /// Not allowed in the current state of the record.
    Refused(ChangeRejection, Box<TaskRecord>),
    /// The task does not exist any more.
    Gone,
}

impl TaskStore {
    pub(crate) fn new(
        store: Arc<dyn RecordStore>,
        bus: Arc<dyn Bus>,
        observers: Observers,
    ) -> Self {
        TaskStore { store, bus, observers }
    }

    /// Reports a change of a task to observers.
    pub(crate) fn report(&self, event: &TaskEvent<'_>) {
        self.observers.emit(|| ObservedEvent::Task(*event));
    }

    /// Reports a change of the task with this record.
    pub(crate) fn report_change(&self, record: &TaskRecord, change: TaskChange<'_>) {
        if self.observers.is_empty() {
            return;
        }
        let trace = record.call.trace();
        let event = TaskEvent::new(&record.id, &record.call.tool, change);
        self.report(&event.principal(record.call.principal_id()).trace(trace.as_ref()));
    }

    fn report_end(&self, record: &TaskRecord) {
        if let Some(end) = &record.end {
            let age = Duration::from_millis(record.updated.saturating_sub(record.created));
            let error_type = record.failure.or_else(|| end.error_type());
            self.report_change(record, TaskChange::Ended { state: end.name(), age, error_type });
        }
    }

    pub(crate) fn bus(&self) -> &Arc<dyn Bus> {
        &self.bus
    }

    pub(crate) async fn now(&self) -> Result<u64, Error> {
        self.store.now().await
    }

    /// Inserts a new task; false if its owner has `most` of them.
    pub(crate) async fn insert(&self, record: &mut TaskRecord, most: usize) -> Result<bool, Error> {
        let kept = self.store.insert(encode(record)?, most).await?;
        record.version = 1;
        Ok(kept)
    }

    pub(crate) async fn load(&self, id: &str) -> Result<Option<TaskRecord>, Error> {
        if id.len() > MAX_ID_BYTES {
            return Ok(None);
        }
        match self.store.load(id).await? {
            Some(record) => decode(record).map(Some),
            None => Ok(None),
        }
    }

    /// The task with this id, if the caller may access it. A task of another owner is not decoded:
    /// a decoding error would reveal that it exists.
    pub(crate) async fn load_owned(
        &self,
        id: &str,
        caller: Option<&Principal>,
    ) -> Result<Option<TaskRecord>, Error> {
        if id.len() > MAX_ID_BYTES {
            return Ok(None);
        }
        let found = self.store.load(id).await?.filter(|record| is_owner(caller, &record.owner));
        found.map(decode).transpose()
    }

    /// Changes a record by compare-and-swap, starting from `known` or from the store; retries from
    /// the store after a conflict.
    pub(crate) async fn update(
        &self,
        id: &str,
        mut known: Option<TaskRecord>,
        timer: &dyn Timer,
        mut change: impl FnMut(&mut TaskRecord, u64) -> Result<RecordChanged, ChangeRejection>,
    ) -> Result<UpdateResult, Error> {
        for tried in 0..MAX_UPDATE_TRIES {
            let record = match known.take() {
                Some(record) => Some(record),
                None => self.load(id).await?,
            };
            let Some(mut record) = record else { return Ok(UpdateResult::Gone) };
            match change(&mut record, self.store.now().await?) {
                Err(rejection) => return Ok(UpdateResult::Refused(rejection, record.into())),
                Ok(RecordChanged::No) => {
                    return Ok(UpdateResult::Done(record.into(), RecordChanged::No));
                }
                Ok(RecordChanged::Yes) => {
                    if self.store.swap(encode(&record)?).await? {
                        record.version += 1;
                        // Nothing changes an ended task.
                        self.report_end(&record);
                        return Ok(UpdateResult::Done(record.into(), RecordChanged::Yes));
                    }
                }
            }
            let pause = Duration::from_millis(1 << tried.min(16)).min(MAX_UPDATE_PAUSE);
            timer.sleep_until(timer.now() + pause.mul_f64(random_fraction())).await;
        }
        Err(Error::new(ErrorKind::TemporarilyUnavailable))
    }

    pub(crate) async fn list(
        &self,
        owner: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<TaskRecord>, Error> {
        let records = self.store.list(owner, after, limit).await?;
        records.into_iter().map(decode).collect()
    }

    pub(crate) async fn due(&self, limit: usize) -> Result<Vec<String>, Error> {
        self.store.due(limit).await
    }

    pub(crate) async fn sweep(&self, limit: usize) -> Result<usize, Error> {
        self.store.sweep(limit).await
    }

    /// Postpones a due record that cannot be decoded here: another process may be able to.
    pub(crate) async fn postpone(&self, id: &str, delay: u64) -> Result<(), Error> {
        let now = self.store.now().await?;
        let record = self.store.load(id).await?;
        // It may have been claimed or ended since: then it must not become due again.
        if let Some(record) = record.filter(|record| record.due.is_some_and(|due| due <= now)) {
            self.store.swap(record.due(now.saturating_add(delay))).await?;
        }
        Ok(())
    }

    /// Stores the result of a step, unless there is one already.
    pub(crate) async fn save_step(
        &self,
        id: &str,
        fence: u64,
        name: &str,
        json: &RawValue,
    ) -> Result<StepSaveResult, Error> {
        let value = json.get().as_bytes().to_vec();
        Ok(match self.store.attach(id, fence, name, value).await? {
            AttachResult::Attached => StepSaveResult::Saved,
            AttachResult::Exists(value) => StepSaveResult::AlreadySaved(step(&value)?),
            AttachResult::Lost => StepSaveResult::Lost,
        })
    }

    /// All stored steps of a task.
    pub(crate) async fn steps(&self, id: &str) -> Result<BTreeMap<String, Box<RawValue>>, Error> {
        let kept = self.store.attachments(id).await?;
        let read = |(name, value): (String, Vec<u8>)| step(&value).map(|json| (name, json));
        kept.into_iter().map(read).collect()
    }

    /// Publishes that a task changed. Processes that miss the message find the change by polling.
    pub(crate) async fn publish_changed(&self, id: &str) {
        self.publish(id.as_bytes().to_vec()).await;
    }

    /// Publishes that a task is due.
    pub(crate) async fn publish_due(&self, id: &str) {
        self.publish([&[DUE_MARK], id.as_bytes()].concat()).await;
    }

    async fn publish(&self, message: Vec<u8>) {
        if let Err(error) = self.bus.publish(TOPIC, message).await {
            tracing::debug!(%error, "cannot publish a task change on the bus");
        }
    }
}

/// Result of storing a step.
pub(crate) enum StepSaveResult {
    Saved,
    /// Another run of the task stored one before: that one counts.
    AlreadySaved(Box<RawValue>),
    /// Another process holds the task, or it has ended.
    Lost,
}

/// Logs a consequence of a failure of the task store, which has a line of its own.
pub(crate) fn log_failure(error: &Error, action: &'static str) {
    tracing::debug!(%error, "cannot {action}: the task store fails");
}

/// Random number from 0 to 1. If randomness fails, all processes use the same delay, which is
/// harmless.
pub(crate) fn random_fraction() -> f64 {
    let mut bytes = [0; 4];
    let _ = random::fill(&mut bytes);
    f64::from(u32::from_le_bytes(bytes)) / f64::from(u32::MAX)
}

/// Size of a record in the store, in bytes.
pub(crate) fn record_bytes(record: &TaskRecord) -> Result<usize, Error> {
    serde_json::to_vec(record).map(|json| json.len()).map_err(record_error)
}

fn encode(record: &TaskRecord) -> Result<Record, Error> {
    Ok(Record::new(&record.id)
        .owner(&record.owner)
        .created(record.created)
        .version(record.version)
        .fence(record.fence)
        .due(record.due)
        .expires(record.expires)
        .body(serde_json::to_vec(record).map_err(record_error)?))
}

fn decode(stored: Record) -> Result<TaskRecord, Error> {
    let Record { id, owner, created, version, fence, due, expires, body, .. } = stored;
    let record: TaskRecord = serde_json::from_slice(&body).map_err(record_error)?;
    Ok(TaskRecord { id, owner, created, version, fence, due, expires, ..record })
}

fn step(json: &[u8]) -> Result<Box<RawValue>, Error> {
    serde_json::from_slice(json).map_err(record_error)
}

/// Error for a record that cannot be decoded or encoded. Details are logged, not sent to clients.
fn record_error(problem: impl std::fmt::Display) -> Error {
    tracing::error!(%problem, "cannot decode or encode a task record");
    Error::new(ErrorKind::InternalError)
}
