//! The replies to one batch, joined into one array.

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicUsize, Ordering},
};

use crate::server::{jsonl::call::Shared, limits::message_memory::Taken};

/// Collects the replies to one batch and sends them when its last holder is gone, so that a member
/// that is cancelled, or that has no reply, holds nothing up.
pub(crate) struct Batch {
    shared: Arc<Shared>,
    replies: Mutex<Vec<u8>>,
    held: AtomicUsize,
    /// What a large message takes of the endpoint's budget: any of its calls keeps all of it.
    _taken: Option<Taken>,
}

impl Batch {
    pub(crate) fn new(shared: Arc<Shared>, taken: Option<Taken>) -> Arc<Self> {
        let (replies, held) = (Mutex::new(vec![b'[']), AtomicUsize::new(0));
        Arc::new(Batch { shared, replies, held, _taken: taken })
    }

    /// Counts the message of `length` bytes as held for as long as one of its calls is under way.
    pub(crate) fn hold(&self, length: usize) {
        self.held.store(length, Ordering::Release);
        self.shared.flight.hold(length);
    }

    /// Whether the replies so far are as much as any message may be.
    pub(crate) fn is_full(&self) -> bool {
        self.replies().len() > self.shared.host.limits.message
    }

    /// Adds one reply.
    pub(crate) fn add(&self, reply: &[u8]) {
        let mut replies = self.replies();
        if replies.len() > 1 {
            replies.push(b',');
        }
        replies.extend_from_slice(reply);
    }

    fn replies(&self) -> MutexGuard<'_, Vec<u8>> {
        self.replies.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.shared.flight.release(*self.held.get_mut());
        let replies = self.replies.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A batch without a single reply is answered with nothing.
        if replies.len() > 1 {
            replies.extend_from_slice(b"]\n");
            self.shared.output.push(replies);
        }
    }
}
