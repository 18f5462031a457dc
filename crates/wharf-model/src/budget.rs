//! Resource budgets: limits for all callers together, and fair shares for each.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use crate::Caller;

/// Bounded resource that callers share: bytes, sessions, connections, subscriptions.
///
/// A caller may hold as much as is still free (the "dynamic threshold" of network switches): alone it gets half
/// of the budget, two callers get a third each, and a new caller finds half of the rest. No caller can exhaust
/// the budget, however many requests it sends; very many callers together can.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{Budget, BudgetFull, Caller};
///
/// let (alice, bob) = (Caller::Principal("alice".into()), Caller::Principal("bob".into()));
/// let bytes = Budget::new(100);
/// let held = bytes.take(&alice, 50)?;
/// assert_eq!(bytes.take(&alice, 1).unwrap_err(), BudgetFull);
/// assert!(bytes.take(&bob, 25).is_ok());
/// drop(held);
/// assert_eq!(bytes.total(), 0);
/// # Ok::<(), BudgetFull>(())
/// ```
#[derive(Debug)]
pub struct Budget {
    most: usize,
    state: Mutex<BudgetState>,
}

#[derive(Debug, Default)]
struct BudgetState {
    total: usize,
    callers: HashMap<Caller, usize>,
}

/// Error of [`Budget::take`]: the budget has no units left for this caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BudgetFull;

impl Budget {
    /// Creates a budget of `most` units.
    #[must_use]
    pub fn new(most: usize) -> Arc<Self> {
        Arc::new(Budget { most, state: Mutex::default() })
    }

    /// Takes `amount` units for `caller`, until the returned share is dropped.
    ///
    /// # Errors
    /// [`BudgetFull`] if the caller would then hold more than is left for the others.
    pub fn take(
        self: &Arc<Self>,
        caller: &Caller,
        amount: usize,
    ) -> Result<BudgetShare, BudgetFull> {
        let mut held = BudgetShare { budget: self.clone(), caller: caller.clone(), amount: 0 };
        held.grow(amount)?;
        Ok(held)
    }

    /// Returns the units that all callers hold.
    #[must_use]
    pub fn total(&self) -> usize {
        self.lock().total
    }

    /// Returns the maximum that all callers may hold together.
    #[must_use]
    pub fn most(&self) -> usize {
        self.most
    }

    /// Returns the units that this caller holds.
    #[must_use]
    pub fn held_by(&self, caller: &Caller) -> usize {
        self.lock().callers.get(caller).copied().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Units that one caller holds of a [`Budget`]; released on drop.
#[derive(Debug)]
pub struct BudgetShare {
    budget: Arc<Budget>,
    caller: Caller,
    amount: usize,
}

impl BudgetShare {
    /// Takes `more` units for the same caller.
    ///
    /// # Errors
    /// [`BudgetFull`] as from [`Budget::take`]; the share stays unchanged.
    pub fn grow(&mut self, more: usize) -> Result<(), BudgetFull> {
        if more == 0 {
            return Ok(());
        }
        let mut state = self.budget.lock();
        let total = state.total.checked_add(more).ok_or(BudgetFull)?;
        let free = self.budget.most.checked_sub(total).ok_or(BudgetFull)?;
        let held = state.callers.get(&self.caller).copied().unwrap_or_default() + more;
        if held > free {
            return Err(BudgetFull);
        }
        match state.callers.get_mut(&self.caller) {
            Some(known) => *known = held,
            None => drop(state.callers.insert(self.caller.clone(), held)),
        }
        state.total = total;
        self.amount += more;
        Ok(())
    }

    /// Releases all but `amount` units.
    pub fn shrink_to(&mut self, amount: usize) {
        let less = self.amount.saturating_sub(amount);
        if less == 0 {
            return;
        }
        self.amount -= less;
        let mut state = self.budget.lock();
        state.total -= less;
        let held = state.callers.get_mut(&self.caller);
        if held.is_some_and(|held| {
            *held -= less;
            *held == 0
        }) {
            state.callers.remove(&self.caller);
        }
    }

    /// Returns the number of units.
    #[must_use]
    pub fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for BudgetShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn caller(number: u8) -> Caller {
        Caller::from(std::net::IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)))
    }

    #[test]
    fn a_caller_alone_gets_half_and_a_newcomer_always_finds_room() {
        let budget = Budget::new(1000);
        let mut held = Vec::new();
        for number in 0..5 {
            while let Ok(unit) = budget.take(&caller(number), 1) {
                held.push(unit);
            }
        }
        let shares: Vec<_> = (0..6).map(|number| budget.held_by(&caller(number))).collect();
        assert_eq!(shares[0], 500);
        assert!(shares[1] >= 250 && shares[2] >= 125, "{shares:?}");
        assert!(budget.take(&caller(9), 1).is_ok());
        drop(held);
        assert_eq!(budget.total(), 0);
        assert!(budget.lock().callers.is_empty());
    }

    #[test]
    fn a_share_grows_and_shrinks_and_a_refusal_changes_nothing() {
        let budget = Budget::new(100);
        let mut held = budget.take(&caller(1), 10).unwrap();
        held.grow(30).unwrap();
        assert_eq!(held.grow(20), Err(BudgetFull));
        assert_eq!(held.grow(usize::MAX), Err(BudgetFull));
        assert_eq!((held.amount(), budget.total()), (40, 40));
        held.shrink_to(15);
        assert_eq!((held.amount(), budget.held_by(&caller(1))), (15, 15));
        held.shrink_to(50);
        assert_eq!(budget.total(), 15);
    }
}
