//! Whose turn it is on a connection of HTTP/1.1: the client's to send a request, or ours to answer.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, Ordering},
};

use tokio::time::Instant;

/// The turns of one connection, which alternate. The client has the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Table>);

#[derive(Debug, Default)]
struct Table {
    whose: Mutex<Whose>,
    /// Whether the request line of the client's turn is over.
    past_line: AtomicBool,
    /// Whether that line's target has a fragment.
    fragment: AtomicBool,
}

#[derive(Debug)]
enum Whose {
    Ours,
    /// The client's, since it was told all that it asked for, if anybody looked at the clock.
    Theirs(Option<Instant>),
}

impl Default for Whose {
    fn default() -> Self {
        Whose::Theirs(None)
    }
}

impl Turns {
    /// Begins our turn.
    pub(crate) fn take(&self) -> Turn {
        *self.lock() = Whose::Ours;
        Turn(Some(self.clone()))
    }

    /// Since when it is the client's turn; `now` if nobody knows.
    pub(crate) fn theirs(&self, now: Instant) -> Option<Instant> {
        match &mut *self.lock() {
            Whose::Ours => None,
            Whose::Theirs(since) => Some(*since.get_or_insert(now)),
        }
    }

    /// Notes that the client was told something: a turn that has ended begins for it here.
    pub(crate) fn told(&self) {
        if let Whose::Theirs(since) = &mut *self.lock() {
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

    fn lock(&self) -> MutexGuard<'_, Whose> {
        self.0.whose.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Our turn, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(Option<Turns>);

impl Turn {
    /// Never gives the turn back: what the client sends from now on are no requests.
    pub(crate) fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if let Some(turns) = &self.0 {
            turns.0.past_line.store(false, Ordering::Relaxed);
            *turns.lock() = Whose::Theirs(None);
        }
    }
}
