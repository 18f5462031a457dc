//! State of one task run, shared with its handler: responses, steps, and the right to change the
//! record while the lease is held.

pub(crate) mod handler_api;

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, MutexGuard},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use wharf_model::{
    CallEnd, CallErrorType, CallStart, CallState, Error, Lock, ObservedTask, Observer, TaskChange,
    TaskEvent, Timer, TraceContext,
};

use crate::{
    context::progress,
    tasks::{
        notify::short_id,
        options::{TaskOptions, millis},
        run::lease_renewal::local_lease,
        storage,
        storage::{
            TaskStore, UpdateResult, random_fraction,
            record::{ChangeRejection, RecordChanged, StoredResponse, TaskEnd, TaskRecord},
        },
    },
};

/// Delay before a failed change is retried: first and maximum.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// One run of a task.
pub(crate) struct TaskRun {
    id: Arc<str>,
    tool: String,
    /// Principal and trace of the call, for observers.
    principal: Option<String>,
    trace: Option<TraceContext>,
    pub(in crate::tasks::run) fence: u64,
    nonce: String,
    expires: Option<u64>,
    task_store: Arc<TaskStore>,
    pub(in crate::tasks::run) options: Arc<TaskOptions>,
    pub(in crate::tasks::run) timer: Arc<dyn Timer>,
    state: Lock<RunState>,
}

pub(in crate::tasks::run) struct RunState {
    answers: BTreeMap<String, StoredResponse>,
    steps: BTreeMap<String, Box<RawValue>>,
    /// Last known version of the record: usually the current one.
    known: Option<TaskRecord>,
    /// Keys of client requests that were dropped, to be removed from the record.
    withdrawn: Vec<String>,
    stop: Option<StopReason>,
    /// The handler has returned, and its result is being stored.
    ending: bool,
    /// Class of the handler's failure, if there are observers.
    failure: Option<CallErrorType>,
    /// Time until which the lease is held, by the local clock.
    pub(in crate::tasks::run) held: Instant,
    answer_wakers: Vec<Waker>,
    runner_waker: Option<Waker>,
}

/// Reason why a run ends before its handler.
#[derive(Clone, Debug)]
pub(crate) enum StopReason {
    /// Another process holds the task, or it has ended.
    Lost,
    /// The task fails.
    Failed(Error),
}

/// Event of a run other than those of its handler.
pub(crate) enum RunEvent {
    Stop(StopReason),
    Withdraw(String),
}

impl TaskRun {
    /// Creates the run of a record held since `since`, with the steps of earlier runs.
    pub(crate) fn new(
        record: TaskRecord,
        since: Instant,
        mut steps: BTreeMap<String, Box<RawValue>>,
        task_store: Arc<TaskStore>,
        options: Arc<TaskOptions>,
        timer: Arc<dyn Timer>,
    ) -> Arc<Self> {
        for (name, json) in &record.steps {
            steps.entry(name.clone()).or_insert_with(|| json.clone());
        }
        let state = RunState {
            answers: record.answers.clone(),
            steps,
            withdrawn: Vec::new(),
            stop: None,
            ending: false,
            failure: None,
            held: since + local_lease(&options),
            answer_wakers: Vec::new(),
            runner_waker: None,
            known: None,
        };
        let task_run = TaskRun {
            id: record.id.as_str().into(),
            tool: record.call.tool.clone(),
            principal: record.call.principal_id().map(str::to_owned),
            trace: record.call.trace(),
            fence: record.fence,
            nonce: record.call.nonce.clone().unwrap_or_else(|| record.id.clone()),
            expires: record.expires,
            task_store,
            options,
            timer,
            state: Lock::new(RunState { known: Some(record), ..state }),
        };
        Arc::new(task_run)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Id of the task, for the observers of the run.
    pub(crate) fn observed_id(&self) -> ObservedTask {
        ObservedTask(self.id.clone())
    }

    /// Updates the state from a newer record.
    pub(crate) fn update_from(&self, record: TaskRecord) {
        let mut state = self.lock();
        if record.fence != self.fence {
            drop(state);
            return self.stop(StopReason::Lost);
        }
        if state.known.as_ref().is_some_and(|known| known.version > record.version) {
            return;
        }
        state.answers.clone_from(&record.answers);
        state.known = Some(record);
        let answer_wakers = mem::take(&mut state.answer_wakers);
        drop(state);
        answer_wakers.into_iter().for_each(Waker::wake);
    }

    /// Ends the run without a change in the store.
    pub(crate) fn stop(&self, stop: StopReason) {
        let mut state = self.lock();
        state.stop.get_or_insert(stop);
        let runner_waker = state.runner_waker.take();
        drop(state);
        runner_waker.into_iter().for_each(Waker::wake);
    }

    /// Polls for events other than those of the handler.
    pub(crate) fn poll_run_event(&self, cx: &Context<'_>) -> Poll<RunEvent> {
        let mut state = self.lock();
        if let Some(stop) = &state.stop {
            return Poll::Ready(RunEvent::Stop(stop.clone()));
        }
        if let Some(key) = state.withdrawn.pop() {
            return Poll::Ready(RunEvent::Withdraw(key));
        }
        let old = state.runner_waker.replace(cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Changes the record as its holder.
    pub(in crate::tasks::run) async fn change(
        &self,
        change: impl FnMut(&mut TaskRecord, u64) -> Result<RecordChanged, ChangeRejection>,
    ) -> Result<UpdateResult, Error> {
        let known = self.lock().known.take();
        let update = self.task_store.update(&self.id, known, &*self.timer, change).await?;
        match &update {
            UpdateResult::Done(record, _) => self.update_from((**record).clone()),
            UpdateResult::Refused(ChangeRejection::Over | ChangeRejection::Lost, _)
            | UpdateResult::Gone => {
                self.stop(StopReason::Lost);
            }
            UpdateResult::Refused(..) => {}
        }
        Ok(update)
    }

    /// Changes the record, with retries for as long as the store fails and the run is not lost.
    async fn change_with_retry(
        &self,
        mut change: impl FnMut(&mut TaskRecord, u64) -> Result<RecordChanged, ChangeRejection>,
    ) -> UpdateResult {
        let mut pause = RETRY_PAUSES.0;
        loop {
            match self.change(&mut change).await {
                Ok(update) => return update,
                Err(_) if self.is_lost() => return UpdateResult::Gone,
                Err(error) => self.pause_after_failure(&mut pause, &error).await,
            }
        }
    }

    /// Returns whether the run ended without a change in the store, for example with its server.
    fn is_lost(&self) -> bool {
        matches!(self.lock().stop, Some(StopReason::Lost))
    }

    async fn pause_after_failure(&self, pause: &mut Duration, error: &Error) {
        storage::log_failure(error, "store a task");
        let wait = pause.mul_f64(0.5 + random_fraction() / 2.0);
        self.timer.sleep_until(self.timer.now() + wait).await;
        *pause = (*pause * 2).min(RETRY_PAUSES.1);
    }

    pub(crate) async fn report(&self, update: &progress::ProgressUpdate) {
        let changed = self.change(|record, now| record.report(self.fence, update, now)).await;
        match changed {
            Ok(UpdateResult::Done(_, RecordChanged::Yes)) => {
                self.task_store.publish_changed(&self.id).await
            }
            Ok(_) => {}
            // The next update may succeed.
            Err(error) => {
                tracing::debug!(task = short_id(&self.id), %error, "cannot store the progress of a task")
            }
        }
    }

    pub(crate) async fn withdraw(&self, key: &str) {
        let changed =
            self.change_with_retry(|record, now| record.withdraw(self.fence, key, now)).await;
        if matches!(changed, UpdateResult::Done(_, RecordChanged::Yes)) {
            self.task_store.publish_changed(&self.id).await;
        }
    }

    /// Stores the end of the task, if this run holds the task.
    pub(crate) async fn finish(&self, end: &TaskEnd, last: Option<&progress::ProgressUpdate>) {
        let failure = {
            let mut state = self.lock();
            state.ending = true;
            state.failure
        };
        self.change_with_retry(|record, now| {
            record.failure = failure;
            if let Some(update) = last {
                record.report(self.fence, update, now)?;
            }
            record.finish(self.fence, end, now)
        })
        .await;
    }

    /// Reports a change of the task to observers.
    pub(crate) fn observe(&self, change: TaskChange<'_>) {
        let event = TaskEvent::new(&self.id, &self.tool, change);
        self.task_store
            .report(&event.principal(self.principal.as_deref()).trace(self.trace.as_ref()));
    }

    /// Stops the run and releases the task for graceful shutdown, unless its handler has returned.
    /// False if the store failed: then its lease expires.
    pub(crate) async fn release_for_shutdown(&self) -> bool {
        if self.lock().ending {
            return false;
        }
        self.stop(StopReason::Lost);
        let released = self.change(|record, now| record.release(self.fence, 0, false, now)).await;
        matches!(released, Ok(UpdateResult::Done(..)))
    }

    /// Releases the task for another attempt.
    pub(crate) async fn release(&self, delay: Duration) {
        let delay = millis(delay);
        self.change_with_retry(|record, now| record.release(self.fence, delay, true, now)).await;
    }

    pub(in crate::tasks::run) fn lock(&self) -> MutexGuard<'_, RunState> {
        self.state.lock()
    }
}

/// Observer of one run that keeps the class of its failure: the stored result does not have that of a timeout or a panic.
pub(crate) struct FailureObserver(pub(crate) Arc<TaskRun>);

impl Observer for FailureObserver {
    fn call_started(&self, _: &CallStart<'_>) -> CallState {
        CallState::Token(0)
    }

    fn call_ended(&self, _: u64, end: &CallEnd<'_>) {
        // A run that is dropped was stopped, and that reason is the one that is stored.
        self.0.lock().failure = end.error_type().filter(|it| *it != CallErrorType::Cancelled);
    }

    fn counts_bytes(&self) -> bool {
        false
    }
}
