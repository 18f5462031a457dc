//! Semaphore for calls.

use std::sync::{
    Arc, MutexGuard,
    atomic::{AtomicUsize, Ordering},
};

use wharf_model::{Caller, Lock, ObservedEvent, Observers, OnCallEnd, Outbox, RequestExtensions};

use crate::router::{
    caller_shares::{CallerShare, CallerShares},
    concurrency::wait_queue::{QueuedCall, QueuedPermit, WaitQueue},
};

/// Semaphore for calls. Waiting calls are served round-robin by caller, and no caller can take all
/// permits or the whole queue.
pub(crate) struct ConcurrencyLimit {
    /// Permits of running calls.
    permits: CallerShares,
    /// Places in the wait queue.
    queue: CallerShares,
    /// Number of running calls. [`WAITING_FLAG`] is set while calls wait: then each call that ends
    /// grants its permit to the next one, and none starts without the lock.
    running: AtomicUsize,
    wait_queue: Lock<WaitQueue>,
    observers: Observers,
}

const WAITING_FLAG: usize = 1 << (usize::BITS - 1);

/// Result of acquiring a permit.
pub(crate) enum AcquireResult {
    /// Granted, not counted by caller: release it with [`OnCallEnd::release`].
    Now,
    /// Granted with this permit.
    Counted(CallPermit),
    /// Queued: resolves when the call may run.
    Later(QueuedPermit),
    /// Rejected: neither a permit nor a place in the queue is free for this caller.
    Never,
}

impl ConcurrencyLimit {
    pub(crate) fn new(capacity: usize, queue: usize) -> Self {
        ConcurrencyLimit {
            permits: CallerShares::new(capacity.min(WAITING_FLAG - 1)),
            queue: CallerShares::new(queue.min(WAITING_FLAG - 1)),
            running: AtomicUsize::new(0),
            wait_queue: Lock::default(),
            observers: Observers::default(),
        }
    }

    /// Reports the length of the queue to observers.
    pub(crate) fn observed(self, observers: Observers) -> Self {
        ConcurrencyLimit { observers, ..self }
    }

    /// Acquires a permit for a call with these request extensions.
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
        // From here on nothing changes without the lock. A call that ended just before is seen
        // below.
        self.running.fetch_or(WAITING_FLAG, Ordering::AcqRel);
        // No waiting call could run, so a call that can is from a caller without waiting calls.
        let result = match self.claim(&caller) {
            Some(share) => AcquireResult::Counted(CallPermit { call_limit: self.clone(), share }),
            None => match self.queue.claim(wait_queue.len(), &caller) {
                Some(share) => AcquireResult::Later(wait_queue.push(self, caller, share)),
                None => AcquireResult::Never,
            },
        };
        let (running, waiting) = (self.running(), wait_queue.len());
        self.clear_waiting_flag(&wait_queue);
        drop(wait_queue);
        match result {
            AcquireResult::Never => self.report_refusal(running, waiting),
            _ => self.report_queue(),
        }
        result
    }

    fn report_refusal(&self, running: usize, waiting: usize) {
        self.observers.emit(|| ObservedEvent::QueueFull { running, waiting });
    }

    /// Reports the length of the queue, without the lock. It reports again if the length changed meanwhile, so that the
    /// last report is true even if several threads report at once.
    pub(super) fn report_queue(&self) {
        if self.observers.is_empty() {
            return;
        }
        let length = || {
            let wait_queue = self.lock();
            (self.running(), wait_queue.len())
        };
        let (mut running, mut waiting) = length();
        loop {
            self.observers.emit(|| ObservedEvent::Queue { running, waiting });
            let reported = waiting;
            (running, waiting) = length();
            if waiting == reported {
                return;
            }
        }
    }

    /// Number of running calls.
    pub(crate) fn running(&self) -> usize {
        self.running.load(Ordering::Acquire) & !WAITING_FLAG
    }

    /// Claims a permit for a call of this caller. The lock must be held, and [`WAITING_FLAG`] must
    /// be set.
    fn claim(&self, caller: &Caller) -> Option<CallerShare> {
        let share = self.permits.claim(self.running(), caller)?;
        self.running.fetch_add(1, Ordering::AcqRel);
        Some(share)
    }

    /// Releases a permit, and grants it to a waiting call.
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
        // One end may let several calls run: the share of the caller has grown too.
        while let Some(next) = self.next(&mut wait_queue) {
            granted.push(next);
        }
        self.clear_waiting_flag(&wait_queue);
        drop(wait_queue);
        self.report_queue();
        // Waking and dropping may run code that calls this type again.
        granted.into_iter().for_each(|(waiter, share)| waiter.grant(share));
    }

    /// Grants a permit to the first caller in turn that may have one.
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
    pub(super) fn clear_waiting_flag(&self, wait_queue: &WaitQueue) {
        if wait_queue.len() == 0 {
            self.running.fetch_and(!WAITING_FLAG, Ordering::AcqRel);
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, WaitQueue> {
        self.wait_queue.lock()
    }
}

impl OnCallEnd for ConcurrencyLimit {
    fn release(&self) {
        self.release_permit();
    }
}

/// Permit of a running call, which may be counted by caller; released on drop.
pub(crate) struct CallPermit {
    pub(super) call_limit: Arc<ConcurrencyLimit>,
    pub(super) share: CallerShare,
}

impl CallPermit {
    /// Holds the permit until the call ends.
    pub(crate) fn hold(self, outbox: &Outbox) {
        outbox.hold(Arc::new(self));
    }
}

impl OnCallEnd for CallPermit {
    /// The outbox drops the permit, which releases it.
    fn release(&self) {}
}

impl Drop for CallPermit {
    fn drop(&mut self) {
        // Release the share first: the next call may be of the same caller.
        drop(self.share.take());
        self.call_limit.release_permit();
    }
}
