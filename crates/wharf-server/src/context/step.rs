//! Steps: effects that a retry does not repeat.

use std::{
    cell::Cell,
    fmt,
    future::poll_fn,
    panic::resume_unwind,
    pin::{Pin, pin},
    task::{Context, Poll},
};

use serde::{Serialize, de::DeserializeOwned};
use serde_json::value::{RawValue, to_raw_value};
use wharf_model::{Error, ErrorKind, InputMode};

use crate::{
    context::{Ctx, finite_numbers::check_numbers},
    tasks::storage::StepSaveResult,
};

/// True if a result that cannot be recorded panics. Not in the unit tests below, which test release builds.
const PANICS_UNRECORDED: bool = cfg!(all(debug_assertions, not(test)));

thread_local! {
    /// Id of the call whose step is being polled on this thread.
    static STEP_OF: Cell<usize> = const { Cell::new(0) };
}

/// Error of a one-time step that did not run.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum StepError {
    /// The step ran before, for the same request state: a client sent that state twice (replay).
    Spent,
    /// The nonce store failed.
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

impl std::error::Error for StepError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            StepError::Store(error) => Some(error),
            StepError::Spent => None,
        }
    }
}

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

/// # Steps
///
/// If the client answers requests with a retry, the handler runs again from the top. Effects before
/// the request would be repeated, unless they are in a step.
///
/// A task runs again from the top when its process is lost. The result of a step is in the server's
/// store before the step returns: a step that returned once returns the same result on every later
/// run, and does not run again. A step that was interrupted runs again, and only the external
/// system can tell whether its effect happened. So a handler runs at least once, and the result of
/// a step is recorded exactly once.
impl Ctx {
    /// Runs `future`, and records its result under `name` for the retries of this call.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; pub mod server { pub use super::*; } }
    /// use wharf::{Ctx, ToolError};
    ///
    /// # async fn reserve_seat() -> u32 { 12 }
    /// # async fn charge(_: u32) -> Result<String, std::io::Error> { Ok("paid".into()) }
    /// # async fn confirmed(_: &Ctx) -> Result<bool, wharf::server::ClientRequestError> { Ok(true) }
    /// async fn book(ctx: Ctx) -> Result<String, ToolError> {
    ///     // Runs once, even if the client answers the next request with a retry.
    ///     let seat = ctx.step("reserve", reserve_seat()).await;
    ///     if !confirmed(&ctx).await? {
    ///         return Ok("Not booked.".into());
    ///     }
    ///     // `step` would record an `Err` too, and return it on every retry.
    ///     Ok(ctx.try_step("charge", charge(seat)).await?)
    /// }
    /// # let _ = wharf::Tool::new("book", book);
    /// ```
    ///
    /// On a retry the recorded result is returned without running `future`. If the result is a
    /// `Result`, an `Err` is recorded like any other value; [`try_step`](Ctx::try_step) records
    /// success only. Steps of the same name in one run are distinguished by counting, so give
    /// concurrent steps different names. The result travels, encrypted, through the client, and
    /// should be small. Send client requests before a step, not inside it: there they end with
    /// [`ClientRequestError::Invalid`](crate::ClientRequestError::Invalid).
    ///
    /// # Results that cannot be recorded
    ///
    /// A result must survive a round trip through JSON. A map whose keys are not strings or numbers
    /// does not, nor does a number that is `NaN` or infinite, wherever it is in the result. Such a
    /// result is not recorded, and an error is logged. A debug build
    /// panics too, even in a call that needs no retry, so that every test of the handler finds it. A
    /// release build returns the result: its effect has already happened, and a panic would fail the
    /// calls that never retry as well.
    ///
    /// A client can send the same request state twice (replay), and then a later step runs twice.
    /// If that matters, use [`step_once`](Ctx::step_once).
    pub async fn step<T>(&self, name: impl Into<String>, future: impl Future<Output = T>) -> T
    where
        T: Serialize + DeserializeOwned,
    {
        let name = self.run().number_step(name.into());
        if let Some(result) = self.recorded(&name) {
            return result;
        }
        let _in_flight = StepInFlight::new(self);
        let result = self.run_in_step(future).await;
        self.record(&name, result).await
    }

    /// A [`step`](Ctx::step) that records success only: after an error, a retry runs it again. The
    /// error can be of any type.
    ///
    /// ```
    /// # mod wharf { pub use {wharf_model::*, wharf_server::*}; }
    /// use wharf::{Ctx, ToolError};
    ///
    /// async fn save(ctx: Ctx) -> Result<&'static str, ToolError> {
    ///     ctx.try_step("save", async { std::fs::write("note.txt", "Buy milk.") }).await?;
    ///     Ok("Saved.")
    /// }
    /// # let _ = wharf::Tool::new("save", save);
    /// ```
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
        if let Some(result) = self.recorded(&name) {
            return Ok(result);
        }
        let _in_flight = StepInFlight::new(self);
        let result = self.run_in_step(future).await?;
        Ok(self.record(&name, result).await)
    }

    /// A [`step`](Ctx::step) that runs at most once, even if the client sends the same request
    /// state twice.
    ///
    /// It first claims the state's nonce in the server's nonce store. A claim without a result (the
    /// server stopped in between) stays: at most once, not exactly once. A call without request
    /// state is a new call, and may run the step again.
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
        if let Some(result) = self.recorded(&name) {
            return Ok(result);
        }
        let _in_flight = StepInFlight::new(self);
        self.claim(&name).await?;
        let result = self.run_in_step(future).await;
        Ok(self.record(&name, result).await)
    }

    async fn claim(&self, name: &str) -> Result<(), StepError> {
        let nonce = match self.task_run() {
            Some(task_run) => Some(task_run.nonce().await.map_err(StepError::Store)?),
            None => self.nonce(),
        };
        // Without request state there is nothing to replay, and the call will not become a task.
        let Some((nonce, ttl)) = nonce else { return Ok(()) };
        let claim = self.server().nonces.claim(&format!("{nonce}/{name}"), ttl);
        match claim.await {
            Ok(true) => Ok(()),
            Ok(false) => Err(StepError::Spent),
            Err(error) => Err(StepError::Store(error)),
        }
    }

    fn recorded<T: DeserializeOwned>(&self, name: &str) -> Option<T> {
        // Copied, so that deserialization runs without the lock.
        let json = match self.task_run() {
            Some(task_run) => task_run.step(name)?,
            None => self.run().steps.get(name)?.clone(),
        };
        let parsed = serde_json::from_str(json.get());
        parsed.map_err(|error| report_unrecorded(name, "deserialized", &error)).ok()
    }

    /// Records a result, and returns the one that counts: another run of the task may have recorded
    /// one before.
    async fn record<T: Serialize + DeserializeOwned>(&self, name: &str, result: T) -> T {
        let is_recorded = self.promotion().is_some() || self.input_mode() == InputMode::Suspend;
        if !is_recorded && !PANICS_UNRECORDED {
            return result;
        }
        let json = match check_numbers(&result).and_then(|()| to_raw_value(&result)) {
            Ok(json) => json,
            Err(error) => {
                report_unrecorded(name, "serialized", &error);
                return result;
            }
        };
        if let Err(error) = serde_json::from_str::<T>(json.get()) {
            report_unrecorded(name, "deserialized", &error);
            return result;
        }
        if !is_recorded {
            return result;
        }
        let earlier = self.save(name, json).await;
        earlier.and_then(|json| serde_json::from_str(json.get()).ok()).unwrap_or(result)
    }

    /// Saves a result for the rest of the call, or in the task's store; returns the one that was
    /// there before. If another process has the task, this never returns.
    async fn save(&self, name: &str, json: Box<RawValue>) -> Option<Box<RawValue>> {
        {
            let mut run = self.run();
            if !run.is_task {
                run.steps.insert(name.into(), json);
                return None;
            }
        }
        let task_run = self.task_run()?;
        match self.or_closed(task_run.save_step(name, &json)).await {
            Some(StepSaveResult::Saved) => return None,
            Some(StepSaveResult::AlreadySaved(earlier)) => return Some(earlier),
            Some(StepSaveResult::Lost) | None => {}
        }
        // An async handler is dropped here; a thread cannot be dropped and must unwind.
        self.outbox().closed().await;
        resume_unwind(Box::new("the task belongs to another run now"))
    }

    /// Awaits `future`; `None` if the call ends before.
    pub(crate) async fn or_closed<T>(&self, future: impl Future<Output = T>) -> Option<T> {
        let (mut future, mut closed) = (pin!(future), pin!(self.outbox().closed()));
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => closed.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    /// Polls the future of a step, so that a client request inside it is distinguished from one
    /// beside it.
    async fn run_in_step<T>(&self, future: impl Future<Output = T>) -> T {
        let mut future = pin!(future);
        poll_fn(|cx| self.poll_in_step(future.as_mut(), cx)).await
    }

    fn poll_in_step<F: Future>(
        &self,
        future: Pin<&mut F>,
        cx: &mut Context<'_>,
    ) -> Poll<F::Output> {
        struct RestoreStep(usize);
        impl Drop for RestoreStep {
            fn drop(&mut self) {
                STEP_OF.set(self.0);
            }
        }
        let _restore = RestoreStep(STEP_OF.replace(self.id()));
        future.poll(cx)
    }

    pub(crate) fn is_in_step(&self) -> bool {
        STEP_OF.get() == self.id()
    }
}

/// Reports a result that does not survive a round trip through JSON: a retry would repeat its step.
/// See [`Ctx::step`].
fn report_unrecorded(step: &str, operation: &str, error: &serde_json::Error) {
    tracing::error!(step, %error, "cannot record step: its result cannot be {operation} as JSON");
    if PANICS_UNRECORDED {
        panic!(
            "the result of step `{step}` cannot be {operation} as JSON, so a retry would repeat the \
             step: {error}"
        );
    }
}

/// Step in flight: while there is one, the call is not suspended.
struct StepInFlight<'c>(&'c Ctx);

impl<'c> StepInFlight<'c> {
    fn new(ctx: &'c Ctx) -> Self {
        ctx.run().in_flight += 1;
        StepInFlight(ctx)
    }
}

impl Drop for StepInFlight<'_> {
    fn drop(&mut self) {
        self.0.run().in_flight -= 1;
        self.0.wake_driver();
    }
}

#[cfg(test)]
mod tests;
