//! Slots for a slow operation, shared fairly between callers.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, MutexGuard},
};

use tokio::sync::Notify;
use wharf_model::{Budget, BudgetShare, Caller, Lock};

/// Limit of waiting callers for each slot.
const MAX_WAITERS_PER_SLOT: usize = 16;

/// A bounded number of slots with queues. Each caller has a share of both and a queue of its own, so that a
/// caller with many requests does not delay the others.
pub(super) struct FairSlots {
    capacity: Arc<Budget>,
    waiting: Arc<Budget>,
    queues: Lock<HashMap<Caller, Arc<Notify>>>,
}

/// A slot, released on drop.
pub(super) struct SlotGuard {
    held: Option<BudgetShare>,
    slots: Arc<FairSlots>,
}

/// A waiting request.
struct SlotWaiter<'a> {
    slots: &'a FairSlots,
    caller: &'a Caller,
    held: Option<BudgetShare>,
}

impl FairSlots {
    /// Creates `most` slots. One caller alone gets half of them.
    pub(super) fn new(most: usize) -> Arc<Self> {
        let waiting = Budget::new(most.saturating_mul(MAX_WAITERS_PER_SLOT));
        Arc::new(FairSlots { capacity: Budget::new(most), waiting, queues: Lock::default() })
    }

    /// Takes a slot or waits for one; returns none if too many requests of the caller are waiting.
    pub(super) async fn take(self: &Arc<Self>, caller: &Caller) -> Option<SlotGuard> {
        if self.waiting.held_by(caller) == 0
            && let Some(slot) = self.try_take(caller)
        {
            return Some(slot);
        }
        let (waiting, queue, is_first) = self.enqueue(caller)?;
        let mut notified = pin!(queue.notified());
        notified.as_mut().enable();
        // A slot may have been released before the queue existed.
        if let Some(slot) = is_first.then(|| self.try_take(caller)).flatten() {
            return Some(slot);
        }
        loop {
            notified.as_mut().await;
            notified.set(queue.notified());
            notified.as_mut().enable();
            if let Some(slot) = self.try_take(caller) {
                drop(waiting);
                return Some(slot);
            }
        }
    }

    fn try_take(self: &Arc<Self>, caller: &Caller) -> Option<SlotGuard> {
        let held = self.capacity.take(caller, 1).ok()?;
        Some(SlotGuard { held: Some(held), slots: self.clone() })
    }

    /// Appends to the caller's queue. The flag is true if no other request is in it.
    fn enqueue<'a>(&'a self, caller: &'a Caller) -> Option<(SlotWaiter<'a>, Arc<Notify>, bool)> {
        let mut queues = self.queues();
        let held = self.waiting.take(caller, 1).ok()?;
        let queue = queues.entry(caller.clone()).or_default().clone();
        let is_first = self.waiting.held_by(caller) == 1;
        Some((SlotWaiter { slots: self, caller, held: Some(held) }, queue, is_first))
    }

    fn queues(&self) -> MutexGuard<'_, HashMap<Caller, Arc<Notify>>> {
        self.queues.lock()
    }
}

impl Drop for SlotGuard {
    fn drop(&mut self) {
        self.held = None;
        // Wakes the first of each queue: the slot may depend on the shares of the other callers.
        for queue in self.slots.queues().values() {
            queue.notify_one();
        }
    }
}

impl Drop for SlotWaiter<'_> {
    fn drop(&mut self) {
        let mut queues = self.slots.queues();
        self.held = None;
        if self.slots.waiting.held_by(self.caller) == 0 {
            queues.remove(self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{net::Ipv4Addr, time::Duration};

    use futures_util::future::join_all;
    use tokio::time::{Instant, sleep, timeout};

    use super::*;

    fn caller(number: u8) -> Caller {
        Caller::from(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
    }

    #[tokio::test(start_paused = true)]
    async fn one_caller_gets_half_of_slots_and_queue() {
        let slots = FairSlots::new(8);
        let begin = Instant::now();
        let visits = join_all((0..200).map(|_| async {
            let slot = slots.take(&caller(1)).await?;
            sleep(Duration::from_secs(1)).await;
            drop(slot);
            Some(begin.elapsed().as_secs())
        }));
        let ended = visits.await;
        let served: Vec<u64> = ended.iter().flatten().copied().collect();
        // Four at once and 64 waiting: half of 8, and half of 128.
        assert_eq!(served.len(), 68);
        assert_eq!(served.iter().max(), Some(&17));
        assert_eq!((slots.capacity.total(), slots.waiting.total()), (0, 0));
        assert!(slots.queues().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_caller_does_not_wait_behind_a_flood() {
        let slots = FairSlots::new(8);
        let mut flood = join_all((0..60).map(|_| async {
            let _slot = slots.take(&caller(1)).await;
            sleep(Duration::from_secs(1)).await;
        }));
        assert!(timeout(Duration::from_millis(1), &mut flood).await.is_err());
        let begin = Instant::now();
        assert!(slots.take(&caller(2)).await.is_some());
        assert_eq!(begin.elapsed(), Duration::ZERO);
        flood.await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_wait_releases_its_place() {
        let slots = FairSlots::new(2);
        let slot = slots.take(&caller(1)).await;
        for _ in 0..3 {
            assert!(timeout(Duration::from_secs(1), slots.take(&caller(1))).await.is_err());
        }
        assert_eq!(slots.waiting.total(), 0);
        assert!(slots.queues().is_empty());
        drop(slot);
        assert!(slots.take(&caller(1)).await.is_some());
    }
}
