//! Original requests of tasks without a free slot: unlike requests that are rebuilt from a record, they have the
//! extensions of outer layers.

use std::{collections::VecDeque, mem, time::Instant};

use wharf_model::Request;

use crate::tasks::{scheduler::TaskScheduler, storage::record::TaskRecord};

/// Maximum number of original requests kept for tasks without a free slot.
const MAX_ORIGINAL_CALLS: usize = 1024;

/// Original request of a task without a free slot, kept until the task expires.
pub(super) struct OriginalCall {
    id: String,
    request: Request,
    expires: Instant,
}

impl TaskScheduler {
    /// Keeps the original request of a task without a free slot. If there are too many, the oldest
    /// is dropped and rebuilt from its record.
    pub(crate) fn keep_original(&self, record: &TaskRecord, request: Request, expires: Instant) {
        let gone = {
            let mut state = self.lock();
            let id = record.id.clone();
            state.waiting_owners.insert(id.clone(), record.owner.clone());
            state.originals.push_back(OriginalCall { id, request, expires });
            let full = state.originals.len() > MAX_ORIGINAL_CALLS;
            if full { state.originals.pop_front() } else { None }
        };
        drop(gone);
    }

    pub(super) fn take_original(&self, id: &str) -> Option<Request> {
        let mut state = self.lock();
        let index = state.originals.iter().position(|call| call.id == id)?;
        state.originals.remove(index).map(|call| call.request)
    }

    /// Drops the original requests of tasks that expired while they were queued.
    pub(super) fn remove_expired(&self, now: Instant) {
        self.memory.remove_expired(now);
        let mut state = self.lock();
        let (gone, kept) = mem::take(&mut state.originals)
            .into_iter()
            .partition::<VecDeque<_>, _>(|call| call.expires <= now);
        state.originals = kept;
        drop(state);
        drop(gone);
    }
}
