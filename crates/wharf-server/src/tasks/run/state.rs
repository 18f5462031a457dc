//! What a running handler has of its task: its answers, its steps, and the right to change the
//! record for as long as nobody else holds it.

pub(crate) mod handler_api;

use std::{
    collections::BTreeMap,
    mem,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use wharf_model::{Error, Timer};

use crate::{
    context::progress,
    tasks::{
        notify::short_id,
        options::{TaskOptions, millis},
        storage,
        storage::{
            TaskStore, UpdateResult, random_fraction,
            record::{ChangeRejection, RecordChanged, StoredResponse, TaskEnd, TaskRecord},
        },
    },
};

/// How long a change is held back after a store failed, at first and at most.
const RETRY_PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long a lease is good for by our own clock, which may be a little slower than the store's.
fn local_lease(options: &TaskOptions) -> Duration {
    options.lease - options.lease / 8
}

/// One run of a task.
pub(crate) struct TaskRun {
    id: String,
    fence: u64,
    nonce: String,
    expires: Option<u64>,
    task_store: Arc<TaskStore>,
    options: Arc<TaskOptions>,
    timer: Arc<dyn Timer>,
    state: Mutex<RunState>,
}

struct RunState {
    answers: BTreeMap<String, StoredResponse>,
    steps: BTreeMap<String, Box<RawValue>>,
    /// The record as it was when we saw it last: most often it still is.
    known: Option<TaskRecord>,
    /// Questions nobody waits for any more, to be taken out of the record.
    withdrawn: Vec<String>,
    stop: Option<StopReason>,
    /// Its handler is through, and its end is on its way to the store.
    ending: bool,
    /// Until when nobody else can have the record, by our own clock.
    held: Instant,
    answer_wakers: Vec<Waker>,
    runner_waker: Option<Waker>,
}

/// Why a run ends before its handler does.
#[derive(Clone, Debug)]
pub(crate) enum StopReason {
    /// Somebody else has the task, or it is over.
    Lost,
    /// It cannot go on.
    Failed(Error),
}

/// What a run must see to besides its handler.
pub(crate) enum RunEvent {
    Stop(StopReason),
    Withdraw(String),
}

impl TaskRun {
    /// The run of a record that we hold since we asked for it, with the steps of earlier runs.
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
            held: since + local_lease(&options),
            answer_wakers: Vec::new(),
            runner_waker: None,
            known: None,
        };
        let task_run = TaskRun {
            id: record.id.clone(),
            fence: record.fence,
            nonce: record.call.nonce.clone().unwrap_or_else(|| record.id.clone()),
            expires: record.expires,
            task_store,
            options,
            timer,
            state: Mutex::new(RunState { known: Some(record), ..state }),
        };
        Arc::new(task_run)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Takes note of what the record says now.
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

    /// Ends the run, without a word to the store.
    pub(crate) fn stop(&self, stop: StopReason) {
        let mut state = self.lock();
        state.stop.get_or_insert(stop);
        let runner_waker = state.runner_waker.take();
        drop(state);
        runner_waker.into_iter().for_each(Waker::wake);
    }

    /// What there is to do besides polling the handler.
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
    async fn change(
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

    /// The same, again and again for as long as the store fails and the run is not lost.
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

    /// Whether the run is over without a word to the store: with its server, perhaps.
    fn is_lost(&self) -> bool {
        matches!(self.lock().stop, Some(StopReason::Lost))
    }

    async fn pause_after_failure(&self, pause: &mut Duration, error: &Error) {
        storage::log_failure(error, "store a task");
        let wait = pause.mul_f64(0.5 + random_fraction() / 2.0);
        self.timer.sleep_until(self.timer.now() + wait).await;
        *pause = (*pause * 2).min(RETRY_PAUSES.1);
    }

    /// Until when the run may go on without a sign of life. A node that is cut off from the store
    /// must stop by itself, before another one can take the task up.
    pub(crate) fn held(&self) -> Instant {
        self.lock().held
    }

    /// How often the run shows that it is alive.
    pub(crate) fn heartbeat_interval(&self) -> Duration {
        self.options.lease / 3
    }

    /// Shows that this run is alive. False if the store did not hear it.
    pub(crate) async fn renew(&self) -> bool {
        let (lease, before) = (millis(self.options.lease), self.timer.now());
        match self.change(|record, now| record.renew(self.fence, lease, now)).await {
            Ok(UpdateResult::Done(..)) => self.lock().held = before + local_lease(&self.options),
            Ok(_) => {}
            Err(error) => {
                storage::log_failure(&error, "renew the lease of a task");
                return false;
            }
        }
        true
    }

    pub(crate) async fn report(&self, update: &progress::ProgressUpdate) {
        let changed = self.change(|record, now| record.report(self.fence, update, now)).await;
        match changed {
            Ok(UpdateResult::Done(_, RecordChanged::Yes)) => {
                self.task_store.publish_changed(&self.id).await
            }
            Ok(_) => {}
            // The next one may have more luck.
            Err(error) => {
                tracing::debug!(task = short_id(&self.id), %error, "progress was not written down")
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

    /// Writes down how the task ended. False if it is not ours to end.
    pub(crate) async fn finish(
        &self,
        end: &TaskEnd,
        last: Option<&progress::ProgressUpdate>,
    ) -> bool {
        self.lock().ending = true;
        let finished = self
            .change_with_retry(|record, now| {
                if let Some(update) = last {
                    record.report(self.fence, update, now)?;
                }
                record.finish(self.fence, end, now)
            })
            .await;
        matches!(finished, UpdateResult::Done(..))
    }

    /// Stops the run and gives the task back, unless its handler is through. False if that did not
    /// reach the store: then its lease lapses.
    pub(crate) async fn release_for_shutdown(&self) -> bool {
        if self.lock().ending {
            return false;
        }
        self.stop(StopReason::Lost);
        let released = self.change(|record, now| record.release(self.fence, 0, false, now)).await;
        matches!(released, Ok(UpdateResult::Done(..)))
    }

    /// Gives the task back for somebody else to try.
    pub(crate) async fn release(&self, delay: Duration) {
        let delay = millis(delay);
        self.change_with_retry(|record, now| record.release(self.fence, delay, true, now)).await;
    }

    fn lock(&self) -> MutexGuard<'_, RunState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
