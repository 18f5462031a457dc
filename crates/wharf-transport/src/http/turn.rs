//! Whose turn it is on a connection of HTTP/1.1: the client's to send a request, or ours to answer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

/// The turns of one connection, which alternate. The client has the first, and those of even number.
#[derive(Clone, Debug, Default)]
pub(crate) struct Turns(Arc<AtomicU64>);

impl Turns {
    /// Begins our turn.
    pub(crate) fn take(&self) -> Turn {
        self.0.fetch_add(1, Ordering::AcqRel);
        Turn(Some(self.clone()))
    }

    /// The number of the client's turn, if it is the client's.
    pub(crate) fn of_client(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Acquire)).filter(|number| number % 2 == 0)
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
        if let Some(Turns(number)) = &self.0 {
            number.fetch_add(1, Ordering::AcqRel);
        }
    }
}
