//! What all streams of an endpoint keep together for clients that come back.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::server::http::session::event_log::Log;

/// How many streams that ended too long ago are emptied when one ends.
const EXPIRED_AT_ONCE: usize = 4;

/// How many bytes all streams keep, and which of them can do without first.
#[derive(Default)]
pub(crate) struct Kept {
    bytes: AtomicUsize,
    most: usize,
    /// How long streams that have ended are kept, in milliseconds.
    time: u64,
    finished: Mutex<Finished>,
}

/// Streams that have ended, the first to end first.
#[derive(Default)]
struct Finished {
    next: u64,
    logs: BTreeMap<u64, (u64, Weak<Log>)>,
}

impl Kept {
    pub(crate) fn new(most: usize, time: Duration) -> Self {
        let time = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Kept { most, time, ..Kept::default() }
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Whether streams keep more than they may.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > self.most
    }

    /// Puts a stream that has ended at the end of the line. Gives its place there.
    pub(crate) fn line_up(&self, log: Weak<Log>, now: u64) -> u64 {
        let mut finished = self.lock();
        let place = finished.next;
        finished.next += 1;
        finished.logs.insert(place, (now, log));
        place
    }

    /// Empties streams that ended too long ago. A few at a time: it is done whenever a stream ends.
    pub(crate) fn expire(&self, now: u64) {
        for _ in 0..EXPIRED_AT_ONCE {
            // Its own statement: a stream must not go while the line is locked.
            let first = {
                let mut finished = self.lock();
                let first = finished.logs.first_entry();
                let late = |ended: u64| now.saturating_sub(ended) >= self.time;
                first.filter(|first| late(first.get().0)).map(|first| first.remove().1)
            };
            let Some(log) = first else { return };
            if let Some(log) = log.upgrade() {
                log.forget();
            }
        }
    }

    /// Takes a stream that is gone out of the line.
    pub(crate) fn strike(&self, place: u64) {
        self.lock().logs.remove(&place);
    }

    /// Empties streams that have ended until the others have room. False if that is not enough.
    pub(crate) fn make_room(&self) -> bool {
        while self.is_full() {
            // Its own statement: a stream must not go while the line is locked.
            let first = self.lock().logs.pop_first();
            let Some((_, (_, log))) = first else { return false };
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
