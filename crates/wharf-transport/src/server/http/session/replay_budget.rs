//! What all streams of an endpoint keep together for clients that come back.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::server::http::session::event_log::EventLog;

/// How many streams that ended too long ago are emptied when one ends.
const MAX_EXPIRED_AT_ONCE: usize = 4;

/// How many bytes all streams keep, and which of them can do without first.
#[derive(Default)]
pub(crate) struct ReplayBudget {
    bytes: AtomicUsize,
    limit: usize,
    /// How long streams that have ended are kept, in milliseconds.
    retention_ms: u64,
    ended: Mutex<EndedStreams>,
}

/// Streams that have ended, the first to end first.
#[derive(Default)]
struct EndedStreams {
    next: u64,
    logs: BTreeMap<u64, (u64, Weak<EventLog>)>,
}

impl ReplayBudget {
    pub(crate) fn new(limit: usize, time: Duration) -> Self {
        let retention_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        ReplayBudget { limit, retention_ms, ..ReplayBudget::default() }
    }

    pub(crate) fn add(&self, bytes: usize) {
        self.bytes.fetch_add(bytes, Ordering::AcqRel);
    }

    pub(crate) fn remove(&self, bytes: usize) {
        self.bytes.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Whether streams keep more than they may.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > self.limit
    }

    /// Puts a stream that has ended at the end of the line. Gives its place there.
    pub(crate) fn enqueue(&self, log: Weak<EventLog>, now: u64) -> u64 {
        let mut ended = self.lock();
        let position = ended.next;
        ended.next += 1;
        ended.logs.insert(position, (now, log));
        position
    }

    /// Empties streams that ended too long ago. A few at a time: it is done whenever a stream ends.
    pub(crate) fn expire(&self, now: u64) {
        for _ in 0..MAX_EXPIRED_AT_ONCE {
            // Its own statement: a stream must not go while the line is locked.
            let first = {
                let mut ended = self.lock();
                let first = ended.logs.first_entry();
                let late = |ended: u64| now.saturating_sub(ended) >= self.retention_ms;
                first.filter(|first| late(first.get().0)).map(|first| first.remove().1)
            };
            let Some(log) = first else { return };
            if let Some(log) = log.upgrade() {
                log.discard();
            }
        }
    }

    /// Takes a stream that is gone out of the line.
    pub(crate) fn dequeue(&self, position: u64) {
        self.lock().logs.remove(&position);
    }

    /// Empties streams that have ended until the others have room. False if that is not enough.
    pub(crate) fn reserve_for(&self) -> bool {
        while self.is_full() {
            // Its own statement: a stream must not go while the line is locked.
            let first = self.lock().logs.pop_first();
            let Some((_, (_, log))) = first else { return false };
            if let Some(log) = log.upgrade() {
                log.discard();
            }
        }
        true
    }

    fn lock(&self) -> MutexGuard<'_, EndedStreams> {
        self.ended.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
