//! The memory of messages that come in, until they are answered.

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
use wharf_model::{Budget, BudgetFull, BudgetShare, Caller, LogThrottle, RequestExtensions};

/// What a slow client must at least send a second once its time of grace is over.
pub(crate) const MIN_BYTES_PER_SECOND: u64 = 64 << 10;
/// From this length on a message counts for its caller too, not only for all callers together. A shorter one does only
/// while all messages take more than half of the room.
pub(crate) const LARGE_MESSAGE_BYTES: usize = 64 << 10;
/// How often a large body counts: as it came, as the arguments that are read from it, and as the reply.
#[cfg(feature = "http")]
const LARGE_BODY_COPIES: usize = 3;

/// What all messages of an endpoint take that are being read or answered.
#[derive(Debug)]
pub(crate) struct MessageBudget {
    used: AtomicUsize,
    limit: usize,
    /// Half of `limit`.
    half: usize,
    /// What messages take that count for their callers.
    by_caller: Arc<Budget>,
    /// What messages on lines and WebSockets take that have not ended.
    unfinished: Arc<Budget>,
    /// Notified when a message is gone that counted for its caller.
    freed: Notify,
}

impl MessageBudget {
    /// Room for `limit` bytes, of which messages that have not ended may take `unfinished` on lines.
    pub(crate) fn new(limit: usize, unfinished: usize) -> Arc<Self> {
        let (by_caller, unfinished) = (Budget::new(limit), Budget::new(unfinished));
        let (used, half, freed) = (AtomicUsize::new(0), limit / 2, Notify::new());
        Arc::new(MessageBudget { used, limit, half, by_caller, unfinished, freed })
    }
}

/// What one message takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct MessageCharge {
    budget: Arc<MessageBudget>,
    amount: usize,
    /// Its share of its caller's, if it counts for that. Boxed, because most messages are small.
    share: Option<Box<BudgetShare>>,
}

impl MessageCharge {
    pub(crate) fn empty(budget: &Arc<MessageBudget>) -> Self {
        MessageCharge { budget: budget.clone(), amount: 0, share: None }
    }

    /// Takes `size` bytes more, for the caller of this scope.
    pub(crate) fn add(&mut self, size: usize, scope: &RequestExtensions) -> Result<(), BudgetFull> {
        self.grow(size, scope).map_err(full)
    }

    /// The same; whose room is used up if there is none. Then nothing has changed.
    fn grow(&mut self, size: usize, scope: &RequestExtensions) -> Result<(), &'static str> {
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

    /// Counts the message for its caller, where all messages take `all` bytes.
    #[cold]
    fn charge_caller(&mut self, all: usize, scope: &RequestExtensions) -> Result<(), &'static str> {
        let free = self.budget.limit.checked_sub(all).ok_or("all callers")?;
        let (budget, caller) = (&self.budget.by_caller, Caller::of(scope));
        let before = self.share.as_ref().map_or(0, |share| share.amount());
        match &mut self.share {
            Some(share) => share.grow(self.amount - before),
            None => {
                budget.take(&caller, self.amount).map(|share| self.share = Some(Box::new(share)))
            }
        }
        .map_err(|BudgetFull| "one caller")?;
        // Small messages that no caller is charged for leave less for each.
        if budget.held_by(&caller) <= free {
            return Ok(());
        }
        match &mut self.share {
            Some(share) if before > 0 => share.shrink_to(before),
            share => *share = None,
        }
        Err("one caller")
    }
}

/// For bodies of HTTP requests.
#[cfg(feature = "http")]
impl MessageCharge {
    /// How often a large body counts where none is longer than `limit`: once, where it would find no room else.
    pub(crate) fn copies(&self, limit: usize) -> usize {
        if limit.saturating_mul(LARGE_BODY_COPIES) <= self.budget.limit / 2 {
            LARGE_BODY_COPIES
        } else {
            1
        }
    }

    /// Takes `amount` bytes as soon as there is room for them, if that is in time.
    pub(crate) async fn reserve(
        &mut self,
        amount: usize,
        patience: Duration,
        scope: &RequestExtensions,
    ) -> Result<(), BudgetFull> {
        // No caller ever gets more than half.
        if amount > self.budget.limit / 2 {
            return self.add(amount, scope);
        }
        let (budget, mut whose) = (self.budget.clone(), "");
        let taking = async {
            loop {
                let mut freed = pin!(budget.freed.notified());
                freed.as_mut().enable();
                match self.grow(amount, scope) {
                    Ok(()) => return,
                    Err(full) => whose = full,
                }
                freed.await;
            }
        };
        let used = timeout(patience, taking).await;
        used.map_err(|_| full(whose))
    }

    /// Whether it counts for its caller, not only for all callers together.
    pub(crate) fn is_large(&self) -> bool {
        self.share.is_some()
    }

    /// Bytes that count for as long as there are any of them.
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

/// What a message on a line takes that has not ended.
#[derive(Debug)]
pub(crate) struct PartialCharge {
    whole: MessageCharge,
    share: BudgetShare,
}

impl PartialCharge {
    /// Takes `size` bytes for a message that has begun.
    pub(crate) fn new(
        budget: &Arc<MessageBudget>,
        size: usize,
        scope: &RequestExtensions,
    ) -> Result<Self, BudgetFull> {
        let share = budget.unfinished.take(&Caller::of(scope), size);
        let share = share.map_err(|BudgetFull| full("unfinished messages"))?;
        let mut whole = MessageCharge::empty(budget);
        whole.add(size, scope)?;
        Ok(PartialCharge { whole, share })
    }

    /// Takes so much more that it is `size` bytes in all.
    pub(crate) fn grow_to(
        &mut self,
        size: usize,
        scope: &RequestExtensions,
    ) -> Result<(), BudgetFull> {
        let more = size.saturating_sub(self.share.amount());
        self.share.grow(more).map_err(|BudgetFull| full("unfinished messages"))?;
        self.whole.add(more, scope)
    }

    /// The message has ended; what it takes until it is answered.
    pub(crate) fn complete(self) -> MessageCharge {
        self.whole
    }
}

fn full(whose: &'static str) -> BudgetFull {
    static LINE: LogThrottle = LogThrottle::new();
    if LINE.is_due() {
        tracing::warn!(whose, "a message was refused: there is no room for more bytes");
    }
    BudgetFull
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
    fn what_is_unfinished_counts_twice_until_it_ends() {
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
