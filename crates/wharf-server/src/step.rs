//! Effects that a retry does not repeat.

use std::{
    cell::Cell,
    fmt,
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use serde::{Serialize, de::DeserializeOwned};
use wharf_model::{Asks, Error, ErrorKind};

use crate::ctx::Ctx;

thread_local! {
    /// The call whose step is being polled on this thread.
    static STEP_OF: Cell<usize> = const { Cell::new(0) };
}

/// Why a one-time step did not run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StepError {
    /// It ran before, for the same state: somebody sent that state twice.
    Spent,
    /// The store of claims failed.
    Store(Error),
}

impl fmt::Display for StepError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepError::Spent => f.write_str("this was already done for the same request state"),
            StepError::Store(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StepError {}

impl From<StepError> for Error {
    fn from(error: StepError) -> Self {
        match error {
            StepError::Spent => {
                Error::new(ErrorKind::RefusedInvalidInput).with_message(error.to_string())
            }
            StepError::Store(error) => error,
        }
    }
}

/// # Effects that happen once
///
/// Where a client meets asks by calling again, the handler runs again from the top. What it did
/// before the ask would happen twice, unless it is in a step.
impl Ctx {
    /// Runs `future`, and remembers its result under `name` for the re-runs of this call.
    ///
    /// On a re-run the result comes back without running `future`. A second step of the same name
    /// in one run is a step of its own, told apart by counting; so give steps that run side by
    /// side different names. The result travels, sealed, through the client, and should be small.
    /// A result that cannot be written as JSON, or read back, is not remembered. Asks belong
    /// before a step, not inside it: there they end with [`AskError::Invalid`](crate::AskError).
    ///
    /// Whoever has a sealed state can send it twice, and then a step after it runs twice. Where
    /// that matters, use [`step_once`](Ctx::step_once).
    pub async fn step<T>(&self, name: impl Into<String>, future: impl Future<Output = T>) -> T
    where
        T: Serialize + DeserializeOwned,
    {
        let name = self.run().number_step(name.into());
        if let Some(result) = self.recall(&name) {
            return result;
        }
        let _in_flight = InFlight::new(self);
        let result = self.inside(future).await;
        self.record(&name, &result);
        result
    }

    /// A [`step`](Ctx::step) that remembers success only, so the error can be of any type.
    ///
    /// # Errors
    /// Those of `future`.
    pub async fn try_step<T, E>(
        &self,
        name: impl Into<String>,
        future: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E>
    where
        T: Serialize + DeserializeOwned,
    {
        let name = self.run().number_step(name.into());
        if let Some(result) = self.recall(&name) {
            return Ok(result);
        }
        let _in_flight = InFlight::new(self);
        let result = self.inside(future).await?;
        self.record(&name, &result);
        Ok(result)
    }

    /// A [`step`](Ctx::step) that runs at most once, even if the client sends the same state twice.
    ///
    /// It claims the state's nonce in the server's nonce store first. A claim without a result
    /// (the server stopped in between) stays: at most once, not exactly once. A call without any
    /// state is a call of its own, and may run the step again.
    ///
    /// # Errors
    /// [`StepError::Spent`] if it ran before, [`StepError::Store`] if the store failed.
    pub async fn step_once<T>(
        &self,
        name: impl Into<String>,
        future: impl Future<Output = T>,
    ) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
    {
        let name = self.run().number_step(name.into());
        if let Some(result) = self.recall(&name) {
            return Ok(result);
        }
        let _in_flight = InFlight::new(self);
        self.claim(&name).await?;
        let result = self.inside(future).await;
        self.record(&name, &result);
        Ok(result)
    }

    async fn claim(&self, name: &str) -> Result<(), StepError> {
        // Without a state that came back, nobody can send it twice.
        let Some((nonce, ttl)) = self.nonce() else { return Ok(()) };
        let claim = self.core().nonces.claim(&format!("{nonce}/{name}"), ttl);
        match claim.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(StepError::Spent),
            Err(error) => Err(StepError::Store(error)),
        }
    }

    fn recall<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        // Copied out: the type's own code runs without the lock.
        let json = self.run().steps.get(name)?.clone();
        serde_json::from_str(json.get()).ok()
    }

    fn record(&self, name: &str, result: &impl Serialize) {
        if self.asks() == Asks::Suspend
            && let Ok(json) = serde_json::value::to_raw_value(result)
        {
            self.run().steps.insert(name.into(), json);
        }
    }

    /// Polls a step's future, so that an ask inside it can be told from one beside it.
    async fn inside<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|cx| self.poll_inside(future.as_mut(), cx)).await
    }

    fn poll_inside<F: Future>(&self, future: Pin<&mut F>, cx: &mut Context<'_>) -> Poll<F::Output> {
        struct Outside(usize);
        impl Drop for Outside {
            fn drop(&mut self) {
                STEP_OF.set(self.0);
            }
        }
        let _outside = Outside(STEP_OF.replace(self.id()));
        future.poll(cx)
    }

    pub(crate) fn is_in_step(&self) -> bool {
        STEP_OF.get() == self.id()
    }
}

/// A step under way: as long as there is one, the call is not suspended.
struct InFlight<'c>(&'c Ctx);

impl<'c> InFlight<'c> {
    fn new(ctx: &'c Ctx) -> Self {
        ctx.run().in_flight += 1;
        InFlight(ctx)
    }
}

impl Drop for InFlight<'_> {
    fn drop(&mut self) {
        self.0.run().in_flight -= 1;
        self.0.wake_driver();
    }
}
