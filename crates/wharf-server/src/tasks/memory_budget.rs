//! How many bytes the tasks take that this process made, by caller.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use wharf_model::{Budget, BudgetFull, BudgetShare, Caller, Error, LogThrottle};

/// What a task takes beside its texts.
const OVERHEAD: usize = 1024;
/// When a caller may try again whose tasks leave no room.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Counts the bytes of tasks from their beginning until they expire. What was in the store before this
/// process began, and what other processes make, is not counted here.
pub(crate) struct Room {
    bytes: Arc<Budget>,
    tasks: Mutex<BTreeMap<String, Kept>>,
    refused: LogThrottle,
}

struct Kept {
    held: BudgetShare,
    expires: Instant,
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Self {
        let (bytes, refused) = (Budget::new(bytes), LogThrottle::default());
        Room { bytes, tasks: Mutex::default(), refused }
    }

    /// Whether a caller has used up most of what it may have: then its tasks are not kept for longer
    /// than usual.
    pub(crate) fn is_tight(&self, caller: &Caller) -> bool {
        let free = self.bytes.most().saturating_sub(self.bytes.total());
        self.bytes.held_by(caller) > free / 2
    }

    /// Takes the bytes of a new task.
    pub(crate) fn take(
        &self,
        caller: &Caller,
        id: &str,
        bytes: usize,
        (now, expires): (Instant, Instant),
    ) -> Result<(), Error> {
        let bytes = bytes.saturating_add(OVERHEAD);
        let held = self.bytes.take(caller, bytes).or_else(|BudgetFull| {
            self.forget_expired(now);
            self.bytes.take(caller, bytes)
        });
        let held = held.map_err(|BudgetFull| self.full())?;
        self.lock().insert(id.to_owned(), Kept { held, expires });
        Ok(())
    }

    /// A task has ended, and what is kept of it has so many bytes from now on. A task that was not
    /// made here is not counted.
    ///
    /// # Errors
    /// If its caller may not have that many: then what is kept of it must be small.
    pub(crate) fn end(&self, id: &str, bytes: usize) -> Result<(), Error> {
        let mut tasks = self.lock();
        let Some(Kept { held, .. }) = tasks.get_mut(id) else { return Ok(()) };
        held.shrink_to(bytes.saturating_add(OVERHEAD));
        let more = bytes.saturating_add(OVERHEAD) - held.amount();
        let grown = held.grow(more);
        drop(tasks);
        grown.map_err(|BudgetFull| self.full())
    }

    /// Gives back what a task took that is not kept at all.
    pub(crate) fn forget(&self, id: &str) {
        let gone = self.lock().remove(id);
        drop(gone);
    }

    /// Gives back what tasks took that have expired.
    pub(crate) fn forget_expired(&self, now: Instant) {
        self.lock().retain(|_, kept| kept.expires > now);
    }

    fn full(&self) -> Error {
        if self.refused.is_due() {
            let (bytes, most) = (self.bytes.total(), self.bytes.most());
            tracing::warn!(bytes, most, "tasks of a caller are refused: they would take too much");
        }
        let text = "Your tasks take too much room: wait until some of them expire";
        Error::overloaded(RETRY_AFTER).with_message(text)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Kept>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
