//! Memory budget of the events that all streams of an endpoint keep for replay, with a share per caller.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use wharf_model::{Budget, BudgetShare, Caller};

use crate::server::http::session::event_log::EventLog;

/// Largest number of expired streams that are discarded when a stream ends.
const MAX_EXPIRED_AT_ONCE: usize = 4;

/// Bytes that all streams keep, and the queue of ended streams, which are discarded first.
pub(crate) struct ReplayBudget {
    budget: Arc<Budget>,
    /// Time that ended streams are kept, in milliseconds.
    retention_ms: u64,
    ended: Mutex<EndedStreams>,
}

/// Ended streams. A smaller position is older.
#[derive(Default)]
struct EndedStreams {
    next: u64,
    by_age: BTreeMap<u64, EndedStream>,
    by_caller: BTreeSet<(Caller, u64)>,
}

struct EndedStream {
    caller: Caller,
    ended_ms: u64,
    log: Weak<EventLog>,
}

impl ReplayBudget {
    pub(crate) fn new(limit: usize, time: Duration) -> Self {
        let retention_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        ReplayBudget { budget: Budget::new(limit), retention_ms, ended: Mutex::default() }
    }

    /// Returns the share of a stream, which is empty.
    pub(crate) fn share(&self, caller: &Caller) -> BudgetShare {
        self.budget.share(caller)
    }

    /// Appends an ended stream to the queue. Returns its position.
    pub(crate) fn enqueue(&self, caller: &Caller, log: Weak<EventLog>, now: u64) -> u64 {
        let mut ended = self.lock();
        let position = ended.next;
        ended.next += 1;
        ended.by_caller.insert((caller.clone(), position));
        let stream = EndedStream { caller: caller.clone(), ended_ms: now, log };
        ended.by_age.insert(position, stream);
        position
    }

    /// Discards streams whose retention has passed. A few at a time, because every end of a stream does this.
    pub(crate) fn expire(&self, now: u64) {
        for _ in 0..MAX_EXPIRED_AT_ONCE {
            // A statement of its own: a stream must not be dropped while the queue is locked.
            let first = self.lock().pop_expired(now, self.retention_ms);
            let Some(log) = first else { return };
            if let Some(log) = log.upgrade() {
                log.discard();
            }
        }
    }

    /// Removes a dropped stream from the queue.
    pub(crate) fn dequeue(&self, position: u64) {
        self.lock().remove(position);
    }

    /// Discards ended streams of this caller until its share is met. False if that is not enough.
    pub(crate) fn make_room(&self, caller: &Caller) -> bool {
        while self.budget.is_exceeded_by(caller) {
            // A statement of its own: a stream must not be dropped while the queue is locked.
            let first = self.lock().pop_of(caller);
            let Some(log) = first else { return false };
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

impl EndedStreams {
    fn remove(&mut self, position: u64) -> Option<Weak<EventLog>> {
        let EndedStream { caller, log, .. } = self.by_age.remove(&position)?;
        self.by_caller.remove(&(caller, position));
        Some(log)
    }

    fn pop_expired(&mut self, now: u64, retention_ms: u64) -> Option<Weak<EventLog>> {
        let (position, first) = self.by_age.first_key_value()?;
        let is_late = now.saturating_sub(first.ended_ms) >= retention_ms;
        let position = *position;
        if is_late { self.remove(position) } else { None }
    }

    fn pop_of(&mut self, caller: &Caller) -> Option<Weak<EventLog>> {
        let of_caller = (caller.clone(), 0)..=(caller.clone(), u64::MAX);
        let (_, position) = self.by_caller.range(of_caller).next()?;
        let position = *position;
        self.remove(position)
    }
}
