//! Middleware that limits the rate of calls per caller.

use std::{fmt, sync::Arc};

use wharf_model::{BoxFuture, Error, Method, Outcome, RateDecision, RateStore, Request};
use wharf_store::MemoryRates;

use crate::handler::now;
use crate::{
    limits::Rates,
    middleware::{Middleware, Next},
};

/// Key that unauthenticated calls are counted under. A transport sets it as a request extension,
/// from the session or the address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateKey(pub Arc<str>);

/// Limits the rate of calls per caller. A call without principal and key is not limited.
pub struct RateLimit {
    rates: Rates,
    store: Arc<dyn RateStore>,
}

impl RateLimit {
    /// Creates a limit that counts in memory.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        RateLimit { rates, store: Arc::new(MemoryRates::default()) }
    }

    /// Sets the store that counts.
    #[must_use]
    pub fn store(mut self, store: impl RateStore) -> Self {
        self.store = Arc::new(store);
        self
    }

    /// Takes a token from each bucket that counts the request. A decision that is a future takes
    /// its token only when it is awaited.
    fn take(&self, request: &Request) -> [RateDecision; 2] {
        let none = || RateDecision::Now(Ok(()));
        // A resumed subscription belongs to its session; it is not a message that could be
        // rejected.
        if request.since.is_some() {
            return [none(), none()];
        }
        let key = match (request.principal(), request.scope.get::<RateKey>()) {
            (Some(principal), _) => format!("principal\0{}", principal.id()),
            (None, Some(RateKey(key))) => format!("key\0{key}"),
            (None, None) => return [none(), none()],
        };
        let calls = self.store.take(&format!("calls\0{key}"), self.rates.calls);
        let tools = match (&calls, request.method) {
            (RateDecision::Now(Err(_)), _) => none(),
            (_, Method::CallTool | Method::Custom) => {
                self.store.take(&format!("tools\0{key}"), self.rates.tool_calls)
            }
            _ => none(),
        };
        [calls, tools]
    }
}

impl Middleware for RateLimit {
    fn call(&self, request: Request, next: Next) -> BoxFuture<Outcome> {
        match self.take(&request) {
            [RateDecision::Now(Ok(())), RateDecision::Now(Ok(()))] => next.run(request),
            [RateDecision::Now(Err(wait)), _] | [_, RateDecision::Now(Err(wait))] => {
                now(Error::rate_limited(wait).into())
            }
            takings => Box::pin(async move {
                for taking in takings {
                    if let Err(wait) = taking.taken().await {
                        return Error::rate_limited(wait).into();
                    }
                }
                next.run(request).await
            }),
        }
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("rates", &self.rates).finish_non_exhaustive()
    }
}
