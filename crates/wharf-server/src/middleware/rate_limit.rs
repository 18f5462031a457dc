use std::{fmt, sync::Arc};

use wharf_model::{BoxFuture, Error, Method, Outbox, Outcome, RateStore, Request};

use crate::{
    function::now,
    limits::Rates,
    memory::MemoryRates,
    middleware::{Middleware, Next},
};

/// Whom a call counts for when nobody authenticated the caller: a transport puts the session or
/// the address here, into the request's scope.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RateKey(pub Arc<str>);

/// Limits how often each caller may call. A call that counts for nobody is not limited.
pub struct RateLimit {
    rates: Rates,
    store: Arc<dyn RateStore>,
}

impl RateLimit {
    /// Counts in memory.
    #[must_use]
    pub fn new(rates: Rates) -> Self {
        RateLimit { rates, store: Arc::new(MemoryRates::default()) }
    }

    /// Counts in `store`.
    #[must_use]
    pub fn store(mut self, store: Arc<dyn RateStore>) -> Self {
        self.store = store;
        self
    }

    fn take(&self, request: &Request) -> Result<(), Error> {
        // A listen that begins late is its session's own, and no message that could be refused.
        if request.since.is_some() {
            return Ok(());
        }
        let key = match (request.principal(), request.scope.get::<RateKey>()) {
            (Some(principal), _) => format!("principal\0{}", principal.id()),
            (None, Some(RateKey(key))) => format!("key\0{key}"),
            (None, None) => return Ok(()),
        };
        let take = |key: &str, rate| self.store.take(key, rate).map_err(Error::rate_limited);
        take(&format!("calls\0{key}"), self.rates.calls)?;
        match request.method {
            Method::CallTool => take(&format!("tools\0{key}"), self.rates.tool_calls),
            _ => Ok(()),
        }
    }
}

impl Middleware for RateLimit {
    fn call(&self, request: Request, outbox: Outbox, next: Next) -> BoxFuture<Outcome> {
        match self.take(&request) {
            Ok(()) => next.run(request, outbox),
            Err(error) => now(error.into()),
        }
    }
}

impl fmt::Debug for RateLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimit").field("rates", &self.rates).finish_non_exhaustive()
    }
}
