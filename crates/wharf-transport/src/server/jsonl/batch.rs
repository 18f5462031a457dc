//! Replies to one batch, joined into one array.

use std::{
    mem,
    sync::{
        Arc, MutexGuard,
        atomic::{AtomicUsize, Ordering},
    },
};
use wharf_model::Lock;

use crate::server::{jsonl::call::ConnectionState, limits::message_memory::MessageCharge};

/// Collects the replies to a batch, and sends them when its last holder has released it. A member that is
/// cancelled, or that has no reply, therefore does not delay the others.
pub(crate) struct BatchReplies {
    shared: Arc<ConnectionState>,
    replies: Lock<Vec<u8>>,
    held: AtomicUsize,
    /// Memory of a large message: any of its calls keeps all of it.
    _charge: Option<MessageCharge>,
}

impl BatchReplies {
    pub(crate) fn new(shared: Arc<ConnectionState>, charge: Option<MessageCharge>) -> Arc<Self> {
        let (replies, held) = (Lock::new(vec![b'[']), AtomicUsize::new(0));
        Arc::new(BatchReplies { shared, replies, held, _charge: charge })
    }

    /// Counts the message of `length` bytes as held while one of its calls is in flight.
    pub(crate) fn hold(&self, length: usize) {
        self.held.store(length, Ordering::Release);
        self.shared.in_flight.hold(length);
    }

    /// True if the replies so far exceed the maximum message length.
    pub(crate) fn is_full(&self) -> bool {
        self.replies().len() > self.shared.context.max_message()
    }

    /// Adds a reply.
    pub(crate) fn add(&self, reply: &[u8]) {
        let mut replies = self.replies();
        if replies.len() > 1 {
            replies.push(b',');
        }
        replies.extend_from_slice(reply);
    }

    /// Gives up one share of the batch. The last one sends the replies.
    pub(crate) fn release(self: Arc<Self>) {
        if let Some(mut last) = Arc::into_inner(self) {
            last.finish();
        }
    }

    /// Sends the replies, once.
    fn finish(&mut self) {
        self.shared.in_flight.release(mem::take(self.held.get_mut()));
        let replies = self.replies.get_mut();
        let mut replies = mem::take(replies);
        // A batch without replies has no response.
        if replies.len() > 1 {
            replies.extend_from_slice(b"]\n");
            self.shared.output.push(&replies);
        }
    }

    fn replies(&self) -> MutexGuard<'_, Vec<u8>> {
        self.replies.lock()
    }
}

/// The other replies are also sent if a holder was dropped before it released its share, such as one whose handler
/// panicked.
impl Drop for BatchReplies {
    fn drop(&mut self) {
        self.finish();
    }
}
