//! The replies to one batch, joined into one array.

use std::sync::{Arc, Mutex, PoisonError};

use crate::call::Shared;

/// Collects the replies to one batch and sends them when its last holder is gone, so that a member
/// that is cancelled, or that has no reply, holds nothing up.
pub(crate) struct Batch {
    shared: Arc<Shared>,
    replies: Mutex<Vec<u8>>,
}

impl Batch {
    pub(crate) fn new(shared: Arc<Shared>) -> Arc<Self> {
        Arc::new(Batch { shared, replies: Mutex::new(vec![b'[']) })
    }

    /// Adds one reply.
    pub(crate) fn add(&self, reply: &[u8]) {
        let mut replies = self.replies.lock().unwrap_or_else(PoisonError::into_inner);
        if replies.len() > 1 {
            replies.push(b',');
        }
        replies.extend_from_slice(reply);
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        let replies = self.replies.get_mut().unwrap_or_else(PoisonError::into_inner);
        // A batch without a single reply is answered with nothing.
        if replies.len() > 1 {
            replies.extend_from_slice(b"]\n");
            self.shared.output.push(replies);
        }
    }
}
