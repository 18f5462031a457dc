//! Counters of a benchmark run.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use wharf::{Error, ErrorKind};

use crate::commands::bench::histogram::Histogram;
use crate::terminal::cut;

/// Maximum number of distinct failures. A server may send a different message each time.
const KINDS: usize = 16;

/// Maximum length of a stored failure message.
const LONGEST: usize = 200;

/// Number of tallies that connections write to: enough to make lock contention rare.
const SHARDS: usize = 16;

/// Failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RunError {
    pub(super) kind: &'static str,
    pub(super) code: Option<i32>,
    pub(super) message: String,
    /// Set if the connection broke or could not be made.
    pub(super) broken: bool,
}

impl RunError {
    /// Failure that the tool itself returned (`isError`).
    pub(super) fn of_tool(message: &str) -> Self {
        let kind = ErrorKind::ToolExecutionFailed.name();
        RunError { kind, code: None, message: cut(message, LONGEST), broken: false }
    }
}

impl From<Error> for RunError {
    fn from(error: Error) -> Self {
        let broken = matches!(error.kind, ErrorKind::ConnectionClosed | ErrorKind::TransportError);
        let message = cut(&error.message, LONGEST);
        RunError { kind: error.kind.name(), code: error.code, message, broken }
    }
}

/// Failures by kind, with their counts.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    pub(super) kinds: Vec<(RunError, u64)>,
    /// Failures beyond the maximum number of kinds.
    pub(super) others: u64,
}

impl Failures {
    pub(super) fn count(&self) -> u64 {
        self.others + self.kinds.iter().map(|(_, count)| count).sum::<u64>()
    }

    fn record(&mut self, failure: RunError, times: u64) {
        match self.kinds.iter().position(|(known, _)| *known == failure) {
            Some(at) => self.kinds[at].1 += times,
            None if self.kinds.len() < KINDS => self.kinds.push((failure, times)),
            None => self.others += times,
        }
    }

    fn add(&mut self, other: &Failures) {
        for (failure, count) in &other.kinds {
            self.record(failure.clone(), *count);
        }
        self.others += other.others;
    }
}

/// Results of calls.
#[derive(Clone, Debug)]
pub(super) struct Tally {
    pub(super) begun: u64,
    /// Latencies of successful calls, in nanoseconds.
    pub(super) latencies: Histogram,
    pub(super) failures: Failures,
    /// End of the last call.
    pub(super) last: Option<Instant>,
}

impl Tally {
    fn new() -> Self {
        let (latencies, failures) = (Histogram::new(), Failures::default());
        Tally { begun: 0, latencies, failures, last: None }
    }

    pub(super) fn succeeded(&self) -> u64 {
        self.latencies.count()
    }

    pub(super) fn failed(&self) -> u64 {
        self.failures.count()
    }

    /// Number of calls that were still in flight when the run stopped waiting.
    pub(super) fn unfinished(&self) -> u64 {
        self.begun.saturating_sub(self.succeeded() + self.failed())
    }

    fn add(&mut self, other: &Tally) {
        self.begun += other.begun;
        self.latencies.add(&other.latencies);
        self.failures.add(&other.failures);
        self.last = self.last.max(other.last);
    }
}

/// Shared counters that every connection writes to.
#[derive(Debug)]
pub(super) struct Board {
    pub(super) started: Instant,
    shards: Vec<Mutex<Tally>>,
    missed: AtomicU64,
}

impl Board {
    pub(super) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Tally::new())).collect();
        Board { started: Instant::now(), shards, missed: AtomicU64::new(0) }
    }

    pub(super) fn begun(&self, connection: usize) {
        self.shard(connection).begun += 1;
    }

    /// Records the result of a call that was due at `due`.
    pub(super) fn ended(&self, connection: usize, due: Instant, result: Result<(), RunError>) {
        let now = Instant::now();
        let mut tally = self.shard(connection);
        tally.last = Some(now);
        match result {
            Ok(()) => tally.latencies.record(nanoseconds(now - due)),
            Err(failure) => tally.failures.record(failure, 1),
        }
    }

    /// Records a call that could not start on time.
    pub(super) fn miss(&self) {
        self.missed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn missed(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    /// Numbers of successful and failed calls so far.
    pub(super) fn counts(&self) -> (u64, u64) {
        let each = self.shards.iter().map(lock);
        each.fold((0, 0), |(ok, failed), it| (ok + it.succeeded(), failed + it.failed()))
    }

    pub(super) fn total(&self) -> Tally {
        self.shards.iter().map(lock).fold(Tally::new(), |mut all, it| {
            all.add(&it);
            all
        })
    }

    fn shard(&self, connection: usize) -> MutexGuard<'_, Tally> {
        lock(&self.shards[connection % SHARDS])
    }
}

fn lock(tally: &Mutex<Tally>) -> MutexGuard<'_, Tally> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failing(message: &str) -> RunError {
        RunError::of_tool(message)
    }

    #[test]
    fn failures_are_told_apart_and_bounded() {
        let board = Board::new();
        for (connection, number) in (0..1000).enumerate() {
            let due = Instant::now();
            board.begun(connection);
            board.ended(connection, due, Err(failing("the same each time")));
            board.begun(connection);
            board.ended(connection, due, Err(failing(&format!("request {number} failed"))));
        }
        let failures = board.total().failures;
        assert_eq!((failures.count(), failures.kinds.len()), (2000, KINDS));
        assert_eq!(failures.kinds[0], (failing("the same each time"), 1000));
        assert_eq!(board.counts(), (0, 2000));
    }

    #[test]
    fn long_messages_are_cut_and_broken_connections_known() {
        assert!(failing(&"x".repeat(9000)).message.chars().count() <= LONGEST);
        assert!(RunError::from(Error::new(ErrorKind::ConnectionClosed)).broken);
        assert!(!RunError::from(Error::new(ErrorKind::InvalidParams)).broken);
    }

    #[test]
    fn what_has_not_ended_is_unfinished() {
        let board = Board::new();
        (0..5).for_each(|connection| board.begun(connection));
        board.ended(0, board.started, Ok(()));
        board.ended(1, board.started, Err(failing("x")));
        let total = board.total();
        assert_eq!((total.succeeded(), total.failed(), total.unfinished()), (1, 1, 3));
    }
}
