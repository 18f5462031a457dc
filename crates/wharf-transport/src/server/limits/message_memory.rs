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
pub(crate) const RATE: u64 = 64 << 10;
/// From this length on a message counts for its caller too, not only for all callers together. A shorter one does only
/// while all messages take more than half of the room.
pub(crate) const LARGE: usize = 64 << 10;
/// How often a large body counts: as it came, as the arguments that are read from it, and as the reply.
#[cfg(feature = "http")]
const COPIES: usize = 3;

/// What all messages of an endpoint take that are being read or answered.
#[derive(Debug)]
pub(crate) struct Room {
    taken: AtomicUsize,
    most: usize,
    /// Half of `most`.
    half: usize,
    /// What messages take that count for their callers.
    counted: Arc<Budget>,
    /// What messages on lines and WebSockets take that have not ended.
    unfinished: Arc<Budget>,
    /// Notified when a message is gone that counted for its caller.
    freed: Notify,
}

impl Room {
    /// Room for `most` bytes, of which messages that have not ended may take `unfinished` on lines.
    pub(crate) fn new(most: usize, unfinished: usize) -> Arc<Self> {
        let (counted, unfinished) = (Budget::new(most), Budget::new(unfinished));
        let (taken, half, freed) = (AtomicUsize::new(0), most / 2, Notify::new());
        Arc::new(Room { taken, most, half, counted, unfinished, freed })
    }
}

/// What one message takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    room: Arc<Room>,
    amount: usize,
    /// Its share of its caller's, if it counts for that. Boxed, because most messages are small.
    held: Option<Box<BudgetShare>>,
}

impl Taken {
    pub(crate) fn nothing(room: &Arc<Room>) -> Self {
        Taken { room: room.clone(), amount: 0, held: None }
    }

    /// Takes `size` bytes more, for the caller of this scope.
    pub(crate) fn more(
        &mut self,
        size: usize,
        scope: &RequestExtensions,
    ) -> Result<(), BudgetFull> {
        self.grow(size, scope).map_err(full)
    }

    /// The same; whose room is used up if there is none. Then nothing has changed.
    fn grow(&mut self, size: usize, scope: &RequestExtensions) -> Result<(), &'static str> {
        let before = self.room.taken.fetch_add(size, Ordering::AcqRel);
        self.amount += size;
        let all = before + size;
        let grown = match self.amount <= LARGE && all <= self.room.half {
            true => Ok(()),
            false => self.hold(all, scope),
        };
        if grown.is_err() {
            self.amount -= size;
            self.room.taken.fetch_sub(size, Ordering::AcqRel);
        }
        grown
    }

    /// Counts the message for its caller, where all messages take `all` bytes.
    #[cold]
    fn hold(&mut self, all: usize, scope: &RequestExtensions) -> Result<(), &'static str> {
        let free = self.room.most.checked_sub(all).ok_or("all callers")?;
        let (budget, caller) = (&self.room.counted, Caller::of(scope));
        let before = self.held.as_ref().map_or(0, |held| held.amount());
        match &mut self.held {
            Some(held) => held.grow(self.amount - before),
            None => budget.take(&caller, self.amount).map(|held| self.held = Some(Box::new(held))),
        }
        .map_err(|BudgetFull| "one caller")?;
        // Small messages that no caller is charged for leave less for each.
        if budget.held_by(&caller) <= free {
            return Ok(());
        }
        match &mut self.held {
            Some(held) if before > 0 => held.shrink_to(before),
            held => *held = None,
        }
        Err("one caller")
    }
}

/// For bodies of HTTP requests.
#[cfg(feature = "http")]
impl Taken {
    /// How often a large body counts where none is longer than `limit`: once, where it would find no room else.
    pub(crate) fn copies(&self, limit: usize) -> usize {
        if limit.saturating_mul(COPIES) <= self.room.most / 2 { COPIES } else { 1 }
    }

    /// Takes `amount` bytes as soon as there is room for them, if that is in time.
    pub(crate) async fn wait_for(
        &mut self,
        amount: usize,
        patience: Duration,
        scope: &RequestExtensions,
    ) -> Result<(), BudgetFull> {
        // No caller ever gets more than half.
        if amount > self.room.most / 2 {
            return self.more(amount, scope);
        }
        let (room, mut whose) = (self.room.clone(), "");
        let taking = async {
            loop {
                let mut freed = pin!(room.freed.notified());
                freed.as_mut().enable();
                match self.grow(amount, scope) {
                    Ok(()) => return,
                    Err(full) => whose = full,
                }
                freed.await;
            }
        };
        let taken = timeout(patience, taking).await;
        taken.map_err(|_| full(whose))
    }

    /// Whether it counts for its caller, not only for all callers together.
    pub(crate) fn is_large(&self) -> bool {
        self.held.is_some()
    }

    /// Bytes that count for as long as there are any of them.
    pub(crate) fn charge(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _taken: self.clone() })
    }
}

#[cfg(feature = "http")]
struct Charged {
    bytes: Bytes,
    _taken: Arc<Taken>,
}

#[cfg(feature = "http")]
impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.amount, Ordering::AcqRel);
        if self.held.take().is_some() {
            self.room.freed.notify_waiters();
        }
    }
}

/// What a message on a line takes that has not ended.
#[derive(Debug)]
pub(crate) struct Unfinished {
    whole: Taken,
    held: BudgetShare,
}

impl Unfinished {
    /// Takes `size` bytes for a message that has begun.
    pub(crate) fn new(
        room: &Arc<Room>,
        size: usize,
        scope: &RequestExtensions,
    ) -> Result<Self, BudgetFull> {
        let held = room.unfinished.take(&Caller::of(scope), size);
        let held = held.map_err(|BudgetFull| full("unfinished messages"))?;
        let mut whole = Taken::nothing(room);
        whole.more(size, scope)?;
        Ok(Unfinished { whole, held })
    }

    /// Takes so much more that it is `size` bytes in all.
    pub(crate) fn grow_to(
        &mut self,
        size: usize,
        scope: &RequestExtensions,
    ) -> Result<(), BudgetFull> {
        let more = size.saturating_sub(self.held.amount());
        self.held.grow(more).map_err(|BudgetFull| full("unfinished messages"))?;
        self.whole.more(more, scope)
    }

    /// The message has ended; what it takes until it is answered.
    pub(crate) fn ended(self) -> Taken {
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
        let room = Room::new(1 << 20, 1 << 20);
        let (mallory, alice) = (scope("mallory"), scope("alice"));
        let mut held = Vec::new();
        loop {
            let mut taken = Taken::nothing(&room);
            if taken.more(100 << 10, &mallory).is_err() {
                break;
            }
            held.push(taken);
        }
        assert_eq!(held.len(), 5);
        let mut other = Taken::nothing(&room);
        assert!(other.more(100 << 10, &alice).is_ok());
        drop((held, other));
        assert_eq!((room.taken.load(Ordering::Acquire), room.counted.total()), (0, 0));
    }

    #[test]
    fn what_is_unfinished_counts_twice_until_it_ends() {
        let room = Room::new(1 << 20, 100 << 10);
        let mallory = scope("mallory");
        let mut unfinished = Unfinished::new(&room, 10 << 10, &mallory).unwrap();
        assert!(unfinished.grow_to(50 << 10, &mallory).is_ok());
        assert!(unfinished.grow_to(51 << 10, &mallory).is_err());
        assert!(Unfinished::new(&room, 1, &mallory).is_err());
        assert!(Unfinished::new(&room, 20 << 10, &scope("alice")).is_ok());
        let taken = unfinished.ended();
        assert_eq!((room.unfinished.total(), taken.amount), (0, 50 << 10));
        drop(taken);
        assert_eq!(room.taken.load(Ordering::Acquire), 0);
    }
}
