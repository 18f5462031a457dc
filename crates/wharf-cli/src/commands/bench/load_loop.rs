//! Closed and open load loops.

#[cfg(test)]
#[path = "load_loop_tests.rs"]
pub(crate) mod tests;

use std::{
    collections::VecDeque,
    future::Future,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    task::{JoinSet, coop},
    time::{Instant, sleep, timeout_at},
};
use wharf::model::Timer;

use crate::commands::bench::counters::{CallFailure, SharedCounters};

/// Time after the deadline during which calls in flight are awaited.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);

/// Pause after a connection broke, so that an unreachable server is not counted a million times.
const BROKEN_CONNECTION_PAUSE: Duration = Duration::from_millis(50);

/// Connection that can make the call.
pub(super) trait TimedCall: Clone + Send + Sync + 'static {
    /// Makes the call once.
    fn call(&self) -> impl Future<Output = Result<(), CallFailure>> + Send;
}

/// Start times of calls.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum LoadMode {
    /// A call starts as soon as the previous one ended.
    Closed,
    /// Fixed rate per second, independent of earlier calls.
    Open { rate: f64 },
}

/// End condition of the run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum RunEnd {
    After(Duration),
    Count(u64),
}

/// Parameters of the load.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadPlan {
    pub(super) pace: LoadMode,
    pub(super) end: RunEnd,
    /// Maximum number of calls in flight per connection.
    pub(super) in_flight: usize,
}

impl LoadPlan {
    /// Time after which no call starts, if the run is bounded by time.
    pub(super) fn deadline(&self, started: Instant) -> Option<Instant> {
        match self.end {
            RunEnd::After(time) => started.checked_add(time),
            RunEnd::Count(_) => None,
        }
    }

    /// Makes calls over `connections` until the end, then waits for those in flight.
    pub(super) async fn run<C: TimedCall>(
        &self,
        connections: &[C],
        board: &Arc<SharedCounters>,
        timer: &dyn Timer,
    ) {
        let mut calls = JoinSet::new();
        match self.pace {
            LoadMode::Closed => self.run_closed_loop(connections, board, &mut calls),
            LoadMode::Open { rate } => {
                self.run_open_loop(connections, board, rate, timer, &mut calls).await
            }
        }
        let all = async { while calls.join_next().await.is_some() {} };
        match self.deadline(board.started) {
            // Calls that exceed the timeout are dropped with the set, and so cancelled.
            Some(deadline) => _ = timeout_at(deadline + DRAIN_TIMEOUT, all).await,
            None => all.await,
        }
    }

    /// Starts as many calls as may be in flight; each is followed by another.
    fn run_closed_loop<C: TimedCall>(
        &self,
        connections: &[C],
        board: &Arc<SharedCounters>,
        calls: &mut JoinSet<()>,
    ) {
        let quota = Arc::new(CallQuota::new(self, board.started));
        for _ in 0..self.in_flight {
            for (connection, target) in connections.iter().enumerate() {
                let (target, board, quota) = (target.clone(), board.clone(), quota.clone());
                calls.spawn(async move {
                    while quota.take() {
                        let began = Instant::now();
                        board.begun(connection);
                        let result = target.call().await;
                        let broken = result.as_ref().is_err_and(|failure| failure.broken);
                        board.ended(connection, began, result);
                        if broken {
                            sleep(BROKEN_CONNECTION_PAUSE).await;
                        }
                    }
                });
            }
        }
    }

    /// Starts each call on time, or counts it as missed if no slot is free.
    async fn run_open_loop<C: TimedCall>(
        &self,
        connections: &[C],
        board: &Arc<SharedCounters>,
        rate: f64,
        timer: &dyn Timer,
        calls: &mut JoinSet<()>,
    ) {
        let slots = Arc::new(CallSlots::new(connections.len(), self.in_flight));
        for number in 0_u64.. {
            let due = board.started + Duration::from_secs_f64(number as f64 / rate);
            if !self.allows(number, due, board.started) {
                return;
            }
            if due > Instant::now() {
                timer.sleep_until(due.into_std()).await;
            }
            // A loop that lags behind must still yield, so that Ctrl-C stops it.
            coop::consume_budget().await;
            while calls.try_join_next().is_some() {}
            let Some(connection) = slots.take() else {
                board.miss();
                continue;
            };
            let (target, board, slots) =
                (connections[connection].clone(), board.clone(), slots.clone());
            calls.spawn(async move {
                board.begun(connection);
                let result = target.call().await;
                board.ended(connection, due, result);
                slots.put_back(connection);
            });
        }
    }

    fn allows(&self, number: u64, due: Instant, started: Instant) -> bool {
        match self.end {
            RunEnd::After(time) => due - started < time,
            RunEnd::Count(count) => number < count,
        }
    }
}

/// Remaining quota of a closed loop.
enum CallQuota {
    Until(Instant),
    Left(AtomicU64),
}

impl CallQuota {
    fn new(plan: &LoadPlan, started: Instant) -> Self {
        match plan.end {
            RunEnd::After(time) => CallQuota::Until(started + time),
            RunEnd::Count(count) => CallQuota::Left(AtomicU64::new(count)),
        }
    }

    /// Claims another call; false if none is left.
    fn take(&self) -> bool {
        match self {
            CallQuota::Until(end) => Instant::now() < *end,
            CallQuota::Left(left) => {
                let one_less = |left: u64| left.checked_sub(1);
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
            }
        }
    }
}

/// Free slots for calls in flight: each connection occurs once per free slot.
struct CallSlots(Mutex<VecDeque<usize>>);

impl CallSlots {
    fn new(connections: usize, each: usize) -> Self {
        CallSlots(Mutex::new((0..each).flat_map(|_| 0..connections).collect()))
    }

    fn take(&self) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn put_back(&self, connection: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
    }
}
