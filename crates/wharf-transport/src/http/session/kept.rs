//! What all streams of an endpoint keep together for clients that come back.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use super::log::Log;

/// How many bytes all streams keep, and which of them can do without first.
#[derive(Default)]
pub(crate) struct Kept {
    bytes: AtomicUsize,
    most: usize,
    finished: Mutex<Finished>,
}

/// Streams that have ended, the first to end first.
#[derive(Default)]
struct Finished {
    next: u64,
    logs: BTreeMap<u64, Weak<Log>>,
}

impl Kept {
    pub(crate) fn new(most: usize) -> Self {
        Kept { most, ..Kept::default() }
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Puts a stream that has ended at the end of the line. Gives its place there.
    pub(crate) fn line_up(&self, log: Weak<Log>) -> u64 {
        let mut finished = self.lock();
        let place = finished.next;
        finished.next += 1;
        finished.logs.insert(place, log);
        place
    }

    /// Takes a stream that is gone out of the line.
    pub(crate) fn strike(&self, place: u64) {
        self.lock().logs.remove(&place);
    }

    /// Empties streams that have ended until the others have room. False if that is not enough.
    pub(crate) fn make_room(&self) -> bool {
        while self.bytes.load(Ordering::Acquire) > self.most {
            // Its own statement: a stream must not go while the line is locked.
            let first = self.lock().logs.pop_first();
            let Some((_, log)) = first else { return false };
            if let Some(log) = log.upgrade() {
                log.forget();
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, Finished> {
        self.finished.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
