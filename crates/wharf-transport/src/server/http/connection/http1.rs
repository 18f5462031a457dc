//! State of an HTTP/1.1 connection: waiting for a request, or responding to one. Its timeouts depend on it.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::Instant;

/// State of one connection. It starts by waiting for a request.
#[derive(Clone, Debug, Default)]
pub(crate) struct Http1State(Arc<Http1Shared>);

#[derive(Debug, Default)]
struct Http1Shared {
    phase: Mutex<Http1Phase>,
    /// True once the request line has been read.
    past_line: AtomicBool,
    /// True if the target in that line has a fragment.
    fragment: AtomicBool,
}

#[derive(Debug)]
enum Http1Phase {
    Responding,
    /// Waiting for a request since this time, if it was recorded.
    Waiting(Option<Instant>),
}

impl Default for Http1Phase {
    fn default() -> Self {
        Http1Phase::Waiting(None)
    }
}

impl Http1State {
    /// Enters the responding state until the guard is dropped.
    pub(crate) fn begin_response(&self) -> ResponseGuard {
        *self.lock() = Http1Phase::Responding;
        ResponseGuard(Some(self.clone()))
    }

    /// Returns the time since when the connection waits for a request; `now` if it was not recorded. None while
    /// responding.
    pub(crate) fn waiting_since(&self, now: Instant) -> Option<Instant> {
        match &mut *self.lock() {
            Http1Phase::Responding => None,
            Http1Phase::Waiting(since) => Some(*since.get_or_insert(now)),
        }
    }

    /// Records a write: the wait for the next request starts after it.
    pub(crate) fn on_written(&self) {
        if let Http1Phase::Waiting(since) = &mut *self.lock() {
            *since = Some(Instant::now());
        }
    }

    /// Returns true if the next input belongs to a request line.
    pub(crate) fn awaits_line(&self) -> bool {
        !self.0.past_line.load(Ordering::Relaxed)
    }

    /// Records the end of a request line, and whether its target has a fragment.
    pub(crate) fn end_line(&self, fragment: bool) {
        self.0.past_line.store(true, Ordering::Relaxed);
        if fragment {
            self.0.fragment.store(true, Ordering::Relaxed);
        }
    }

    /// Returns true if the target of the request has a fragment, which the parser drops. Pipelined requests are
    /// parsed from hyper's buffer and not seen here.
    pub(crate) fn has_fragment(&self) -> bool {
        self.0.fragment.load(Ordering::Relaxed)
    }

    fn lock(&self) -> MutexGuard<'_, Http1Phase> {
        self.0.phase.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Responding state, until it is dropped.
#[derive(Debug)]
pub(crate) struct ResponseGuard(Option<Http1State>);

impl ResponseGuard {
    /// Never returns to waiting, because the connection no longer carries HTTP requests.
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
