//! Work that many callers need and one of them does.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use tokio::sync::Mutex;

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
    /// Locked while the work runs. Holds the error of the last attempt.
    failure: Mutex<Option<E>>,
    /// Number of attempts so far.
    attempts: AtomicU64,
}

impl<E> Default for SingleFlight<E> {
    fn default() -> Self {
        let (failure, attempts) = (Mutex::new(None), AtomicU64::new(0));
        SingleFlight(Arc::new(FlightState { failure, attempts }))
    }
}

impl<E> Clone for SingleFlight<E> {
    fn clone(&self) -> Self {
        SingleFlight(self.0.clone())
    }
}

impl<E: Clone> SingleFlight<E> {
    /// Waits for the caller before, if there is one. Then returns what `done` returns, the error of an attempt
    /// that ended meanwhile, or the result of `work`.
    ///
    /// The future may be spawned, so that the work continues when its caller gives up.
    pub fn run<T, D, W>(
        &self,
        done: D,
        work: W,
    ) -> impl Future<Output = Result<T, E>> + use<E, T, D, W>
    where
        D: FnOnce() -> Option<Result<T, E>>,
        W: Future<Output = Result<T, E>>,
    {
        let state = self.0.clone();
        // Before the first poll: an attempt that ends between here and there counts for this caller.
        let before = state.attempts.load(Ordering::Acquire);
        async move {
            let mut failure = state.failure.lock().await;
            if let Some(result) = done() {
                return result;
            }
            let waited = state.attempts.load(Ordering::Acquire) != before;
            if let Some(error) = failure.as_ref().filter(|_| waited) {
                return Err(error.clone());
            }
            let result = work.await;
            state.attempts.fetch_add(1, Ordering::Release);
            *failure = result.as_ref().err().cloned();
            result
        }
    }

    /// Completes when no work is running.
    pub async fn idle(&self) {
        drop(self.0.failure.lock().await);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use std::{sync::atomic::AtomicU32, time::Duration};

    use tokio::{task::JoinSet, time::sleep};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn callers_share_one_attempt_and_its_error() {
        let flight = SingleFlight::<String>::default();
        let (value, times) = (Arc::new(Mutex::new(None)), Arc::new(AtomicU32::new(0)));
        let run = |outcome: Result<u32, String>| {
            let (done, value, times) = (value.clone(), value.clone(), times.clone());
            flight.run(move || done.try_lock().unwrap().map(Ok), async move {
                times.fetch_add(1, Ordering::SeqCst);
                sleep(Duration::from_secs(1)).await;
                if let Ok(number) = outcome {
                    *value.lock().await = Some(number);
                }
                outcome
            })
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
    async fn an_attempt_that_was_given_up_leaves_the_work_to_the_next() {
        let flight = SingleFlight::<()>::default();
        let given_up = tokio::spawn(flight.run(|| None::<Result<u32, ()>>, std::future::pending()));
        tokio::task::yield_now().await;
        let next = flight.run(|| None, async { Ok(7) });
        given_up.abort();
        assert_eq!(next.await, Ok(7));
        flight.idle().await;
    }
}
