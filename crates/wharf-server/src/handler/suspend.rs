//! Drives a handler: suspends it on client requests, encrypts its `requestState`, and sends its
//! progress.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::poll_fn,
    mem,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use wharf_model::{
    BoxFuture, ClientRequest, Error, ErrorKind, InputMode, InputRequired, Method, Outcome, Rate,
    Request,
};

use crate::{
    context::{Ctx, progress::ProgressThrottle},
    handler::block_on::PollGuard,
    key_ring::{fingerprint, random_name},
    lenient_json,
    tasks::storage::{
        record,
        record::{ClientResponse, TaskRecord},
    },
};

/// Maximum lifetime of a call with its retries, in multiples of the state's TTL. A claim of
/// `step_once` is kept as long; otherwise a state that is renewed with each retry could outlive the
/// claim.
const MAX_STATE_LIFETIMES: u32 = 6;

/// Maximum number of digits that a number keeps exactly when it is parsed.
const MAX_EXACT_DIGITS: usize = 15;

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
    names: BTreeMap<String, u32>,
    asked: BTreeMap<String, String>,
    answers: BTreeMap<String, RecordedAnswer>,
    questions: Vec<PendingQuestion>,
    next_question: u64,
    turns: BTreeSet<String>,
    chain: Option<RetryChain>,
    driver: Option<Waker>,
    waiting: Vec<Waker>,
}

/// Client request that is sent when the call is suspended.
struct PendingQuestion {
    number: u64,
    key: String,
    fingerprint: String,
    ask: ClientRequest,
}

/// Response of the client, with the fingerprint of its request; without one if the client sent no
/// state.
#[derive(Clone, Serialize, Deserialize)]
struct RecordedAnswer(Option<String>, Box<RawValue>);

/// Identity of a call across its retries.
#[derive(Clone, Serialize, Deserialize)]
struct RetryChain {
    nonce: String,
    born: u64,
}

/// Content of `requestState`, which travels through the client.
#[derive(Serialize, Deserialize)]
struct SealedState {
    expires: u64,
    chain: RetryChain,
    questions: BTreeMap<String, String>,
    answers: BTreeMap<String, RecordedAnswer>,
    steps: BTreeMap<String, Box<RawValue>>,
}

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
    fn take_questions(&mut self) -> Option<Vec<PendingQuestion>> {
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

    /// Restores the state of an earlier run from `requestState` and `inputResponses`.
    fn resume(&self) -> Result<(), Error> {
        let Some(request) = self.request().filter(|request| request.asks == InputMode::Suspend)
        else {
            return Ok(());
        };
        let most = self.server().limits.argument_values;
        let responses = match request.input_responses() {
            Some(json) if !lenient_json::is_within(json, most) => {
                let reason = format!("it has {}", lenient_json::too_many(most));
                return Err(invalid("inputResponses", &reason));
            }
            Some(json) => {
                serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(json).map_err(|error| {
                    invalid("inputResponses", &format!("it is not an object: {error}"))
                })?
            }
            None => BTreeMap::new(),
        };
        let Some(state) = request.request_state() else {
            let by_key = |(key, json)| (key, RecordedAnswer(None, json));
            self.run().answers = responses.into_iter().map(by_key).collect();
            return Ok(());
        };
        let mut sealed = self.open_state(request, &state)?;
        // A response counts for the request that was sent; responses to other keys are ignored.
        let asked = responses.into_iter().filter_map(|(key, json)| {
            let question = sealed.questions.remove(&key)?;
            Some((key, RecordedAnswer(Some(question), json)))
        });
        sealed.answers.extend(asked);
        let mut run = self.run();
        run.answers = sealed.answers;
        run.steps = sealed.steps;
        run.chain = Some(sealed.chain);
        Ok(())
    }

    /// Gives a call that may become a task a nonce from its start: its earlier claims must still
    /// hold when the task runs again.
    fn begin_chain(&self) -> Result<(), Error> {
        let is_promotable = self.promotion().is_some_and(|promotion| !promotion.is_task());
        if is_promotable && self.run().chain.is_none() {
            let chain = RetryChain { nonce: random_name()?, born: self.wall_secs() };
            self.run().chain = Some(chain);
        }
        Ok(())
    }

    fn open_state(&self, request: &Request, state: &str) -> Result<SealedState, Error> {
        // A state of this server is within the limit, so a longer one is rejected without
        // decryption.
        let plausible = (state.len() <= self.server().limits.state).then_some(state);
        let opened =
            plausible.and_then(|state| self.server().seal.open(&self.binding(request), state));
        let sealed = opened.and_then(|plain| serde_json::from_slice::<SealedState>(&plain).ok());
        // Both official SDKs return the same error for every invalid state; the reason is logged
        // only.
        let refused = |reason| {
            tracing::debug!(method = request.method.name(), reason, "rejected a requestState");
            Error::new(ErrorKind::InvalidRequestState)
        };
        let sealed =
            sealed.ok_or_else(|| refused("it was not issued by this server for this request"))?;
        if sealed.expires <= self.wall_secs() { Err(refused("it has expired")) } else { Ok(sealed) }
    }

    /// Encrypts the state of this run as `requestState`, which the client returns with its
    /// responses.
    fn suspend(&self, mut questions: Vec<PendingQuestion>) -> Result<Outcome, Error> {
        let request = self.request().ok_or(ErrorKind::InternalError).map_err(Error::new)?;
        let (limits, now) = (&self.server().limits, self.wall_secs());
        let mut run = self.run();
        let chain = match run.chain.take() {
            Some(chain) => chain,
            None => RetryChain { nonce: random_name()?, born: now },
        };
        let expires = now.saturating_add(limits.state_ttl.as_secs());
        let expires = expires.min(chain.expires_at(limits.state_ttl));
        let mut keys = BTreeSet::new();
        questions.retain(|question| keys.insert(question.key.clone()));
        let mut answers = mem::take(&mut run.answers);
        answers.retain(|_, RecordedAnswer(question, _)| question.is_some());
        let steps = mem::take(&mut run.steps);
        drop(run);
        let fingerprints = questions.iter().map(|q| (q.key.clone(), q.fingerprint.clone()));
        let questions_asked = fingerprints.collect();
        let sealed = SealedState { expires, chain, questions: questions_asked, answers, steps };
        let plain = serde_json::to_vec(&sealed)?;
        let state = self.server().seal.seal(&self.binding(request), &plain);
        if state.len() > limits.state {
            return Err(too_large(state.len(), limits.state));
        }
        let requests = questions.into_iter().map(|question| (question.key, question.ask));
        let required = InputRequired { requests: requests.collect(), state: Some(state) };
        Ok(Outcome::InputRequired(Box::new(required)))
    }

    fn binding(&self, request: &Request) -> Vec<u8> {
        state_binding(request, self.server().limits.argument_values)
    }

    /// Returns the nonce that `step_once` claims, and the lifetime of the claim; `None` if the call
    /// came without state and cannot become a task.
    pub(crate) fn nonce(&self) -> Option<(String, Duration)> {
        let chain = self.run().chain.clone()?;
        let left =
            chain.expires_at(self.server().limits.state_ttl).saturating_sub(self.wall_secs());
        let left = Duration::from_secs(left.max(1));
        // The claim must outlive a task that the call becomes.
        let as_task = self.promotion().map(|_| self.server().tasks.options.longest_ttl);
        Some((chain.nonce, left.saturating_add(as_task.unwrap_or_default())))
    }

    /// Returns the wall-clock time in seconds, by which states expire.
    fn wall_secs(&self) -> u64 {
        let since = self.outbox().timer().wall().duration_since(SystemTime::UNIX_EPOCH);
        since.map_or(0, |since| since.as_secs())
    }
}

impl RetryChain {
    fn expires_at(&self, state_ttl: Duration) -> u64 {
        self.born.saturating_add(state_ttl.saturating_mul(MAX_STATE_LIFETIMES).as_secs())
    }
}

/// Computes the binding of a state: principal, method, target and arguments (associated data of the
/// encryption).
fn state_binding(request: &Request, most: usize) -> Vec<u8> {
    let principal = request.principal().map(|principal| principal.id());
    let arguments = match request.method {
        Method::Custom => canonical_arguments(&request.custom_params(), most),
        _ => canonical_arguments(request.arguments(), most),
    };
    let bound = json!([request.method.name(), request.target(), principal, arguments]);
    format!("wharf requestState {}", fingerprint(&bound)).into_bytes()
}

/// Parses the arguments, so that the order of members does not matter. Returns their text if
/// parsing would lose precision, or if they have more than `most` values.
fn canonical_arguments(json: &str, most: usize) -> Value {
    let number = |c: char| c.is_ascii_digit() || c == '.';
    let is_exact = json.split(|c| !number(c)).all(|digits| digits.len() <= MAX_EXACT_DIGITS);
    let value = if is_exact && lenient_json::is_within(json, most) {
        lenient_json::unambiguous(json).ok()
    } else {
        None
    };
    value.unwrap_or_else(|| Value::from(json))
}

fn invalid(field: &str, reason: &str) -> Error {
    let message = format!("Invalid {field}: {reason}");
    Error::new(ErrorKind::InvalidParams).with_message(message).with_data(json!({"field": field}))
}

fn too_large(size: usize, limit: usize) -> Error {
    let message = format!(
        "The request state of this call has {size} bytes encrypted, and {limit} is the limit"
    );
    let data = json!({"size": size, "limit": limit});
    Error::new(ErrorKind::InternalError).with_message(message).with_data(data)
}
