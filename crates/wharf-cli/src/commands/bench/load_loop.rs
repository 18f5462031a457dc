//! Calls made over and over, in one of two ways.

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
use wharf::Timer;

use crate::commands::bench::counters::{Board, RunError};

/// How long after the end of the time calls that are still under way are waited for.
const GRACE: Duration = Duration::from_secs(5);

/// How long a connection that broke is left alone, so that a server that is gone is not counted a
/// million times.
const PAUSE: Duration = Duration::from_millis(50);

/// One connection, over which a call can be made.
pub(super) trait Call: Clone + Send + Sync + 'static {
    /// Makes the call once.
    fn call(&self) -> impl Future<Output = Result<(), RunError>> + Send;
}

/// When calls begin.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Pace {
    /// As soon as the one before it has ended.
    Closed,
    /// So many each second, whether or not earlier ones have ended.
    Open { rate: f64 },
}

/// When no further call begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum End {
    After(Duration),
    Count(u64),
}

/// How calls are made.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) pace: Pace,
    pub(super) end: End,
    /// How many calls may be under way over one connection.
    pub(super) in_flight: usize,
}

impl Plan {
    /// When no further call begins, if a clock says so.
    pub(super) fn deadline(&self, started: Instant) -> Option<Instant> {
        match self.end {
            End::After(time) => started.checked_add(time),
            End::Count(_) => None,
        }
    }

    /// Makes calls over `lines` until the end, and waits for those that are under way then.
    pub(super) async fn drive<C: Call>(&self, lines: &[C], board: &Arc<Board>, timer: &dyn Timer) {
        let mut calls = JoinSet::new();
        match self.pace {
            Pace::Closed => self.fill(lines, board, &mut calls),
            Pace::Open { rate } => self.schedule(lines, board, rate, timer, &mut calls).await,
        }
        let all = async { while calls.join_next().await.is_some() {} };
        match self.deadline(board.started) {
            // Those that take too long are dropped with the set, and so cancelled.
            Some(deadline) => _ = timeout_at(deadline + GRACE, all).await,
            None => all.await,
        }
    }

    /// Begins with as many calls as may be under way; each is followed by another.
    fn fill<C: Call>(&self, lines: &[C], board: &Arc<Board>, calls: &mut JoinSet<()>) {
        let quota = Arc::new(Quota::new(self, board.started));
        for _ in 0..self.in_flight {
            for (connection, line) in lines.iter().enumerate() {
                let (line, board, quota) = (line.clone(), board.clone(), quota.clone());
                calls.spawn(async move {
                    while quota.take() {
                        let began = Instant::now();
                        board.begun(connection);
                        let result = line.call().await;
                        let broken = result.as_ref().is_err_and(|failure| failure.broken);
                        board.ended(connection, began, result);
                        if broken {
                            sleep(PAUSE).await;
                        }
                    }
                });
            }
        }
    }

    /// Begins each call at its time, or counts it as missed if no place is free then.
    async fn schedule<C: Call>(
        &self,
        lines: &[C],
        board: &Arc<Board>,
        rate: f64,
        timer: &dyn Timer,
        calls: &mut JoinSet<()>,
    ) {
        let places = Arc::new(Places::new(lines.len(), self.in_flight));
        for number in 0_u64.. {
            let due = board.started + Duration::from_secs_f64(number as f64 / rate);
            if !self.allows(number, due, board.started) {
                return;
            }
            if due > Instant::now() {
                timer.sleep_until(due.into_std()).await;
            }
            // One that lags behind must still hear that it is enough.
            coop::consume_budget().await;
            while calls.try_join_next().is_some() {}
            let Some(connection) = places.take() else {
                board.miss();
                continue;
            };
            let (line, board, places) = (lines[connection].clone(), board.clone(), places.clone());
            calls.spawn(async move {
                board.begun(connection);
                let result = line.call().await;
                board.ended(connection, due, result);
                places.give(connection);
            });
        }
    }

    fn allows(&self, number: u64, due: Instant, started: Instant) -> bool {
        match self.end {
            End::After(time) => due - started < time,
            End::Count(count) => number < count,
        }
    }
}

/// What is left to do in a closed loop.
enum Quota {
    Until(Instant),
    Left(AtomicU64),
}

impl Quota {
    fn new(plan: &Plan, started: Instant) -> Self {
        match plan.end {
            End::After(time) => Quota::Until(started + time),
            End::Count(count) => Quota::Left(AtomicU64::new(count)),
        }
    }

    /// Whether there is another call to make.
    fn take(&self) -> bool {
        match self {
            Quota::Until(end) => Instant::now() < *end,
            Quota::Left(left) => {
                let one_less = |left: u64| left.checked_sub(1);
                left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_ok()
            }
        }
    }
}

/// The places for calls under way: connections, each as often as it has one free.
struct Places(Mutex<VecDeque<usize>>);

impl Places {
    fn new(connections: usize, each: usize) -> Self {
        Places(Mutex::new((0..each).flat_map(|_| 0..connections).collect()))
    }

    fn take(&self) -> Option<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn give(&self, connection: usize) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(connection);
    }
}
