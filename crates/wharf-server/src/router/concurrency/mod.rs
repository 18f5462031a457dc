//! How many calls run at once, how many wait, and which of them is next.

pub(crate) mod wait_queue;

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use wharf_model::{Caller, LogThrottle, OnCallEnd, Outbox, RequestExtensions};

use crate::router::caller_shares::{CallerShare, CallerShares};
pub(crate) use crate::router::concurrency::wait_queue::QueuedPermit;
use crate::router::concurrency::wait_queue::{QueuedCall, WaitQueue};

/// A semaphore for calls. Callers that have calls waiting take turns, and none of them can take all
/// places, neither those of running calls nor those of waiting ones.
pub(crate) struct ConcurrencyLimit {
    /// Running calls.
    permits: CallerShares,
    /// Waiting calls.
    queue: CallerShares,
    /// How many calls run. [`WAITING_FLAG`] is set while calls wait: then each call that ends looks for the
    /// next one, and none starts without the lock.
    running: AtomicUsize,
    wait_queue: Mutex<WaitQueue>,
    refused: LogThrottle,
}

const WAITING_FLAG: usize = 1 << (usize::BITS - 1);

/// Whether a call may run.
pub(crate) enum AcquireResult {
    /// Now, in a place that is not counted by caller: give it back with [`OnCallEnd::release`].
    Now,
    /// Now, in this place.
    Counted(CallPermit),
    /// When this is ready.
    Later(QueuedPermit),
    /// Not at all: no place is free for this caller, not even to wait in.
    Never,
}

impl ConcurrencyLimit {
    pub(crate) fn new(capacity: usize, queue: usize) -> Arc<Self> {
        Arc::new(ConcurrencyLimit {
            permits: CallerShares::new(capacity.min(WAITING_FLAG - 1)),
            queue: CallerShares::new(queue.min(WAITING_FLAG - 1)),
            running: AtomicUsize::new(0),
            wait_queue: Mutex::default(),
            refused: LogThrottle::default(),
        })
    }

    /// Asks for a place for a call with this scope.
    #[inline]
    pub(crate) fn acquire(self: &Arc<Self>, scope: &RequestExtensions) -> AcquireResult {
        let open = self.permits.open;
        let one_more = |running| (running < open).then(|| running + 1);
        match self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more) {
            Ok(_) => AcquireResult::Now,
            Err(_) => self.acquire_contended(Caller::of(scope)),
        }
    }

    #[cold]
    fn acquire_contended(self: &Arc<Self>, caller: Caller) -> AcquireResult {
        let mut wait_queue = self.lock();
        // From here on nothing changes without the lock. What ended just now is seen below.
        self.running.fetch_or(WAITING_FLAG, Ordering::AcqRel);
        // No call that waits could run, so one that can is of a caller that none of them is of.
        let result = match self.claim(&caller) {
            Some(share) => AcquireResult::Counted(CallPermit { call_limit: self.clone(), share }),
            None => match self.queue.claim(wait_queue.len(), &caller) {
                Some(share) => AcquireResult::Later(wait_queue.push(self, caller, share)),
                None => AcquireResult::Never,
            },
        };
        let waiting = wait_queue.len();
        self.clear_waiting_flag(&wait_queue);
        drop(wait_queue);
        if matches!(result, AcquireResult::Never) && self.refused.is_due() {
            let running = self.running();
            tracing::warn!(running, waiting, "calls are refused: too many run and wait");
        }
        result
    }

    fn running(&self) -> usize {
        self.running.load(Ordering::Acquire) & !WAITING_FLAG
    }

    /// Takes a place for a call of this caller. The lock must be held, and [`WAITING_FLAG`] be set.
    fn claim(&self, caller: &Caller) -> Option<CallerShare> {
        let share = self.permits.claim(self.running(), caller)?;
        self.running.fetch_add(1, Ordering::AcqRel);
        Some(share)
    }

    /// Gives a place back, for those that wait.
    fn release_permit(&self) {
        let one_less = |running| (running & WAITING_FLAG == 0).then(|| running - 1);
        if self.running.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less).is_err() {
            self.grant_waiting();
        }
    }

    #[cold]
    fn grant_waiting(&self) {
        let mut wait_queue = self.lock();
        self.running.fetch_sub(1, Ordering::AcqRel);
        let mut granted = Vec::new();
        // One end may let several calls run: the caller's own share has grown too.
        while let Some(next) = self.next(&mut wait_queue) {
            granted.push(next);
        }
        self.clear_waiting_flag(&wait_queue);
        drop(wait_queue);
        // Waking and dropping may run code that comes back here.
        granted.into_iter().for_each(|(waiter, share)| waiter.grant(share));
    }

    /// Gives a place to the first caller in turn that may have one.
    fn next(&self, wait_queue: &mut WaitQueue) -> Option<(QueuedCall, CallerShare)> {
        let running = self.running();
        if wait_queue.len() == 0 || running >= self.permits.capacity {
            return None;
        }
        let only_local = running >= self.permits.open && self.permits.is_spent();
        wait_queue.pop(|caller| match caller {
            Caller::Local => self.claim(caller),
            _ if only_local => None,
            _ => self.claim(caller),
        })
    }

    /// Lets calls start without the lock again, if none waits.
    fn clear_waiting_flag(&self, wait_queue: &WaitQueue) {
        if wait_queue.len() == 0 {
            self.running.fetch_and(!WAITING_FLAG, Ordering::AcqRel);
        }
    }

    fn lock(&self) -> MutexGuard<'_, WaitQueue> {
        self.wait_queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl OnCallEnd for ConcurrencyLimit {
    fn release(&self) {
        self.release_permit();
    }
}

/// A running call's place that a caller's share may be counted in; given back when dropped.
pub(crate) struct CallPermit {
    call_limit: Arc<ConcurrencyLimit>,
    share: CallerShare,
}

impl CallPermit {
    /// Keeps the place until the call is over.
    pub(crate) fn hold(self, outbox: &Outbox) {
        outbox.hold(Arc::new(self));
    }
}

impl OnCallEnd for CallPermit {
    /// The outbox drops it, too, which gives it back.
    fn release(&self) {}
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        // First: whoever is next may be the same caller.
        drop(self.share.take());
        self.call_limit.release_permit();
    }
}
