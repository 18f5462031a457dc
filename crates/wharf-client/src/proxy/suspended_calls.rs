//! Calls suspended between an upstream server that waits for answers during its call, and a
//! downstream client that ends its call to receive requests and sends the answers with a retry.

use std::{
    collections::BTreeMap,
    future::poll_fn,
    sync::Arc,
    task::Poll,
    time::{Duration, Instant},
};

use serde_json::value::RawValue;
use wharf_model::{
    ActiveCall, ClientRequest, ClientRequestId, Error, ErrorKind, Event, InputRequired, Lock,
    Method, Outbox, Outcome, Peer, Principal, Request,
};

/// Maximum number of suspended calls.
const MAX_SUSPENDED_CALLS: usize = 256;
/// Maximum time that a call stays suspended. Expired calls are dropped when another is added or
/// taken.
const MAX_SUSPENSION: Duration = Duration::from_secs(600);

/// Table of suspended calls.
#[derive(Default)]
pub(crate) struct SuspendedCalls(Lock<Vec<SuspendedCall>>);

struct SuspendedCall {
    /// Unguessable `requestState` that the client sends back.
    state: String,
    identity: CallIdentity,
    since: Instant,
    call: ActiveCall,
    open_requests: Vec<(ClientRequestId, ClientRequest)>,
}

/// Caller and parameters of a call: only the same principal may resume it, with the same
/// parameters.
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
            arguments: match request.method {
                Method::Custom => request.custom_params().into_owned(),
                _ => request.arguments().to_owned(),
            },
        }
    }
}

impl SuspendedCalls {
    /// Removes the call that this request resumes.
    fn take(
        &self,
        request: &Request,
        identity: &CallIdentity,
        now: Instant,
    ) -> Option<SuspendedCall> {
        let state = request.request_state();
        let mut held = self.0.lock();
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

    /// Stores the call until its client retries, and returns the `input_required` outcome.
    fn put(
        &self,
        call: ActiveCall,
        open_requests: Vec<(ClientRequestId, ClientRequest)>,
        identity: CallIdentity,
        now: Instant,
    ) -> Outcome {
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            return Error::new(ErrorKind::InternalError).into();
        }
        let state = format!("{:032x}", u128::from_ne_bytes(random));
        let requests = open_requests.iter().map(|(id, ask)| (key(*id), ask.clone())).collect();
        let required = InputRequired::new(requests, Some(state.clone()));
        // Declared before the lock guard, so dropped after the lock is released.
        let _expired;
        let mut held = self.0.lock();
        _expired = take_expired(&mut held, now);
        if held.len() >= MAX_SUSPENDED_CALLS {
            return Error::overloaded(Duration::from_secs(1)).into();
        }
        held.push(SuspendedCall { state, identity, since: now, call, open_requests });
        Outcome::InputRequired(Box::new(required))
    }
}

/// Removes expired calls. Dropping them runs user code, which must not happen under the lock.
fn take_expired(held: &mut Vec<SuspendedCall>, now: Instant) -> Vec<SuspendedCall> {
    let is_expired =
        |it: &mut SuspendedCall| now.saturating_duration_since(it.since) >= MAX_SUSPENSION;
    held.extract_if(.., is_expired).collect()
}

fn key(id: ClientRequestId) -> String {
    format!("ask-{}", id.0)
}

/// Starts the call, or resumes the suspended one, until it ends or needs input.
pub(crate) async fn run(
    suspended: Arc<SuspendedCalls>,
    begin: impl FnOnce(Request) -> ActiveCall,
    request: Request,
    outbox: Outbox,
) -> Outcome {
    let (identity, peer) = (CallIdentity::of(&request), request.peer());
    let (call, open_requests) = match suspended.take(&request, &identity, outbox.timer().now()) {
        Some(call) => call.answered(request.input_responses()),
        None => (begin(request), Vec::new()),
    };
    match run_until_input(call, open_requests, &peer, &outbox).await {
        Ok(outcome) => outcome,
        Err((call, open_requests)) => {
            suspended.put(call, open_requests, identity, outbox.timer().now())
        }
    }
}

impl SuspendedCall {
    /// Delivers the answers that the request carries. Requests without an answer stay open.
    fn answered(
        mut self,
        answers: Option<&str>,
    ) -> (ActiveCall, Vec<(ClientRequestId, ClientRequest)>) {
        let answers: BTreeMap<String, Box<RawValue>> =
            answers.and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        self.open_requests.retain(|(id, _)| match answers.get(&key(*id)) {
            None => true,
            Some(answer) => {
                self.call.response_sender().deliver(*id, Ok(answer.get().to_owned()));
                false
            }
        });
        (self.call, self.open_requests)
    }
}

/// Runs until the call ends, or waits for answers of the downstream client.
async fn run_until_input(
    mut call: ActiveCall,
    mut open_requests: Vec<(ClientRequestId, ClientRequest)>,
    peer: &Peer,
    outbox: &Outbox,
) -> Result<Outcome, (ActiveCall, Vec<(ClientRequestId, ClientRequest)>)> {
    loop {
        let waits = !open_requests.is_empty();
        let event = poll_fn(|cx| match call.poll_event(cx) {
            Poll::Pending if waits => Poll::Ready(None),
            event => event.map(Some),
        });
        match event.await {
            None => return Err((call, open_requests)),
            Some(Event::Done(outcome)) => return Ok(outcome),
            Some(Event::ClientRequest(id, ask)) if peer.capabilities.has(&ask.needs()) => {
                open_requests.push((id, ask));
            }
            Some(Event::ClientRequest(id, ask)) => call.refuse(id, &ask),
            Some(Event::Withdraw(id)) => open_requests.retain(|(open, _)| *open != id),
            Some(Event::Notify(notification)) => {
                outbox.notify(notification);
                outbox.wait_for_capacity().await;
            }
            Some(Event::ConnectionMayClose) => outbox.release_connection(),
        }
    }
}
