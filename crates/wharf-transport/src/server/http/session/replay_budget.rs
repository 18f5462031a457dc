//! Memory budget of the events that all streams of an endpoint keep for replay.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::server::http::session::event_log::EventLog;

/// Largest number of expired streams that are discarded when a stream ends.
const MAX_EXPIRED_AT_ONCE: usize = 4;

/// Bytes that all streams keep, and the queue of ended streams that are discarded first.
#[derive(Default)]
pub(crate) struct ReplayBudget {
    bytes: AtomicUsize,
    limit: usize,
    /// Time that ended streams are kept, in milliseconds.
    retention_ms: u64,
    ended: Mutex<EndedStreams>,
}

/// Ended streams, oldest first.
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

    /// Returns true if the streams exceed the budget.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.load(Ordering::Acquire) > self.limit
    }

    /// Appends an ended stream to the queue. Returns its position.
    pub(crate) fn enqueue(&self, log: Weak<EventLog>, now: u64) -> u64 {
        let mut ended = self.lock();
        let position = ended.next;
        ended.next += 1;
        ended.logs.insert(position, (now, log));
        position
    }

    /// Discards streams whose retention has passed. A few at a time, because every end of a stream does this.
    pub(crate) fn expire(&self, now: u64) {
        for _ in 0..MAX_EXPIRED_AT_ONCE {
            // A statement of its own: a stream must not be dropped while the queue is locked.
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

    /// Removes a dropped stream from the queue.
    pub(crate) fn dequeue(&self, position: u64) {
        self.lock().logs.remove(&position);
    }

    /// Discards ended streams until the budget is met. False if that is not enough.
    pub(crate) fn make_room(&self) -> bool {
        while self.is_full() {
            // A statement of its own: a stream must not be dropped while the queue is locked.
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
