//! Fair sharing of permits: no caller can take all of them.

use std::sync::Arc;

use wharf_model::{Budget, BudgetShare, Caller};

/// Number of permits. The first half is open to all callers and not counted by caller. Of the
/// second half, a caller may hold as many as are still free. So a quarter of all permits stays free
/// for the other callers.
///
/// Local callers ([`Caller::Local`]) may take every permit: they cannot be distinguished, and
/// usually there is only one of them.
pub(crate) struct CallerShares {
    /// Permits that are not counted by caller.
    pub(crate) open: usize,
    /// All permits.
    pub(crate) capacity: usize,
    counted: Arc<Budget>,
}

/// Share of the counted permits that a caller holds; `None` for a permit that is not counted.
pub(crate) type CallerShare = Option<BudgetShare>;

impl CallerShares {
    pub(crate) fn new(capacity: usize) -> Self {
        let open = capacity.div_ceil(2);
        // A budget keeps its last unit, so it has one more than there are permits.
        CallerShares { open, capacity, counted: Budget::new(capacity - open + 1) }
    }

    /// Claims a permit for `caller`, where `taken` permits are in use; `None` if it must wait.
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

    /// Returns whether no caller can get a counted permit.
    pub(crate) fn is_spent(&self) -> bool {
        self.counted.total() + 1 >= self.counted.most()
    }
}
