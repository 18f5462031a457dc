//! Resource budgets: limits for all callers together, and fair shares for each.

use std::{
    collections::HashMap,
    sync::{Arc, MutexGuard},
};

use crate::{Caller, Lock};

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
    state: Lock<BudgetState>,
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
        Arc::new(Budget { most, state: Lock::default() })
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
        let mut held = self.share(caller);
        held.grow(amount)?;
        Ok(held)
    }

    /// Returns an empty share of `caller`, for [`grow`](BudgetShare::grow) and [`resize`](BudgetShare::resize).
    #[must_use]
    pub fn share(self: &Arc<Self>, caller: &Caller) -> BudgetShare {
        BudgetShare { budget: self.clone(), caller: caller.clone(), amount: 0 }
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
        self.lock().held_by(caller)
    }

    /// Returns true if `caller` holds more than is left for the others, after [`resize`](BudgetShare::resize).
    #[must_use]
    pub fn is_exceeded_by(&self, caller: &Caller) -> bool {
        let state = self.lock();
        state.held_by(caller) > self.most.saturating_sub(state.total)
    }

    fn lock(&self) -> MutexGuard<'_, BudgetState> {
        self.state.lock()
    }
}

impl BudgetState {
    fn held_by(&self, caller: &Caller) -> usize {
        self.callers.get(caller).copied().unwrap_or_default()
    }

    /// Adds units of `caller`; returns the units that it holds then.
    fn add(&mut self, caller: &Caller, more: usize) -> usize {
        self.total += more;
        match self.callers.get_mut(caller) {
            Some(held) => {
                *held += more;
                *held
            }
            None if more == 0 => 0,
            None => {
                self.callers.insert(caller.clone(), more);
                more
            }
        }
    }

    /// Removes units of `caller`; returns the units that it holds then.
    fn remove(&mut self, caller: &Caller, less: usize) -> usize {
        self.total -= less;
        let Some(held) = self.callers.get_mut(caller) else { return 0 };
        *held -= less;
        let left = *held;
        if left == 0 {
            self.callers.remove(caller);
        }
        left
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
        if state.held_by(&self.caller) + more > free {
            return Err(BudgetFull);
        }
        state.add(&self.caller, more);
        self.amount += more;
        Ok(())
    }

    /// Sets the number of units, even to more than the caller's share: for memory that is in use already. On an
    /// error the caller must free some.
    ///
    /// ```
    /// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
    /// use wharf::model::{Budget, BudgetFull, Caller};
    ///
    /// let budget = Budget::new(100);
    /// let mut kept = budget.share(&Caller::Local);
    /// assert_eq!(kept.resize(60), Err(BudgetFull));
    /// assert_eq!((budget.total(), budget.is_exceeded_by(&Caller::Local)), (60, true));
    /// assert_eq!(kept.resize(50), Ok(()));
    /// ```
    ///
    /// # Errors
    /// [`BudgetFull`] if the caller now holds more than is left for the others.
    pub fn resize(&mut self, amount: usize) -> Result<(), BudgetFull> {
        let mut state = self.budget.lock();
        let held = match amount.checked_sub(self.amount) {
            Some(more) => state.add(&self.caller, more),
            None => state.remove(&self.caller, self.amount - amount),
        };
        self.amount = amount;
        match held > self.budget.most.saturating_sub(state.total) {
            true => Err(BudgetFull),
            false => Ok(()),
        }
    }

    /// Releases all but `amount` units.
    pub fn shrink_to(&mut self, amount: usize) {
        let less = self.amount.saturating_sub(amount);
        if less == 0 {
            return;
        }
        self.amount -= less;
        self.budget.lock().remove(&self.caller, less);
    }

    /// Returns the caller that holds the units.
    #[must_use]
    pub fn caller(&self) -> &Caller {
        &self.caller
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
    fn a_single_caller_gets_half_and_a_new_caller_always_gets_a_share() {
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
    fn memory_in_use_is_counted_beyond_the_share() {
        let budget = Budget::new(100);
        let (mut mallory, mut alice) = (budget.share(&caller(1)), budget.share(&caller(2)));
        assert_eq!(mallory.resize(50), Ok(()));
        assert_eq!(mallory.resize(80), Err(BudgetFull));
        assert_eq!((alice.resize(10), alice.resize(11)), (Ok(()), Err(BudgetFull)));
        assert!(budget.is_exceeded_by(&caller(1)) && budget.is_exceeded_by(&caller(2)));
        assert_eq!(mallory.resize(40), Ok(()));
        assert!(!budget.is_exceeded_by(&caller(2)));
        assert_eq!(mallory.resize(200), Err(BudgetFull));
        assert!(budget.take(&caller(3), 1).is_err());
        drop((mallory, alice));
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
