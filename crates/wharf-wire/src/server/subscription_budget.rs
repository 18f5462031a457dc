//! Memory budget for the resource subscriptions of legacy sessions.

use std::time::Duration;

use wharf_model::{BudgetFull, BudgetShare, Caller, Error, SubscriptionFilter};

use crate::ServerProtocol;

/// Bytes of memory for a subscription beside its URI.
const OVERHEAD: usize = 64;
/// Retry delay for a refused subscription.
const RETRY_AFTER: Duration = Duration::from_secs(60);

/// Share of one session in the subscription budget of all sessions.
#[derive(Debug)]
pub(crate) struct SubscriptionShare {
    caller: Caller,
    /// Allocated with the first subscription: most sessions have none.
    held: Option<Box<BudgetShare>>,
}

impl Default for SubscriptionShare {
    fn default() -> Self {
        SubscriptionShare::of(Caller::Local)
    }
}

impl SubscriptionShare {
    pub(crate) fn of(caller: Caller) -> Self {
        SubscriptionShare { caller, held: None }
    }

    /// Adjusts the share to the URIs in `filter` and to `added`.
    ///
    /// # Errors
    /// If the budget of the caller is exhausted: then `added` must be refused.
    pub(crate) fn count(
        &mut self,
        wire: &ServerProtocol,
        filter: &SubscriptionFilter,
        added: Option<&str>,
    ) -> Result<(), Error> {
        let uris = filter.uris.iter().map(String::as_str).chain(added);
        let bytes = uris.map(|uri| uri.len() + OVERHEAD).sum();
        let counted = match &mut self.held {
            Some(held) => {
                held.shrink_to(bytes);
                held.grow(bytes - held.amount())
            }
            None if bytes == 0 => Ok(()),
            none => wire.subscriptions.take(&self.caller, bytes).map(|held| {
                *none = Some(Box::new(held));
            }),
        };
        counted.map_err(|BudgetFull| {
            let text =
                "Too many resources in the subscriptions of this caller: unsubscribe from some";
            Error::overloaded(RETRY_AFTER).with_message(text)
        })
    }
}
