//! Whose turn it is on a connection of HTTP/1.1: the client's to send a request, or ours to answer.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::Instant;

/// The turns of one connection, which alternate. The client has the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Http1State(Arc<Http1Shared>);

#[derive(Debug, Default)]
struct Http1Shared {
    phase: Mutex<Http1Phase>,
    /// Whether the request line of the client's turn is over.
    past_line: AtomicBool,
    /// Whether that line's target has a fragment.
    fragment: AtomicBool,
}

#[derive(Debug)]
enum Http1Phase {
    Responding,
    /// The client's, since it was told all that it asked for, if anybody looked at the clock.
    Waiting(Option<Instant>),
}

impl Default for Http1Phase {
    fn default() -> Self {
        Http1Phase::Waiting(None)
    }
}

impl Http1State {
    /// Begins our turn.
    pub(crate) fn begin_response(&self) -> ResponseGuard {
        *self.lock() = Http1Phase::Responding;
        ResponseGuard(Some(self.clone()))
    }

    /// Since when it is the client's turn; `now` if nobody knows.
    pub(crate) fn waiting_since(&self, now: Instant) -> Option<Instant> {
        match &mut *self.lock() {
            Http1Phase::Responding => None,
            Http1Phase::Waiting(since) => Some(*since.get_or_insert(now)),
        }
    }

    /// Notes that the client was told something: a turn that has ended begins for it here.
    pub(crate) fn on_written(&self) {
        if let Http1Phase::Waiting(since) = &mut *self.lock() {
            *since = Some(Instant::now());
        }
    }

    /// Whether what the client sends now belongs to a request line.
    pub(crate) fn awaits_line(&self) -> bool {
        !self.0.past_line.load(Ordering::Relaxed)
    }

    /// Notes the end of a request line, and whether its target has a fragment.
    pub(crate) fn end_line(&self, fragment: bool) {
        self.0.past_line.store(true, Ordering::Relaxed);
        if fragment {
            self.0.fragment.store(true, Ordering::Relaxed);
        }
    }

    /// Whether the target of the request has a fragment, which the parser drops. Requests that are pipelined behind
    /// another are parsed from hyper's buffer and not seen here.
    pub(crate) fn has_fragment(&self) -> bool {
        self.0.fragment.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Http1Phase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Our turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct ResponseGuard(Option<Http1State>);

impl ResponseGuard {
    /// Never gives the turn back: what the client sends from now on are no requests.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for ResponseGuard {
    fn drop(&mut self) {
        if let Some(state) = &self.0 {
            state.0.past_line.store(false, Ordering::Relaxed);
            *state.lock() = Http1Phase::Waiting(None);
        }
    }
}
