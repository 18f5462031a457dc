//! Memory budget of received messages, until they are answered.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};
#[cfg(feature = "http")]
use std::{pin::pin, time::Duration};

#[cfg(feature = "http")]
use bytes::Bytes;
use tokio::sync::Notify;
#[cfg(feature = "http")]
use tokio::time::timeout;
use wharf_model::{Budget, BudgetFull, BudgetShare, Caller, RequestExtensions};

/// Length from which a message is charged to its caller as well as to the total. A shorter one is
/// charged to its caller only while all messages use more than half of the budget.
pub(crate) const LARGE_MESSAGE_BYTES: usize = 64 << 10;
/// Factor by which a large body is charged: the body, the arguments decoded from it, and the reply.
#[cfg(feature = "http")]
const LARGE_BODY_COPIES: usize = 3;

/// Budget of all messages of an endpoint that are being read or handled.
#[derive(Debug)]
pub(crate) struct MessageBudget {
    used: AtomicUsize,
    limit: usize,
    /// Half of `limit`.
    half: usize,
    /// Charges by caller.
    by_caller: Arc<Budget>,
    /// Charges of partially received messages on JSON lines and WebSockets.
    unfinished: Arc<Budget>,
    /// Notified when a charge of a caller is released.
    freed: Notify,
}

impl MessageBudget {
    /// Creates a budget of `limit` bytes, of which partially received messages may use
    /// `unfinished`.
    pub(crate) fn new(limit: usize, unfinished: usize) -> Arc<Self> {
        let (by_caller, unfinished) = (Budget::new(limit), Budget::new(unfinished));
        let (used, half, freed) = (AtomicUsize::new(0), limit / 2, Notify::new());
        Arc::new(MessageBudget { used, limit, half, by_caller, unfinished, freed })
    }
}

/// Memory that a message is charged for, until it is dropped.
#[derive(Debug)]
pub(crate) struct MessageCharge {
    budget: Arc<MessageBudget>,
    amount: usize,
    /// Share of the caller's budget, if charged to it. Boxed, because most messages are small.
    share: Option<Box<BudgetShare>>,
}

impl MessageCharge {
    pub(crate) fn empty(budget: &Arc<MessageBudget>) -> Self {
        MessageCharge { budget: budget.clone(), amount: 0, share: None }
    }

    /// Charges `size` more bytes to the caller of this scope; changes nothing on failure.
    pub(crate) fn add(&mut self, size: usize, scope: &RequestExtensions) -> Result<(), BudgetFull> {
        let before = self.budget.used.fetch_add(size, Ordering::AcqRel);
        self.amount += size;
        let all = before + size;
        let grown = match self.amount <= LARGE_MESSAGE_BYTES && all <= self.budget.half {
            true => Ok(()),
            false => self.charge_caller(all, scope),
        };
        if grown.is_err() {
            self.amount -= size;
            self.budget.used.fetch_sub(size, Ordering::AcqRel);
        }
        grown
    }

    /// Charges the message to its caller; `all` is the total of all messages.
    #[cold]
    fn charge_caller(&mut self, all: usize, scope: &RequestExtensions) -> Result<(), BudgetFull> {
        let free = self.budget.limit.checked_sub(all).ok_or(BudgetFull)?;
        let (budget, caller) = (&self.budget.by_caller, Caller::of(scope));
        let before = self.share.as_ref().map_or(0, |share| share.amount());
        match &mut self.share {
            Some(share) => share.grow(self.amount - before),
            None => {
                budget.take(&caller, self.amount).map(|share| self.share = Some(Box::new(share)))
            }
        }?;
        // Small messages that are not charged to any caller reduce the limit of each caller.
        if budget.held_by(&caller) <= free {
            return Ok(());
        }
        match &mut self.share {
            Some(share) if before > 0 => share.shrink_to(before),
            share => *share = None,
        }
        Err(BudgetFull)
    }
}

/// Charges for bodies of HTTP requests.
#[cfg(feature = "http")]
impl MessageCharge {
    /// Factor by which a large body is charged, if no body is longer than `limit`; 1 if the budget
    /// is too small for more.
    pub(crate) fn copies(&self, limit: usize) -> usize {
        if limit.saturating_mul(LARGE_BODY_COPIES) <= self.budget.limit / 2 {
            LARGE_BODY_COPIES
        } else {
            1
        }
    }

    /// Charges `amount` bytes as soon as the budget allows it; fails after `patience`.
    pub(crate) async fn reserve(
        &mut self,
        amount: usize,
        patience: Duration,
        scope: &RequestExtensions,
    ) -> Result<(), BudgetFull> {
        // A single caller never gets more than half.
        if amount > self.budget.limit / 2 {
            return self.add(amount, scope);
        }
        let budget = self.budget.clone();
        let taking = async {
            loop {
                let mut freed = pin!(budget.freed.notified());
                freed.as_mut().enable();
                if self.add(amount, scope).is_ok() {
                    return;
                }
                freed.await;
            }
        };
        timeout(patience, taking).await.map_err(|_| BudgetFull)
    }

    /// True if the message is charged to its caller as well as to the total.
    pub(crate) fn is_large(&self) -> bool {
        self.share.is_some()
    }

    /// Wraps bytes so that they are charged while any part of them is referenced.
    pub(crate) fn charge(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(ChargedBytes { bytes, _charge: self.clone() })
    }
}

#[cfg(feature = "http")]
struct ChargedBytes {
    bytes: Bytes,
    _charge: Arc<MessageCharge>,
}

#[cfg(feature = "http")]
impl AsRef<[u8]> for ChargedBytes {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for MessageCharge {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.amount, Ordering::AcqRel);
        if self.share.take().is_some() {
            self.budget.freed.notify_waiters();
        }
    }
}

/// Memory that a partially received message is charged for.
#[derive(Debug)]
pub(crate) struct PartialCharge {
    whole: MessageCharge,
    share: BudgetShare,
}

impl PartialCharge {
    /// Charges `size` bytes for a partially received message.
    pub(crate) fn new(
        budget: &Arc<MessageBudget>,
        size: usize,
        scope: &RequestExtensions,
    ) -> Result<Self, BudgetFull> {
        let share = budget.unfinished.take(&Caller::of(scope), size)?;
        let mut whole = MessageCharge::empty(budget);
        whole.add(size, scope)?;
        Ok(PartialCharge { whole, share })
    }

    /// Increases the charge to `size` bytes in all.
    pub(crate) fn grow_to(
        &mut self,
        size: usize,
        scope: &RequestExtensions,
    ) -> Result<(), BudgetFull> {
        let more = size.saturating_sub(self.share.amount());
        self.share.grow(more)?;
        self.whole.add(more, scope)
    }

    /// Completes the message; returns its charge until it is answered.
    pub(crate) fn complete(self) -> MessageCharge {
        self.whole
    }
}

#[cfg(test)]
mod tests {
    use wharf_model::Principal;

    use super::*;

    fn scope(name: &str) -> RequestExtensions {
        let mut scope = RequestExtensions::new();
        scope.insert(Principal::new(name));
        scope
    }

    #[test]
    fn one_callers_large_messages_leave_room_for_others() {
        let budget = MessageBudget::new(1 << 20, 1 << 20);
        let (mallory, alice) = (scope("mallory"), scope("alice"));
        let mut share = Vec::new();
        loop {
            let mut used = MessageCharge::empty(&budget);
            if used.add(100 << 10, &mallory).is_err() {
                break;
            }
            share.push(used);
        }
        assert_eq!(share.len(), 5);
        let mut other = MessageCharge::empty(&budget);
        assert!(other.add(100 << 10, &alice).is_ok());
        drop((share, other));
        assert_eq!((budget.used.load(Ordering::Acquire), budget.by_caller.total()), (0, 0));
    }

    #[test]
    fn partial_messages_are_charged_twice_until_complete() {
        let budget = MessageBudget::new(1 << 20, 100 << 10);
        let mallory = scope("mallory");
        let mut unfinished = PartialCharge::new(&budget, 10 << 10, &mallory).unwrap();
        assert!(unfinished.grow_to(50 << 10, &mallory).is_ok());
        assert!(unfinished.grow_to(51 << 10, &mallory).is_err());
        assert!(PartialCharge::new(&budget, 1, &mallory).is_err());
        assert!(PartialCharge::new(&budget, 20 << 10, &scope("alice")).is_ok());
        let used = unfinished.complete();
        assert_eq!((budget.unfinished.total(), used.amount), (0, 50 << 10));
        drop(used);
        assert_eq!(budget.used.load(Ordering::Acquire), 0);
    }
}
