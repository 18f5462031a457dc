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
        notify::short,
        options::{TaskOptions, millis},
        storage,
        storage::{
            Ledger, Update, chance,
            record::{Answer, Changed, End, Refusal, TaskRecord},
        },
    },
};

/// How long a change is held back after a store failed, at first and at most.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(5));

/// How long a lease is good for by our own clock, which may be a little slower than the store's.
fn good_for(options: &TaskOptions) -> Duration {
    options.lease - options.lease / 8
}

/// One run of a task.
pub(crate) struct Link {
    id: String,
    fence: u64,
    nonce: String,
    expires: Option<u64>,
    ledger: Arc<Ledger>,
    options: Arc<TaskOptions>,
    timer: Arc<dyn Timer>,
    state: Mutex<State>,
}

struct State {
    answers: BTreeMap<String, Answer>,
    steps: BTreeMap<String, Box<RawValue>>,
    /// The record as it was when we saw it last: most often it still is.
    known: Option<TaskRecord>,
    /// Questions nobody waits for any more, to be taken out of the record.
    withdrawn: Vec<String>,
    stop: Option<Stop>,
    /// Its handler is through, and its end is on its way to the store.
    ending: bool,
    /// Until when nobody else can have the record, by our own clock.
    held: Instant,
    asking: Vec<Waker>,
    runner: Option<Waker>,
}

/// Why a run ends before its handler does.
#[derive(Clone, Debug)]
pub(crate) enum Stop {
    /// Somebody else has the task, or it is over.
    Lost,
    /// It cannot go on.
    Failed(Error),
}

/// What a run must see to besides its handler.
pub(crate) enum Chore {
    Stop(Stop),
    Withdraw(String),
}

impl Link {
    /// The run of a record that we hold since we asked for it, with the steps of earlier runs.
    pub(crate) fn new(
        record: TaskRecord,
        since: Instant,
        mut steps: BTreeMap<String, Box<RawValue>>,
        ledger: Arc<Ledger>,
        options: Arc<TaskOptions>,
        timer: Arc<dyn Timer>,
    ) -> Arc<Self> {
        for (name, json) in &record.steps {
            steps.entry(name.clone()).or_insert_with(|| json.clone());
        }
        let state = State {
            answers: record.answers.clone(),
            steps,
            withdrawn: Vec::new(),
            stop: None,
            ending: false,
            held: since + good_for(&options),
            asking: Vec::new(),
            runner: None,
            known: None,
        };
        let link = Link {
            id: record.id.clone(),
            fence: record.fence,
            nonce: record.call.nonce.clone().unwrap_or_else(|| record.id.clone()),
            expires: record.expires,
            ledger,
            options,
            timer,
            state: Mutex::new(State { known: Some(record), ..state }),
        };
        Arc::new(link)
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Takes note of what the record says now.
    pub(crate) fn absorb(&self, record: TaskRecord) {
        let mut state = self.lock();
        if record.fence != self.fence {
            drop(state);
            return self.stop(Stop::Lost);
        }
        if state.known.as_ref().is_some_and(|known| known.version > record.version) {
            return;
        }
        state.answers.clone_from(&record.answers);
        state.known = Some(record);
        let asking = mem::take(&mut state.asking);
        drop(state);
        asking.into_iter().for_each(Waker::wake);
    }

    /// Ends the run, without a word to the store.
    pub(crate) fn stop(&self, stop: Stop) {
        let mut state = self.lock();
        state.stop.get_or_insert(stop);
        let runner = state.runner.take();
        drop(state);
        runner.into_iter().for_each(Waker::wake);
    }

    /// What there is to do besides polling the handler.
    pub(crate) fn poll_chore(&self, cx: &Context<'_>) -> Poll<Chore> {
        let mut state = self.lock();
        if let Some(stop) = &state.stop {
            return Poll::Ready(Chore::Stop(stop.clone()));
        }
        if let Some(key) = state.withdrawn.pop() {
            return Poll::Ready(Chore::Withdraw(key));
        }
        let old = state.runner.replace(cx.waker().clone());
        drop(state);
        drop(old);
        Poll::Pending
    }

    /// Changes the record as its holder.
    async fn change(
        &self,
        change: impl FnMut(&mut TaskRecord, u64) -> Result<Changed, Refusal>,
    ) -> Result<Update, Error> {
        let known = self.lock().known.take();
        let update = self.ledger.update(&self.id, known, &*self.timer, change).await?;
        match &update {
            Update::Done(record, _) => self.absorb((**record).clone()),
            Update::Refused(Refusal::Over | Refusal::Lost, _) | Update::Gone => {
                self.stop(Stop::Lost);
            }
            Update::Refused(..) => {}
        }
        Ok(update)
    }

    /// The same, again and again for as long as the store fails and the run is not lost.
    async fn insist(
        &self,
        mut change: impl FnMut(&mut TaskRecord, u64) -> Result<Changed, Refusal>,
    ) -> Update {
        let mut pause = PAUSES.0;
        loop {
            match self.change(&mut change).await {
                Ok(update) => return update,
                Err(_) if self.is_lost() => return Update::Gone,
                Err(error) => self.rest(&mut pause, &error).await,
            }
        }
    }

    /// Whether the run is over without a word to the store: with its server, perhaps.
    fn is_lost(&self) -> bool {
        matches!(self.lock().stop, Some(Stop::Lost))
    }

    async fn rest(&self, pause: &mut Duration, error: &Error) {
        storage::log_failure(error, "store a task");
        let wait = pause.mul_f64(0.5 + chance() / 2.0);
        self.timer.sleep_until(self.timer.now() + wait).await;
        *pause = (*pause * 2).min(PAUSES.1);
    }

    /// Until when the run may go on without a sign of life. A node that is cut off from the store
    /// must stop by itself, before another one can take the task up.
    pub(crate) fn held(&self) -> Instant {
        self.lock().held
    }

    /// How often the run shows that it is alive.
    pub(crate) fn beat(&self) -> Duration {
        self.options.lease / 3
    }

    /// Shows that this run is alive. False if the store did not hear it.
    pub(crate) async fn renew(&self) -> bool {
        let (lease, before) = (millis(self.options.lease), self.timer.now());
        match self.change(|record, now| record.renew(self.fence, lease, now)).await {
            Ok(Update::Done(..)) => self.lock().held = before + good_for(&self.options),
            Ok(_) => {}
            Err(error) => {
                storage::log_failure(&error, "renew the lease of a task");
                return false;
            }
        }
        true
    }

    pub(crate) async fn report(&self, update: &progress::Update) {
        let changed = self.change(|record, now| record.report(self.fence, update, now)).await;
        match changed {
            Ok(Update::Done(_, Changed::Yes)) => self.ledger.tell(&self.id).await,
            Ok(_) => {}
            // The next one may have more luck.
            Err(error) => {
                tracing::debug!(task = short(&self.id), %error, "progress was not written down")
            }
        }
    }

    pub(crate) async fn withdraw(&self, key: &str) {
        let changed = self.insist(|record, now| record.withdraw(self.fence, key, now)).await;
        if matches!(changed, Update::Done(_, Changed::Yes)) {
            self.ledger.tell(&self.id).await;
        }
    }

    /// Writes down how the task ended. False if it is not ours to end.
    pub(crate) async fn finish(&self, end: &End, last: Option<&progress::Update>) -> bool {
        self.lock().ending = true;
        let finished = self
            .insist(|record, now| {
                if let Some(update) = last {
                    record.report(self.fence, update, now)?;
                }
                record.finish(self.fence, end, now)
            })
            .await;
        matches!(finished, Update::Done(..))
    }

    /// Stops the run and gives the task back, unless its handler is through. False if that did not
    /// reach the store: then its lease lapses.
    pub(crate) async fn hand_back(&self) -> bool {
        if self.lock().ending {
            return false;
        }
        self.stop(Stop::Lost);
        let released = self.change(|record, now| record.release(self.fence, 0, false, now)).await;
        matches!(released, Ok(Update::Done(..)))
    }

    /// Gives the task back for somebody else to try.
    pub(crate) async fn release(&self, delay: Duration) {
        let delay = millis(delay);
        self.insist(|record, now| record.release(self.fence, delay, true, now)).await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
