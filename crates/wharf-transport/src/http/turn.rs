//! Whose turn it is on a connection of HTTP/1.1: the client's to send a request, or ours to answer.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

/// The turns of one connection, which alternate. The client has the first.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<Mutex<Whose>>);

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

    fn lock(&self) -> MutexGuard<'_, Whose> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
            *turns.lock() = Whose::Theirs(None);
        }
    }
}
