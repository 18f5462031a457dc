//! `requestState`: the answers and steps of a suspended call, encrypted, bound to principal and call, with an expiry. A
//! retry is accepted only with a state that matches.

use std::{
    collections::{BTreeMap, BTreeSet},
    mem,
    time::{Duration, SystemTime},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json, value::RawValue};
use wharf_model::{Error, ErrorKind, InputMode, InputRequired, Method, Outcome, Request};

use crate::handler::suspend::{PendingQuestion, RecordedAnswer};
use crate::{
    context::Ctx,
    key_ring::{fingerprint, random_name},
    lenient_json,
};

/// Maximum lifetime of a call with its retries, in multiples of the state's TTL. A claim of
/// `step_once` is kept as long; otherwise a state that is renewed with each retry could outlive the
/// claim.
const MAX_STATE_LIFETIMES: u32 = 6;

/// Maximum number of digits that a number keeps exactly when it is parsed.
const MAX_EXACT_DIGITS: usize = 15;

/// Identity of a call across its retries.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct RetryChain {
    pub(super) nonce: String,
    pub(super) born: u64,
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

impl Ctx {
    /// Restores the state of an earlier run from `requestState` and `inputResponses`.
    pub(super) fn resume(&self) -> Result<(), Error> {
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
    pub(super) fn begin_chain(&self) -> Result<(), Error> {
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
        let opened = plausible
            .and_then(|state| self.server().state_cipher.open(&self.binding(request), state));
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
    pub(super) fn suspend(&self, mut questions: Vec<PendingQuestion>) -> Result<Outcome, Error> {
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
        let state = self.server().state_cipher.seal(&self.binding(request), &plain);
        if state.len() > limits.state {
            return Err(too_large(state.len(), limits.state));
        }
        let requests = questions.into_iter().map(|question| (question.key, question.ask));
        let required = InputRequired::new(requests.collect(), Some(state));
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
