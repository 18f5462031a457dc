//! Memory budget: bytes of the tasks that this process created, by caller.

use std::{
    collections::BTreeMap,
    sync::{Arc, MutexGuard},
    time::{Duration, Instant},
};

use wharf_model::{Budget, BudgetFull, BudgetShare, Caller, Error, Lock, LogThrottle};

/// Fixed overhead of a task in addition to its strings.
const TASK_OVERHEAD_BYTES: usize = 1024;
/// Retry delay sent to a caller whose tasks use up its share.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Counts the bytes of tasks from their creation until they expire. Tasks from before the start of
/// this process, and those of other processes, are not counted.
pub(crate) struct TaskMemoryBudget {
    bytes: Arc<Budget>,
    tasks: Lock<BTreeMap<String, TaskShare>>,
    refused: LogThrottle,
}

struct TaskShare {
    held: BudgetShare,
    expires: Instant,
}

impl TaskMemoryBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        let (bytes, refused) = (Budget::new(bytes), LogThrottle::default());
        TaskMemoryBudget { bytes, tasks: Lock::default(), refused }
    }

    /// Returns whether a caller has used up most of its share: then its tasks get no longer `ttl`
    /// than the default.
    pub(crate) fn is_nearly_full(&self, caller: &Caller) -> bool {
        let free = self.bytes.most().saturating_sub(self.bytes.total());
        self.bytes.held_by(caller) > free / 2
    }

    /// Reserves the bytes of a new task.
    pub(crate) fn reserve(
        &self,
        caller: &Caller,
        id: &str,
        bytes: usize,
        (now, expires): (Instant, Instant),
    ) -> Result<(), Error> {
        let bytes = bytes.saturating_add(TASK_OVERHEAD_BYTES);
        let held = self.bytes.take(caller, bytes).or_else(|BudgetFull| {
            self.remove_expired(now);
            self.bytes.take(caller, bytes)
        });
        let held = held.map_err(|BudgetFull| self.full_error())?;
        self.lock().insert(id.to_owned(), TaskShare { held, expires });
        Ok(())
    }

    /// Replaces the reserved size of a task that has ended by the size of its result. A task that
    /// was not created here is not counted.
    ///
    /// # Errors
    /// If the share of its caller is exceeded: then the stored result must be small.
    pub(crate) fn resize(&self, id: &str, bytes: usize) -> Result<(), Error> {
        let mut tasks = self.lock();
        let Some(TaskShare { held, .. }) = tasks.get_mut(id) else { return Ok(()) };
        held.shrink_to(bytes.saturating_add(TASK_OVERHEAD_BYTES));
        let more = bytes.saturating_add(TASK_OVERHEAD_BYTES) - held.amount();
        let grown = held.grow(more);
        drop(tasks);
        grown.map_err(|BudgetFull| self.full_error())
    }

    /// Releases the bytes of a task that is not kept.
    pub(crate) fn release(&self, id: &str) {
        let gone = self.lock().remove(id);
        drop(gone);
    }

    /// Releases the bytes of expired tasks.
    pub(crate) fn remove_expired(&self, now: Instant) {
        self.lock().retain(|_, kept| kept.expires > now);
    }

    fn full_error(&self) -> Error {
        if let Some(suppressed) = self.refused.due() {
            let (bytes, most) = (self.bytes.total(), self.bytes.most());
            tracing::warn!(
                bytes,
                most,
                suppressed,
                "rejected a task: the share of its caller is used up"
            );
        }
        let text = "Your tasks take too much room: wait until some of them expire";
        Error::overloaded(RETRY_AFTER).with_message(text)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, TaskShare>> {
        self.tasks.lock()
    }
}
