//! How many calls run at once, how many wait, and which of them is next.

pub(crate) mod wait_queue;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use wharf_model::{Caller, LogThrottle, OnCallEnd, Outbox, RequestExtensions};

use crate::router::caller_shares::{Share, Shares};
pub(crate) use crate::router::concurrency::wait_queue::Ticket;
use crate::router::concurrency::wait_queue::{Line, Waiter};

/// A semaphore for calls. Callers that have calls waiting take turns, and none of them can take all
/// places, neither those of running calls nor those of waiting ones.
pub(crate) struct Gate {
    /// Running calls.
    places: Shares,
    /// Waiting calls.
    queue: Shares,
    /// How many calls run. [`WAITING`] is set while calls wait: then each call that ends looks for the
    /// next one, and none starts without the lock.
    running: AtomicUsize,
    line: Mutex<Line>,
    refused: LogThrottle,
}

const WAITING: usize = 1 << (usize::BITS - 1);

/// Whether a call may run.
pub(crate) enum Admission {
    /// Now, in a place that is not counted by caller: give it back with [`OnCallEnd::release`].
    Now,
    /// Now, in this place.
    Counted(Place),
    /// When this is ready.
    Later(Ticket),
    /// Not at all: no place is free for this caller, not even to wait in.
    Never,
}

impl Gate {
    pub(crate) fn new(room: usize, queue: usize) -> Arc<Self> {
        Arc::new(Gate {
            places: Shares::new(room.min(WAITING - 1)),
            queue: Shares::new(queue.min(WAITING - 1)),
            running: AtomicUsize::new(0),
            line: Mutex::default(),
            refused: LogThrottle::default(),
        })
    }

    /// Asks for a place for a call with this scope.
    #[inline]
    pub(crate) fn enter(self: &Arc<Self>, scope: &RequestExtensions) -> Admission {
        let open = self.places.open;
        let one_more = |running| (running < open).then(|| running + 1);
        match self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => Admission::Now,
            Err(_) => self.enter_crowded(Caller::of(scope)),
        }
    }

    #[cold]
    fn enter_crowded(self: &Arc<Self>, caller: Caller) -> Admission {
        let mut line = self.lock();
        // From here on nothing changes without the lock. What ended just now is seen below.
        self.running.fetch_or(WAITING, Ordering::AcqRel);
        // No call that waits could run, so one that can is of a caller that none of them is of.
        let admission = match self.claim(&caller) {
            Some(share) => Admission::Counted(Place { gate: self.clone(), share }),
            None => match self.queue.claim(line.len(), &caller) {
                Some(share) => Admission::Later(line.push(self, caller, share)),
                None => Admission::Never,
            },
        };
        let waiting = line.len();
        self.unmark(&line);
        drop(line);
        if matches!(admission, Admission::Never) && self.refused.is_due() {
            let running = self.running();
            tracing::warn!(running, waiting, "calls are refused: too many run and wait");
        }
        admission
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::Acquire) & !WAITING
    }

    /// Takes a place for a call of this caller. The lock must be held, and [`WAITING`] be set.
    fn claim(&self, caller: &Caller) -> Option<Share> {
        let share = self.places.claim(self.running(), caller)?;
        self.running.fetch_add(1, Ordering::AcqRel);
        Some(share)
    }

    /// Gives a place back, for those that wait.
    fn leave(&self) {
        let one_less = |running| (running & WAITING == 0).then(|| running - 1);
        if self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_err() {
            self.hand_on();
        }
    }

    #[cold]
    fn hand_on(&self) {
        let mut line = self.lock();
        self.running.fetch_sub(1, Ordering::AcqRel);
        let mut served = Vec::new();
        // One end may let several calls run: the caller's own share has grown too.
        while let Some(next) = self.next(&mut line) {
            served.push(next);
        }
        self.unmark(&line);
        drop(line);
        // Waking and dropping may run code that comes back here.
        served.into_iter().for_each(|(waiter, share)| waiter.serve(share));
    }

    /// Gives a place to the first caller in turn that may have one.
    fn next(&self, line: &mut Line) -> Option<(Waiter, Share)> {
        let running = self.running();
        if line.len() == 0 || running >= self.places.room {
            return None;
        }
        let only_local = running >= self.places.open && self.places.is_spent();
        line.pop(|caller| match caller {
            Caller::Local => self.claim(caller),
            _ if only_local => None,
            _ => self.claim(caller),
        })
    }

    /// Lets calls start without the lock again, if none waits.
    fn unmark(&self, line: &Line) {
        if line.len() == 0 {
            self.running.fetch_and(!WAITING, Ordering::AcqRel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Line> {
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnCallEnd for Gate {
    fn release(&self) {
        self.leave();
    }
}

/// A running call's place that a caller's share may be counted in; given back when dropped.
pub(crate) struct Place {
    gate: Arc<Gate>,
    share: Share,
}

impl Place {
    /// Keeps the place until the call is over.
    pub(crate) fn keep(self, outbox: &Outbox) {
        outbox.hold(Arc::new(self));
    }
}

impl OnCallEnd for Place {
    /// The outbox drops it, too, which gives it back.
    fn release(&self) {}
}

impl Drop for Place {
    fn drop(&mut self) {
        // First: whoever is next may be the same caller.
        drop(self.share.take());
        self.gate.leave();
    }
}
