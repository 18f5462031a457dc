//! Limits of subscriptions: their number, by caller, and the memory of their filters.

use std::sync::Arc;

use wharf_model::{
    Budget, BudgetFull, BudgetShare, Caller, LiveSubscriptionFilter, Lock, LogThrottle, Request,
    SubscriptionFilter,
};

use crate::{
    limits::CallLimits,
    router::caller_shares::{CallerShare, CallerShares},
};

/// Bytes of a filter entry besides its text.
const ENTRY_OVERHEAD_BYTES: usize = 64;

/// Counts subscriptions, and the bytes of their filters.
pub(crate) struct SubscriptionLimits {
    permits: CallerShares,
    open: Lock<usize>,
    most_uris: usize,
    most_bytes: usize,
    bytes: Arc<Budget>,
    trim: LogThrottle,
    refused: LogThrottle,
}

/// Permit of one subscription; released on drop.
pub(crate) struct SubscriptionPermit {
    limits: Arc<SubscriptionLimits>,
    caller: Caller,
    _share: CallerShare,
    _bytes: Option<BudgetShare>,
}

impl SubscriptionLimits {
    pub(crate) fn new(limits: &CallLimits) -> Arc<Self> {
        Arc::new(SubscriptionLimits {
            permits: CallerShares::new(limits.listens),
            open: Lock::default(),
            most_uris: limits.subscriptions,
            most_bytes: limits.subscription_bytes,
            bytes: Budget::new(limits.subscription_total),
            trim: LogThrottle::default(),
            refused: LogThrottle::default(),
        })
    }

    /// Admits a subscription, and removes from its filter what exceeds the limits; `None` if there
    /// is no room for it.
    pub(crate) fn admit(
        self: &Arc<Self>,
        request: &Request,
        filter: &LiveSubscriptionFilter,
    ) -> Option<SubscriptionPermit> {
        let permit = self.try_admit(request, filter);
        if permit.is_none()
            && let Some(suppressed) = self.refused.due()
        {
            let bytes = self.bytes.total();
            tracing::warn!(
                bytes,
                suppressed,
                "rejecting subscriptions: there are too many, or their filters are too large"
            );
        }
        permit
    }

    fn try_admit(
        self: &Arc<Self>,
        request: &Request,
        filter: &LiveSubscriptionFilter,
    ) -> Option<SubscriptionPermit> {
        let caller = Caller::of(&request.scope);
        let mut open = self.open.lock();
        let _share = self.permits.claim(*open, &caller)?;
        *open += 1;
        drop(open);
        let mut permit = SubscriptionPermit { limits: self.clone(), caller, _share, _bytes: None };
        let caller = &permit.caller;
        permit._bytes = match filter.read(|filter| self.take(caller, filter)) {
            Ok(held) => Some(held),
            // A resumed subscription was acknowledged with this filter, so nothing can be left out.
            Err(BudgetFull) if request.since.is_some() => return None,
            Err(BudgetFull) => filter.edit(|filter| self.trim(caller, filter)),
        };
        Some(permit)
    }

    /// Reserves the bytes of a filter that is within its own limits.
    fn take(
        self: &Arc<Self>,
        caller: &Caller,
        filter: &SubscriptionFilter,
    ) -> Result<BudgetShare, BudgetFull> {
        let texts = text_bytes(filter);
        if filter.uris.len() > self.most_uris || texts > self.most_bytes {
            return Err(BudgetFull);
        }
        let count = filter.uris.len() + filter.tasks.len();
        self.bytes.take(caller, texts + count * ENTRY_OVERHEAD_BYTES)
    }

    /// Removes entries of the filter until it fits.
    fn trim(
        self: &Arc<Self>,
        caller: &Caller,
        filter: &mut SubscriptionFilter,
    ) -> Option<BudgetShare> {
        if let Some(suppressed) = self.trim.due() {
            tracing::warn!(
                suppressed,
                "accepted a subscription in part: its filter exceeds the limits"
            );
        }
        let mut texts = text_bytes(filter);
        while filter.uris.len() > self.most_uris || texts > self.most_bytes {
            let left_out = filter.uris.pop_last().or_else(|| filter.tasks.pop_last());
            texts -= left_out?.len();
        }
        loop {
            match self.take(caller, filter) {
                Ok(held) => return Some(held),
                Err(BudgetFull) if filter.uris.is_empty() => filter.tasks.clear(),
                Err(BudgetFull) => {
                    let keep = filter.uris.len() / 2;
                    while filter.uris.len() > keep {
                        filter.uris.pop_last();
                    }
                }
            }
            if filter.uris.is_empty() && filter.tasks.is_empty() {
                return None;
            }
        }
    }
}

fn text_bytes(filter: &SubscriptionFilter) -> usize {
    filter.uris.iter().chain(&filter.tasks).map(String::len).sum()
}

impl SubscriptionPermit {
    /// Reserves bytes for a pending notification; `None` if the caller's share is used up.
    pub(crate) fn reserve(&self, bytes: usize) -> Option<BudgetShare> {
        let held = self.limits.bytes.take(&self.caller, bytes).ok();
        if held.is_none()
            && let Some(suppressed) = self.limits.trim.due()
        {
            tracing::warn!(
                bytes,
                suppressed,
                "dropped a notification: too many are pending for its caller"
            );
        }
        held
    }
}

impl Drop for SubscriptionPermit {
    fn drop(&mut self) {
        *self.limits.open.lock() -= 1;
    }
}
