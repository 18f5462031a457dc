//! Between a back that waits for answers in the middle of a call, and a front that ends its call to
//! be asked and comes back with the answers: meanwhile the back's call is parked here.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::{Arc, Mutex, PoisonError},
    task::Poll,
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use wharf_model::{
    ActiveCall, ClientRequest, ClientRequestId, Error, ErrorKind, Event, InputRequired, Method,
    Outbox, Outcome, Peer, Principal, Request,
};

/// How many calls may wait for their fronts.
const MAX_SUSPENDED_CALLS: usize = 256;
/// How long one may wait. It is let go when the next one comes or goes.
const MAX_SUSPENSION: Duration = Duration::from_secs(600);

/// The calls that wait for their fronts to come back.
#[derive(Default)]
pub(crate) struct SuspendedCalls(Mutex<Vec<SuspendedCall>>);

struct SuspendedCall {
    /// What nobody can guess, and the front brings back.
    state: String,
    identity: CallIdentity,
    since: Instant,
    call: ActiveCall,
    asked: Vec<(ClientRequestId, ClientRequest)>,
}

/// Who called what: nobody else may go on with it, and with nothing else.
#[derive(Clone, PartialEq)]
pub(crate) struct CallIdentity {
    principal: Option<Principal>,
    method: Method,
    target: String,
    arguments: String,
}

impl CallIdentity {
    fn of(request: &Request) -> Self {
        CallIdentity {
            principal: request.principal().cloned(),
            method: request.method,
            target: request.target().into_owned(),
            arguments: request.arguments().to_owned(),
        }
    }
}

impl SuspendedCalls {
    /// The call that this request goes on with.
    fn take(
        &self,
        request: &Request,
        identity: &CallIdentity,
        now: Instant,
    ) -> Option<SuspendedCall> {
        let state = request.request_state();
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |call: &SuspendedCall| {
            state.as_ref().is_some_and(|state| call.state == *state) && call.identity == *identity
        };
        let index = held.iter().position(is_it);
        let taken = index.map(|index| held.swap_remove(index));
        let expired = take_expired(&mut held, now);
        drop(held);
        drop(expired);
        taken
    }

    /// Keeps the call until its front comes back, and says what it must bring.
    fn put(
        &self,
        call: ActiveCall,
        asked: Vec<(ClientRequestId, ClientRequest)>,
        identity: CallIdentity,
        now: Instant,
    ) -> Outcome {
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            return Error::new(ErrorKind::InternalError).into();
        }
        let state = format!("{:032x}", u128::from_ne_bytes(random));
        let requests = asked.iter().map(|(id, ask)| (key(*id), ask.clone())).collect();
        let required = InputRequired { requests, state: Some(state.clone()) };
        // Declared before the lock, and so dropped after it.
        let _expired;
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        _expired = take_expired(&mut held, now);
        if held.len() >= MAX_SUSPENDED_CALLS {
            return Error::overloaded(Duration::from_secs(1)).into();
        }
        held.push(SuspendedCall { state, identity, since: now, call, asked });
        Outcome::InputRequired(Box::new(required))
    }
}

/// Those that waited too long. Dropping them runs the code of others: not under the lock.
fn take_expired(held: &mut Vec<SuspendedCall>, now: Instant) -> Vec<SuspendedCall> {
    let is_expired =
        |it: &mut SuspendedCall| now.saturating_duration_since(it.since) >= MAX_SUSPENSION;
    held.extract_if(.., is_expired).collect()
}

fn key(id: ClientRequestId) -> String {
    format!("ask-{}", id.0)
}

/// Makes the call, or goes on with the one that was parked, until it ends or asks.
pub(crate) async fn run(
    suspended: Arc<SuspendedCalls>,
    begin: impl FnOnce(Request) -> ActiveCall,
    request: Request,
    outbox: Outbox,
) -> Outcome {
    let (identity, peer) = (CallIdentity::of(&request), request.peer());
    let (call, asked) = match suspended.take(&request, &identity, outbox.timer().now()) {
        Some(call) => call.answered(request.input_responses()),
        None => (begin(request), Vec::new()),
    };
    match run_until_input(call, asked, &peer, &outbox).await {
        Ok(outcome) => outcome,
        Err((call, asked)) => suspended.put(call, asked, identity, outbox.timer().now()),
    }
}

impl SuspendedCall {
    /// Goes on with the answers there are; what has none is asked again.
    fn answered(
        mut self,
        answers: Option<&str>,
    ) -> (ActiveCall, Vec<(ClientRequestId, ClientRequest)>) {
        let answers: BTreeMap<String, Box<RawValue>> =
            answers.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        self.asked.retain(|(id, _)| match answers.get(&key(*id)) {
            None => true,
            Some(answer) => {
                self.call.answers().deliver(*id, Ok(answer.get().to_owned()));
                false
            }
        });
        (self.call, self.asked)
    }
}

/// Until the call ends, or waits for answers that only the front can give.
async fn run_until_input(
    mut call: ActiveCall,
    mut asked: Vec<(ClientRequestId, ClientRequest)>,
    peer: &Peer,
    outbox: &Outbox,
) -> Result<Outcome, (ActiveCall, Vec<(ClientRequestId, ClientRequest)>)> {
    loop {
        let waits = !asked.is_empty();
        let event = poll_fn(|cx| match call.poll_event(cx) {
            Poll::Pending if waits => Poll::Ready(None),
            event => event.map(Some),
        });
        match event.await {
            None => return Err((call, asked)),
            Some(Event::Done(outcome)) => return Ok(outcome),
            Some(Event::ClientRequest(id, ask)) if peer.capabilities.has(&ask.needs()) => {
                asked.push((id, ask));
            }
            Some(Event::ClientRequest(id, ask)) => call.refuse(id, &ask),
            Some(Event::Withdraw(id)) => asked.retain(|(open, _)| *open != id),
            Some(Event::Notify(notification)) => {
                outbox.notify(notification);
                outbox.room().await;
            }
            Some(Event::LetGo) => outbox.release_connection(),
        }
    }
}
