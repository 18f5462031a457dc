//! Drives a handler: suspends it on client requests, and sends its progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use wharf_model::{BoxFuture, ClientRequest, Outcome, Rate};

use crate::handler::request_state::RetryChain;
use crate::{
    context::{Ctx, progress::ProgressThrottle},
    handler::block_on::PollGuard,
    tasks::storage::{
        record,
        record::{ClientResponse, TaskRecord},
    },
};

/// Runs a handler to completion, or until it waits for responses that only a retry can bring.
pub(crate) fn drive(
    ctx: Ctx,
    call: impl Future<Output = Outcome> + Send + 'static,
) -> BoxFuture<Outcome> {
    Box::pin(async move {
        let guard = EndOnDrop(&ctx);
        ctx.attach();
        if let Err(error) = ctx.resume().and_then(|()| ctx.begin_chain()) {
            return error.into();
        }
        let end = {
            let mut call = pin!(call);
            let mut alarm = None;
            poll_fn(|cx| ctx.poll_run(call.as_mut(), &mut alarm, cx)).await
        };
        drop(guard);
        let last = ctx.run().throttle.flush();
        if let Some(update) = last {
            ctx.outbox().notify(update.into());
        }
        match end {
            RunEnd::Done(outcome) => outcome,
            RunEnd::Suspended(questions) => {
                ctx.suspend(questions).unwrap_or_else(|error| error.into())
            }
        }
    })
}

enum RunEnd {
    Done(Outcome),
    Suspended(Vec<PendingQuestion>),
}

/// Guard that marks the run as over and wakes all waiters, however the call ended.
struct EndOnDrop<'c>(&'c Ctx);

impl Drop for EndOnDrop<'_> {
    fn drop(&mut self) {
        self.0.end_run();
    }
}

/// State of one run of a handler: its client requests, their responses, and its steps.
pub(crate) struct HandlerRun {
    pub(crate) throttle: ProgressThrottle,
    /// Results of steps, by numbered name.
    pub(crate) steps: BTreeMap<String, Box<RawValue>>,
    pub(crate) in_flight: usize,
    pub(crate) is_over: bool,
    /// True if the call is a task: then steps and client requests go into its store.
    pub(crate) is_task: bool,
    pub(super) names: BTreeMap<String, u32>,
    pub(super) asked: BTreeMap<String, String>,
    pub(super) answers: BTreeMap<String, RecordedAnswer>,
    pub(super) questions: Vec<PendingQuestion>,
    pub(super) next_question: u64,
    pub(super) turns: BTreeSet<String>,
    pub(super) chain: Option<RetryChain>,
    pub(super) driver: Option<Waker>,
    pub(super) waiting: Vec<Waker>,
}

/// Client request that is sent when the call is suspended.
pub(super) struct PendingQuestion {
    pub(super) number: u64,
    pub(super) key: String,
    pub(super) fingerprint: String,
    pub(super) ask: ClientRequest,
}

/// Response of the client, with the fingerprint of its request; without one if the client sent no
/// state.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct RecordedAnswer(pub(super) Option<String>, pub(super) Box<RawValue>);

impl HandlerRun {
    pub(crate) fn new(progress: Rate) -> Self {
        HandlerRun {
            throttle: ProgressThrottle::new(progress),
            steps: BTreeMap::new(),
            in_flight: 0,
            is_over: false,
            is_task: false,
            names: BTreeMap::new(),
            asked: BTreeMap::new(),
            answers: BTreeMap::new(),
            questions: Vec::new(),
            next_question: 0,
            turns: BTreeSet::new(),
            chain: None,
            driver: None,
            waiting: Vec::new(),
        }
    }

    /// Returns `name#1`, `name#2`, … for the steps of one name.
    pub(crate) fn number_step(&mut self, name: String) -> String {
        let count = self.names.entry(name.clone()).or_default();
        *count += 1;
        format!("{name}#{count}")
    }

    /// Records a client request; returns false if the key belongs to a different one.
    pub(crate) fn ask(&mut self, key: &str, fingerprint: &str) -> bool {
        self.asked.entry(key.into()).or_insert_with(|| fingerprint.into()) == fingerprint
    }

    pub(crate) fn answer_to(&self, key: &str, fingerprint: &str) -> Option<Box<RawValue>> {
        let RecordedAnswer(question, json) = self.answers.get(key)?;
        question.as_ref().is_none_or(|question| question == fingerprint).then(|| json.clone())
    }

    pub(crate) fn keep_answer(&mut self, key: String, fingerprint: String, json: Box<RawValue>) {
        self.answers.insert(key, RecordedAnswer(Some(fingerprint), json));
    }

    pub(crate) fn drop_answer(&mut self, key: &str) {
        self.answers.remove(key);
    }

    /// Adds a client request to send on suspension; returns the number to withdraw it with.
    pub(crate) fn add_question(
        &mut self,
        key: String,
        fingerprint: String,
        ask: ClientRequest,
    ) -> u64 {
        let number = self.next_question;
        self.next_question += 1;
        self.questions.push(PendingQuestion { number, key, fingerprint, ask });
        number
    }

    pub(crate) fn withdraw(&mut self, number: u64) {
        self.questions.retain(|question| question.number != number);
    }

    pub(crate) fn begin_turn(&mut self, key: &str) -> bool {
        self.turns.insert(key.into())
    }

    /// Ends a turn; returns the wakers of the futures that wait for it.
    pub(crate) fn end_turn(&mut self, key: &str) -> Vec<Waker> {
        self.turns.remove(key);
        mem::take(&mut self.waiting)
    }

    pub(crate) fn wait(&mut self, waker: &Waker) {
        if !self.waiting.iter().any(|waiting| waiting.will_wake(waker)) {
            self.waiting.push(waker.clone());
        }
    }

    /// Copies the state of this run into the record of the task that the call becomes.
    pub(crate) fn export_to(&self, record: &mut TaskRecord) {
        record.steps = self.steps.clone();
        record.call.nonce = self.chain.as_ref().map(|chain| chain.nonce.clone());
        for (key, RecordedAnswer(question, json)) in &self.answers {
            let Some(question) = question.clone() else { continue };
            record.asked.insert(key.clone(), question.clone());
            let answer =
                record::StoredResponse { question, response: ClientResponse::Result(json.clone()) };
            record.answers.insert(key.clone(), answer);
        }
    }

    /// Takes the client requests to suspend with, once there are any and no step is in flight.
    pub(super) fn take_questions(&mut self) -> Option<Vec<PendingQuestion>> {
        let ready = !self.questions.is_empty() && self.in_flight == 0 && !self.is_task;
        ready.then(|| {
            // Before the destructors of the handler withdraw them.
            self.is_over = true;
            mem::take(&mut self.questions)
        })
    }
}

/// Wakers are woken and dropped without the lock: both may run arbitrary code.
impl Ctx {
    /// Wakes the driver after a change outside its own poll.
    pub(crate) fn wake_driver(&self) {
        let driver = self.run().driver.clone();
        driver.into_iter().for_each(Waker::wake);
    }

    fn set_driver(&self, waker: &Waker) {
        let mut run = self.run();
        if !run.driver.as_ref().is_some_and(|driver| driver.will_wake(waker)) {
            let old = run.driver.replace(waker.clone());
            drop(run);
            drop(old);
        }
    }

    /// Attaches this context to the promotion, which may make a task of the call.
    fn attach(&self) {
        let Some(promotion) = self.promotion() else { return };
        if promotion.is_task() {
            self.run().is_task = true;
        } else {
            promotion.attach(self.downgrade());
        }
    }

    /// Marks the call as a task. Returns the steps that finished after those `known` to the task;
    /// later steps go into its store.
    pub(crate) fn bind(
        &self,
        known: &BTreeMap<String, Box<RawValue>>,
    ) -> Vec<(String, Box<RawValue>)> {
        let mut run = self.run();
        run.is_task = true;
        // These responses have no fingerprint and are not in the record, so another run would not
        // have them.
        run.answers.retain(|_, RecordedAnswer(question, _)| question.is_some());
        let steps = mem::take(&mut run.steps);
        let waiting = mem::take(&mut run.waiting);
        drop(run);
        waiting.into_iter().for_each(Waker::wake);
        steps.into_iter().filter(|(name, _)| !known.contains_key(name)).collect()
    }

    fn end_run(&self) {
        let mut run = self.run();
        run.is_over = true;
        let (waiting, driver) = (mem::take(&mut run.waiting), run.driver.take());
        drop(run);
        waiting.into_iter().for_each(Waker::wake);
        drop(driver);
    }
}

impl Ctx {
    fn poll_run(
        &self,
        call: Pin<&mut impl Future<Output = Outcome>>,
        alarm: &mut Option<BoxFuture<()>>,
        cx: &mut Context<'_>,
    ) -> Poll<RunEnd> {
        self.set_driver(cx.waker());
        let polling = PollGuard::begin();
        let polled = call.poll(cx);
        drop(polling);
        if let Poll::Ready(outcome) = polled {
            return Poll::Ready(RunEnd::Done(outcome));
        }
        if let Some(questions) = self.run().take_questions() {
            return Poll::Ready(RunEnd::Suspended(questions));
        }
        self.poll_progress(alarm, cx);
        Poll::Pending
    }

    /// Sends the delayed progress update once it is due.
    fn poll_progress(&self, alarm: &mut Option<BoxFuture<()>>, cx: &mut Context<'_>) {
        loop {
            let Some(due) = self.run().throttle.due() else {
                *alarm = None;
                return;
            };
            let timer = self.outbox().timer();
            let sleep = alarm.get_or_insert_with(|| timer.sleep_until(due));
            if sleep.as_mut().poll(cx).is_pending() {
                return;
            }
            *alarm = None;
            // A timer that fires early must not cause a busy loop.
            let update = self.run().throttle.release(timer.now().max(due));
            if let Some(update) = update {
                self.outbox().notify(update.into());
            }
        }
    }
}
