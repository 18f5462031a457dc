//! Memory budget of the events that all streams of an endpoint keep for replay.
//!
//! Open streams have a share per caller ([`Budget`]), because their unread events cannot be taken back. Ended streams
//! may use all memory that open ones leave, and an eighth in any case: open streams beyond their callers' shares do not
//! displace them. When it is used up, the streams that ended first are discarded, of the caller whose ended streams take
//! the most ([`SlotTable`]).

use std::{
    collections::BTreeMap,
    sync::{
        Arc, MutexGuard, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use wharf_model::{Budget, BudgetShare, Caller, Lock};

use crate::server::{
    http::session::event_log::EventLog,
    limits::fair_eviction::{SlotTable, SlotUse},
};

/// Part of the memory that open streams cannot take: this fraction of it.
const ENDED_FRACTION: usize = 8;

/// Bytes that all streams keep, and the queue of ended streams.
pub(crate) struct ReplayBudget {
    /// Maximum of all streams, in bytes.
    most: usize,
    /// Bytes of the streams outside the queue.
    open: Arc<Budget>,
    /// Bytes of the streams in the queue, readable without its lock.
    ended_bytes: AtomicUsize,
    /// Time that ended streams are kept, in milliseconds.
    retention_ms: u64,
    ended: Lock<EndedStreams>,
}

/// Ended streams by position. A smaller position is older.
struct EndedStreams {
    next: u64,
    by_age: BTreeMap<u64, EndedStream>,
    slots: SlotTable<u64>,
}

struct EndedStream {
    caller: Caller,
    bytes: usize,
    ended_ms: u64,
    is_read: bool,
    log: Weak<EventLog>,
}

/// Part of the budget that one stream takes. Released on drop.
pub(crate) struct ReplayShare {
    budget: Arc<ReplayBudget>,
    /// Empty while the stream is in the queue.
    open: BudgetShare,
    /// Position in the queue of ended streams.
    position: Option<u64>,
}

impl ReplayBudget {
    pub(crate) fn new(limit: usize, time: Duration) -> Arc<Self> {
        let retention_ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let slots = SlotTable::new(limit);
        Arc::new(ReplayBudget {
            most: limit,
            open: Budget::new(limit - limit / ENDED_FRACTION),
            ended_bytes: AtomicUsize::new(0),
            retention_ms,
            ended: Lock::new(EndedStreams { next: 0, by_age: BTreeMap::new(), slots }),
        })
    }

    /// Returns the share of a stream, which is empty.
    pub(crate) fn share(self: &Arc<Self>, caller: &Caller) -> ReplayShare {
        ReplayShare { budget: self.clone(), open: self.open.share(caller), position: None }
    }

    /// Discards streams whose retention has passed, `most` at a time.
    pub(crate) fn expire(&self, now: u64, most: usize) {
        for _ in 0..most {
            // A statement of its own: a stream must not be dropped while the queue is locked.
            let first = self.change(|ended| ended.pop_expired(now, self.retention_ms));
            let Some(stream) = first else { return };
            if let Some(log) = stream.log.upgrade() {
                log.discard(false);
            }
        }
    }

    /// Returns true if streams must be discarded, and some can be.
    pub(crate) fn is_full(&self) -> bool {
        let ended = self.ended_bytes.load(Ordering::Relaxed);
        ended > 0 && ended > self.most - self.open.total().min(self.open.most())
    }

    /// Discards ended streams until the memory suffices, after the stream at `position` has ended or an open one has
    /// grown.
    pub(crate) fn make_room(&self, position: Option<u64>, now: u64) {
        while self.is_full() {
            // A statement of its own: a stream must not be dropped while the queue is locked.
            let victim = self.change(|ended| ended.pop_victim(position, now));
            let Some(stream) = victim else { return };
            if let Some(log) = stream.log.upgrade() {
                log.discard(stream.is_read);
            }
        }
    }

    fn change<T>(&self, change: impl FnOnce(&mut EndedStreams) -> T) -> T {
        let mut ended = self.lock();
        let result = change(&mut ended);
        self.ended_bytes.store(ended.slots.used(), Ordering::Relaxed);
        result
    }

    fn lock(&self) -> MutexGuard<'_, EndedStreams> {
        self.ended.lock()
    }
}

impl ReplayShare {
    /// Returns the position in the queue, if the stream is in it.
    pub(crate) fn position(&self) -> Option<u64> {
        self.position
    }

    /// Sets the bytes of the stream. Returns true if it is open and its caller now exceeds its share.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        match self.position {
            Some(position) => {
                self.budget.change(|ended| ended.resize(position, bytes));
                false
            }
            None => self.open.resize(bytes).is_err(),
        }
    }

    /// Appends an ended stream to the queue.
    pub(crate) fn enqueue(&mut self, log: Weak<EventLog>, is_read: bool, now: u64) {
        let (caller, bytes) = (self.open.caller().clone(), self.open.amount());
        self.open.shrink_to(0);
        let stream = EndedStream { caller, bytes, ended_ms: now, is_read, log };
        self.position = Some(self.budget.change(|ended| ended.push(stream)));
    }

    /// Removes the stream from the queue; the next [`resize`](Self::resize) counts it as an open one.
    pub(crate) fn dequeue(&mut self) {
        if let Some(position) = self.position.take() {
            self.budget.change(|ended| ended.remove(position));
        }
    }

    /// Records whether the stream is being read: one that is goes only after all others of its caller, and not before
    /// another stream has grown or ended.
    pub(crate) fn set_read(&self, is_read: bool) {
        if let Some(position) = self.position
            && let Some(stream) = self.budget.lock().by_age.get_mut(&position)
        {
            stream.is_read = is_read;
        }
    }
}

impl Drop for ReplayShare {
    fn drop(&mut self) {
        self.dequeue();
    }
}

impl EndedStreams {
    fn push(&mut self, stream: EndedStream) -> u64 {
        let position = self.next;
        self.next += 1;
        self.slots.add(&stream.caller, stream.bytes, stream.ended_ms, position);
        self.by_age.insert(position, stream);
        position
    }

    fn resize(&mut self, position: u64, bytes: usize) {
        let Some(stream) = self.by_age.get_mut(&position) else { return };
        self.slots.resize(&stream.caller, stream.bytes, bytes);
        stream.bytes = bytes;
    }

    fn remove(&mut self, position: u64) -> Option<EndedStream> {
        let stream = self.by_age.remove(&position)?;
        let streams = &self.by_age;
        self.slots.remove(&stream.caller, stream.bytes, |it| !streams.contains_key(it));
        Some(stream)
    }

    fn pop_expired(&mut self, now: u64, retention_ms: u64) -> Option<EndedStream> {
        let (position, first) = self.by_age.first_key_value()?;
        let is_late = now.saturating_sub(first.ended_ms) >= retention_ms;
        let position = *position;
        if is_late { self.remove(position) } else { None }
    }

    /// Removes a stream of the caller that takes the most. The one that has just ended is spared while it is being
    /// read: its reader has had no time for the reply.
    fn pop_victim(&mut self, just_ended: Option<u64>, now: u64) -> Option<EndedStream> {
        let streams = &self.by_age;
        let slot_use = |position: &u64| match streams.get(position) {
            None => SlotUse::Gone,
            Some(stream) if stream.is_read => SlotUse::Busy,
            Some(stream) => SlotUse::Idle(stream.ended_ms),
        };
        let position = self.slots.victim_of_largest(just_ended.as_ref(), now, slot_use)?;
        self.remove(position)
    }
}
