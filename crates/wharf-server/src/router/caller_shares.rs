//! Places that all callers share, of which none can take all.

use std::sync::Arc;

use wharf_model::{Budget, BudgetShare, Caller};

/// A number of places. The first half is open to all callers and not counted by caller; of the
/// second half a caller may hold as many as are still free, so a quarter of all places stays for
/// the others, however many one caller wants.
///
/// Callers on this machine ([`Caller::Local`]) may take every place: they cannot be told apart, and
/// most often there is only one of them.
pub(crate) struct CallerShares {
    /// Places that need no counting by caller.
    pub(crate) open: usize,
    /// All places.
    pub(crate) capacity: usize,
    counted: Arc<Budget>,
}

/// What a caller holds of the counted places: `None` in a place that is not counted.
pub(crate) type CallerShare = Option<BudgetShare>;

impl CallerShares {
    pub(crate) fn new(capacity: usize) -> Self {
        let open = capacity.div_ceil(2);
        // A budget keeps its last unit, so it has one more than there are places.
        CallerShares { open, capacity, counted: Budget::new(capacity - open + 1) }
    }

    /// A place for `caller`, where `taken` of all places are; `None` if it must wait.
    pub(crate) fn claim(&self, taken: usize, caller: &Caller) -> Option<CallerShare> {
        if taken < self.open {
            return Some(None);
        }
        match caller {
            _ if taken >= self.capacity => None,
            Caller::Local => Some(None),
            _ => self.counted.take(caller, 1).ok().map(Some),
        }
    }

    /// Whether no caller can get a counted place.
    pub(crate) fn is_spent(&self) -> bool {
        self.counted.total() + 1 >= self.counted.most()
    }
}
