//! How many bytes the tasks take that this process made, by caller.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use wharf_model::{Budget, BudgetFull, BudgetShare, Caller, Error, LogThrottle};

/// What a task takes beside its texts.
const TASK_OVERHEAD_BYTES: usize = 1024;
/// When a caller may try again whose tasks leave no room.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Counts the bytes of tasks from their beginning until they expire. What was in the store before this
/// process began, and what other processes make, is not counted here.
pub(crate) struct TaskMemoryBudget {
    bytes: Arc<Budget>,
    tasks: Mutex<BTreeMap<String, TaskShare>>,
    refused: LogThrottle,
}

struct TaskShare {
    held: BudgetShare,
    expires: Instant,
}

impl TaskMemoryBudget {
    pub(crate) fn new(bytes: usize) -> Self {
        let (bytes, refused) = (Budget::new(bytes), LogThrottle::default());
        TaskMemoryBudget { bytes, tasks: Mutex::default(), refused }
    }

    /// Whether a caller has used up most of what it may have: then its tasks are not kept for longer
    /// than usual.
    pub(crate) fn is_nearly_full(&self, caller: &Caller) -> bool {
        let free = self.bytes.most().saturating_sub(self.bytes.total());
        self.bytes.held_by(caller) > free / 2
    }

    /// Takes the bytes of a new task.
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

    /// A task has ended, and what is kept of it has so many bytes from now on. A task that was not
    /// made here is not counted.
    ///
    /// # Errors
    /// If its caller may not have that many: then what is kept of it must be small.
    pub(crate) fn resize(&self, id: &str, bytes: usize) -> Result<(), Error> {
        let mut tasks = self.lock();
        let Some(TaskShare { held, .. }) = tasks.get_mut(id) else { return Ok(()) };
        held.shrink_to(bytes.saturating_add(TASK_OVERHEAD_BYTES));
        let more = bytes.saturating_add(TASK_OVERHEAD_BYTES) - held.amount();
        let grown = held.grow(more);
        drop(tasks);
        grown.map_err(|BudgetFull| self.full_error())
    }

    /// Gives back what a task took that is not kept at all.
    pub(crate) fn release(&self, id: &str) {
        let gone = self.lock().remove(id);
        drop(gone);
    }

    /// Gives back what tasks took that have expired.
    pub(crate) fn remove_expired(&self, now: Instant) {
        self.lock().retain(|_, kept| kept.expires > now);
    }

    fn full_error(&self) -> Error {
        if self.refused.is_due() {
            let (bytes, most) = (self.bytes.total(), self.bytes.most());
            tracing::warn!(bytes, most, "tasks of a caller are refused: they would take too much");
        }
        let text = "Your tasks take too much room: wait until some of them expire";
        Error::overloaded(RETRY_AFTER).with_message(text)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, TaskShare>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
