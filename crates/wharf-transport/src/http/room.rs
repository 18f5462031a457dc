//! The memory that the bodies of requests take, until they are answered.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Notify, time::timeout};
use wharf_model::{Budget, Caller, Held, Scope};

use super::read::Unread;

/// From how many bytes on a body counts for as long as anything holds it, and under its caller.
pub(super) const LARGE: usize = 16 << 10;
/// How often such a body counts: as it came, as the arguments that are read from it, and as the reply.
const COPIES: usize = 3;

/// The memory that all bodies of an endpoint take.
#[derive(Debug)]
pub(crate) struct Room {
    taken: AtomicUsize,
    most: usize,
    /// What each caller has of it, for large bodies.
    shares: Arc<Budget>,
    freed: Notify,
}

impl Room {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let (taken, shares, freed) = (AtomicUsize::new(0), Budget::new(most), Notify::new());
        Arc::new(Room { taken, most, shares, freed })
    }

    fn take(&self, size: usize) -> Result<(), Unread> {
        let before = self.taken.fetch_add(size, Ordering::AcqRel);
        if before + size <= self.most {
            return Ok(());
        }
        self.taken.fetch_sub(size, Ordering::AcqRel);
        Err(Unread::NoRoom)
    }
}

/// The memory that one body takes, until it is dropped.
#[derive(Debug)]
pub(crate) struct Taken {
    room: Arc<Room>,
    size: usize,
    large: Option<Arc<Share>>,
}

/// What a large body takes.
#[derive(Debug)]
pub(crate) struct Share {
    room: Arc<Room>,
    /// For how long a body there is room.
    length: usize,
    size: usize,
    held: Option<Held>,
}

impl Taken {
    pub(crate) fn nothing(room: &Arc<Room>) -> Self {
        Taken { room: room.clone(), size: 0, large: None }
    }

    /// Waits until there is room for a large body of `length` bytes from this caller.
    pub(super) async fn wait_for(
        &mut self,
        length: usize,
        patience: Duration,
        scope: &Scope,
    ) -> Result<(), Unread> {
        if length > self.room.most {
            return Err(Unread::NoRoom);
        }
        let (room, caller) = (&self.room, Caller::of(scope));
        let share = async {
            loop {
                let mut freed = pin!(room.freed.notified());
                freed.as_mut().enable();
                match Share::take(room, &caller, length) {
                    Ok(share) => return share,
                    Err(_) => freed.await,
                }
            }
        };
        let share = timeout(patience, share).await.map_err(|_| Unread::NoRoom)?;
        self.large = Some(share);
        Ok(())
    }

    /// Takes the room for a body that has come to `length` bytes.
    pub(super) fn fill(&mut self, length: usize, scope: &Scope) -> Result<(), Unread> {
        match &self.large {
            Some(large) if large.length >= length => Ok(()),
            None if length <= LARGE => {
                self.room.take(length - self.size)?;
                self.size = length;
                Ok(())
            }
            // Its length was not declared. Its memory grows by doubling, and so does its share.
            _ => {
                self.release();
                self.large = None;
                let length = length.next_power_of_two().min(length.max(self.room.most / 4));
                self.large = Some(Share::take(&self.room, &Caller::of(scope), length)?);
                Ok(())
            }
        }
    }

    /// Lets a large body count for as long as anything holds a part of it.
    pub(super) fn charge(&self, body: Bytes) -> Bytes {
        match &self.large {
            Some(share) => share.charge(body),
            None => body,
        }
    }

    /// What a large body takes, for its reply.
    pub(crate) fn into_share(mut self) -> Option<Arc<Share>> {
        self.large.take()
    }

    fn release(&mut self) {
        if self.size > 0 {
            self.room.taken.fetch_sub(self.size, Ordering::AcqRel);
            self.size = 0;
        }
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.release();
    }
}

impl Share {
    fn take(room: &Arc<Room>, caller: &Caller, length: usize) -> Result<Arc<Self>, Unread> {
        // One body may always come in where there is no other, however long it is.
        let half = room.most / 2;
        let size = length.saturating_mul(COPIES).min(half).max(length);
        let held = room.shares.take(caller, size.min(half)).map_err(|_| Unread::NoRoom)?;
        room.take(size)?;
        Ok(Arc::new(Share { room: room.clone(), length, size, held: Some(held) }))
    }

    /// Bytes that keep the share for as long as there are any of them.
    pub(crate) fn charge(self: &Arc<Self>, bytes: Bytes) -> Bytes {
        Bytes::from_owner(Charged { bytes, _share: self.clone() })
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.room.taken.fetch_sub(self.size, Ordering::AcqRel);
        self.held = None;
        self.room.freed.notify_waiters();
    }
}

struct Charged {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Charged {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}
