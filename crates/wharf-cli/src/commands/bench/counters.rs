//! Counters of a benchmark run.

use std::{
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;
use wharf::{ErrorKind, client::CallError};

use crate::commands::bench::histogram::Histogram;
use crate::terminal::cut;

/// Maximum number of distinct failures. A server may send a different message each time.
const MAX_FAILURE_KINDS: usize = 16;

/// Maximum length of a stored failure message.
const MAX_MESSAGE_CHARS: usize = 200;

/// Number of tallies that connections write to: enough to make lock contention rare.
const SHARD_COUNT: usize = 16;

/// Failure of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CallFailure {
    pub(super) kind: &'static str,
    pub(super) code: Option<i32>,
    pub(super) message: String,
    /// Set if the connection broke or could not be made.
    pub(super) broken: bool,
}

impl CallFailure {
    /// Failure that the tool itself returned (`isError`).
    pub(super) fn of_tool(message: &str) -> Self {
        let kind = ErrorKind::ToolExecutionFailed.name();
        CallFailure { kind, code: None, message: cut(message, MAX_MESSAGE_CHARS), broken: false }
    }
}

impl From<CallError> for CallFailure {
    fn from(error: CallError) -> Self {
        let kind = error.kind();
        let broken = matches!(kind, ErrorKind::ConnectionClosed | ErrorKind::TransportError);
        let (message, code) = (cut(error.message(), MAX_MESSAGE_CHARS), error.refusal());
        CallFailure { kind: kind.name(), code: code.and_then(|sent| sent.code), message, broken }
    }
}

/// Number of failures of each kind.
#[derive(Clone, Debug, Default)]
pub(super) struct FailureCounts {
    pub(super) kinds: Vec<(CallFailure, u64)>,
    /// Failures beyond the maximum number of kinds.
    pub(super) others: u64,
}

impl FailureCounts {
    pub(super) fn count(&self) -> u64 {
        self.others + self.kinds.iter().map(|(_, count)| count).sum::<u64>()
    }

    fn record(&mut self, failure: CallFailure, times: u64) {
        match self.kinds.iter().position(|(known, _)| *known == failure) {
            Some(at) => self.kinds[at].1 += times,
            None if self.kinds.len() < MAX_FAILURE_KINDS => self.kinds.push((failure, times)),
            None => self.others += times,
        }
    }

    fn add(&mut self, other: &FailureCounts) {
        for (failure, count) in &other.kinds {
            self.record(failure.clone(), *count);
        }
        self.others += other.others;
    }
}

/// Results of calls.
#[derive(Clone, Debug)]
pub(super) struct CallCounts {
    pub(super) begun: u64,
    /// Latencies of successful calls, in nanoseconds.
    pub(super) latencies: Histogram,
    pub(super) failures: FailureCounts,
    /// End of the last call.
    pub(super) last: Option<Instant>,
}

impl CallCounts {
    fn new() -> Self {
        let (latencies, failures) = (Histogram::new(), FailureCounts::default());
        CallCounts { begun: 0, latencies, failures, last: None }
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

    fn add(&mut self, other: &CallCounts) {
        self.begun += other.begun;
        self.latencies.add(&other.latencies);
        self.failures.add(&other.failures);
        self.last = self.last.max(other.last);
    }
}

/// Shared counters that every connection writes to.
#[derive(Debug)]
pub(super) struct SharedCounters {
    pub(super) started: Instant,
    shards: Vec<Mutex<CallCounts>>,
    missed: AtomicU64,
}

impl SharedCounters {
    pub(super) fn new() -> Self {
        let shards = (0..SHARD_COUNT).map(|_| Mutex::new(CallCounts::new())).collect();
        SharedCounters { started: Instant::now(), shards, missed: AtomicU64::new(0) }
    }

    pub(super) fn begun(&self, connection: usize) {
        self.shard(connection).begun += 1;
    }

    /// Records the result of a call that was due at `due`.
    pub(super) fn ended(&self, connection: usize, due: Instant, result: Result<(), CallFailure>) {
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

    pub(super) fn total(&self) -> CallCounts {
        self.shards.iter().map(lock).fold(CallCounts::new(), |mut all, it| {
            all.add(&it);
            all
        })
    }

    fn shard(&self, connection: usize) -> MutexGuard<'_, CallCounts> {
        lock(&self.shards[connection % SHARD_COUNT])
    }
}

fn lock(tally: &Mutex<CallCounts>) -> MutexGuard<'_, CallCounts> {
    tally.lock().unwrap_or_else(PoisonError::into_inner)
}

fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use wharf::Error;

    fn failing(message: &str) -> CallFailure {
        CallFailure::of_tool(message)
    }

    #[test]
    fn failures_are_grouped_and_limited() {
        let board = SharedCounters::new();
        for (connection, number) in (0..1000).enumerate() {
            let due = Instant::now();
            board.begun(connection);
            board.ended(connection, due, Err(failing("the same each time")));
            board.begun(connection);
            board.ended(connection, due, Err(failing(&format!("request {number} failed"))));
        }
        let failures = board.total().failures;
        assert_eq!((failures.count(), failures.kinds.len()), (2000, MAX_FAILURE_KINDS));
        assert_eq!(failures.kinds[0], (failing("the same each time"), 1000));
        assert_eq!(board.counts(), (0, 2000));
    }

    #[test]
    fn long_messages_are_cut_and_broken_connections_detected() {
        assert!(failing(&"x".repeat(9000)).message.chars().count() <= MAX_MESSAGE_CHARS);
        let failure = |kind| CallFailure::from(CallError::Refused(Error::new(kind)));
        assert!(failure(ErrorKind::ConnectionClosed).broken);
        assert!(!failure(ErrorKind::InvalidParams).broken);
    }

    #[test]
    fn calls_without_a_result_are_unfinished() {
        let board = SharedCounters::new();
        (0..5).for_each(|connection| board.begun(connection));
        board.ended(0, board.started, Ok(()));
        board.ended(1, board.started, Err(failing("x")));
        let total = board.total();
        assert_eq!((total.succeeded(), total.failed(), total.unfinished()), (1, 1, 3));
    }
}
