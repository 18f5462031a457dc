//! Work that many callers need and one of them does.

use std::{
    pin::pin,
    sync::{Arc, MutexGuard},
};
use wharf_model::Lock;

use tokio::sync::Notify;

/// Runs work once for concurrent callers, who share its error: opening a connection, renewing a token.
///
/// The result itself is where `done` finds it. A failure is shared with the callers who waited for it; a
/// later caller tries again. Clones share the state.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// use wharf_connect::SingleFlight;
///
/// let opening = SingleFlight::<String>::default();
/// let opened = opening.run(|| None, async { Ok("connection") }).await;
/// assert_eq!(opened, Ok("connection"));
/// let found = opening.run(|| Some(Ok("connection")), async { unreachable!() }).await;
/// assert_eq!(found, opened);
/// # }
/// ```
#[derive(Debug)]
pub struct SingleFlight<E>(Arc<FlightState<E>>);

#[derive(Debug)]
struct FlightState<E> {
    attempts: Lock<FlightAttempts<E>>,
    /// Notified at the end of each attempt. Not a queue: a caller that is not polled must not keep the others
    /// waiting.
    ended: Notify,
}

#[derive(Debug)]
struct FlightAttempts<E> {
    is_running: bool,
    /// Number of attempts that ended.
    number: u64,
    /// Error of the last attempt.
    failure: Option<E>,
}

/// Turn of the caller whose work runs. Dropping it lets the next one begin.
struct FlightTurn<E>(Arc<FlightState<E>>);

impl<E> Default for SingleFlight<E> {
    fn default() -> Self {
        let attempts = FlightAttempts { is_running: false, number: 0, failure: None };
        SingleFlight(Arc::new(FlightState { attempts: Lock::new(attempts), ended: Notify::new() }))
    }
}

impl<E> Clone for SingleFlight<E> {
    fn clone(&self) -> Self {
        SingleFlight(self.0.clone())
    }
}

impl<E: Clone> SingleFlight<E> {
    /// Waits for the work of another caller, if it runs. Then returns what `done` returns, the error of an
    /// attempt that ended meanwhile, or the result of `work`.
    pub async fn run<T>(
        &self,
        done: impl FnOnce() -> Option<Result<T, E>>,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        let before = self.0.lock().number;
        match self.wait().await.begin(before, done) {
            Ok(turn) => turn.record(work.await),
            Err(known) => known,
        }
    }

    /// The same, with the future of `work` in a task of its own, which continues when its caller gives up. A
    /// caller that gives up while it waits leaves no work behind. None if the work panicked or the runtime has
    /// ended.
    pub async fn run_in_task<T, W>(
        &self,
        done: impl FnOnce() -> Option<Result<T, E>>,
        work: impl FnOnce() -> W,
    ) -> Option<Result<T, E>>
    where
        T: Send + 'static,
        E: Send + 'static,
        W: Future<Output = Result<T, E>> + Send + 'static,
    {
        let before = self.0.lock().number;
        match self.wait().await.begin(before, done) {
            Ok(turn) => {
                let work = work();
                let running = tokio::spawn(async move { turn.record(work.await) });
                running.await.ok()
            }
            Err(known) => Some(known),
        }
    }

    /// Completes when no work is running.
    pub async fn idle(&self) {
        drop(self.wait().await);
    }

    /// Waits for the turn.
    async fn wait(&self) -> FlightTurn<E> {
        loop {
            let mut ended = pin!(self.0.ended.notified());
            // Before the check, so that an end between here and the wait is not missed.
            ended.as_mut().enable();
            if !std::mem::replace(&mut self.0.lock().is_running, true) {
                return FlightTurn(self.0.clone());
            }
            ended.await;
        }
    }
}

impl<E> FlightState<E> {
    fn lock(&self) -> MutexGuard<'_, FlightAttempts<E>> {
        self.attempts.lock()
    }
}

impl<E: Clone> FlightTurn<E> {
    /// Returns the turn; the result instead, if there is one since attempt `before`.
    fn begin<T>(
        self,
        before: u64,
        done: impl FnOnce() -> Option<Result<T, E>>,
    ) -> Result<Self, Result<T, E>> {
        if let Some(result) = done() {
            return Err(result);
        }
        let failure = {
            let attempts = self.0.lock();
            attempts.failure.clone().filter(|_| attempts.number != before)
        };
        failure.map_or(Ok(self), |error| Err(Err(error)))
    }

    /// Records the end of an attempt, for the callers who wait.
    fn record<T>(self, result: Result<T, E>) -> Result<T, E> {
        let mut attempts = self.0.lock();
        attempts.number += 1;
        attempts.failure = result.as_ref().err().cloned();
        drop(attempts);
        result
    }
}

impl<E> Drop for FlightTurn<E> {
    fn drop(&mut self) {
        self.0.lock().is_running = false;
        self.0.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::{
        sync::atomic::{AtomicU32, Ordering},
        time::Duration,
    };

    use tokio::{
        task::{JoinSet, yield_now},
        time::sleep,
    };

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_share_one_attempt_and_its_error() {
        let flight = SingleFlight::<String>::default();
        let (value, times) = (Arc::new(Lock::new(None)), Arc::new(AtomicU32::new(0)));
        let run = |outcome: Result<u32, String>| {
            let (flight, done, value, times) =
                (flight.clone(), value.clone(), value.clone(), times.clone());
            async move {
                let work = async move {
                    times.fetch_add(1, Ordering::SeqCst);
                    sleep(Duration::from_secs(1)).await;
                    if let Ok(number) = outcome {
                        *value.lock() = Some(number);
                    }
                    outcome
                };
                flight.run(move || done.lock().map(Ok), work).await
            }
        };
        let mut failing = JoinSet::new();
        (0..9).for_each(|_| drop(failing.spawn(run(Err("down".to_owned())))));
        assert!(failing.join_all().await.iter().all(|it| *it == Err("down".to_owned())));
        assert_eq!(times.load(Ordering::SeqCst), 1);
        // A later caller tries again, and the callers beside it get its value.
        let mut opening = JoinSet::new();
        (0..9).for_each(|number| drop(opening.spawn(run(Ok(number)))));
        assert_eq!(opening.join_all().await, vec![Ok(0); 9]);
        assert_eq!(times.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn an_abandoned_attempt_is_repeated_by_the_next_caller() {
        let flight = SingleFlight::<()>::default();
        let first = flight.clone();
        let given_up = tokio::spawn(async move {
            first.run(|| None::<Result<u32, ()>>, std::future::pending()).await
        });
        yield_now().await;
        let next = flight.run(|| None, async { Ok(7) });
        given_up.abort();
        assert_eq!(next.await, Ok(7));
        flight.idle().await;
    }

    #[tokio::test(start_paused = true)]
    async fn work_in_a_task_outlives_its_caller_and_ends_without_waiters() {
        let flight = SingleFlight::<()>::default();
        let times = Arc::new(AtomicU32::new(0));
        let work = || {
            let times = times.clone();
            async move {
                sleep(Duration::from_secs(1)).await;
                times.fetch_add(1, Ordering::SeqCst);
                Ok(())
            }
        };
        let never = || None::<Result<(), ()>>;
        let soon = Duration::from_millis(1);
        for _ in 0..2 {
            let caller = flight.run_in_task(never, work);
            assert!(tokio::time::timeout(soon, caller).await.is_err(), "the caller gives up");
        }
        flight.idle().await;
        sleep(Duration::from_secs(5)).await;
        assert_eq!(times.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_waiter_that_is_not_polled_keeps_no_other_waiting() {
        let flight = SingleFlight::<()>::default();
        let never = || None::<Result<u32, ()>>;
        let first = flight.run_in_task(never, async || {
            sleep(Duration::from_secs(1)).await;
            Ok(1)
        });
        let mut stalled = pin!(flight.run_in_task(never, async || Ok(2)));
        let last = flight.run_in_task(never, async || Ok(3));
        let order = async {
            // Waits, and is not polled again.
            assert!(poll_once(stalled.as_mut()).await.is_pending());
            last.await
        };
        assert_eq!(tokio::join!(first, order), (Some(Ok(1)), Some(Ok(3))));
    }

    /// Polls a future once.
    async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> std::task::Poll<F::Output> {
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx))).await
    }
}
