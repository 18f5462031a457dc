//! Tests of the loops against a server with fixed latencies and a paused clock.

use std::sync::atomic::AtomicUsize;

use wharf::server::TokioTimer;

use crate::commands::bench::{counters::CallCounts, load_loop::*};

/// Connection whose calls take `time`, each in turn from this list.
#[derive(Clone)]
struct FixedLatency {
    times: Arc<Vec<Duration>>,
    next: Arc<AtomicUsize>,
    in_flight: Arc<AtomicUsize>,
    max_in_flight: Arc<AtomicUsize>,
    fails: bool,
}

impl FixedLatency {
    fn of(times: &[u64]) -> Self {
        let times = times.iter().map(|ms| Duration::from_millis(*ms)).collect();
        let (next, in_flight, max_in_flight) = Default::default();
        FixedLatency { times: Arc::new(times), next, in_flight, max_in_flight, fails: false }
    }
}

impl TimedCall for FixedLatency {
    async fn call(&self) -> Result<(), CallFailure> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let now = self.in_flight.fetch_add(1, Ordering::Relaxed) + 1;
        self.max_in_flight.fetch_max(now, Ordering::Relaxed);
        sleep(self.times[number % self.times.len()]).await;
        self.in_flight.fetch_sub(1, Ordering::Relaxed);
        match self.fails {
            true => Err(CallFailure { broken: true, ..CallFailure::of_tool("gone") }),
            false => Ok(()),
        }
    }
}

async fn run_plan(plan: LoadPlan, lines: &[FixedLatency]) -> (CallCounts, u64) {
    let board = Arc::new(SharedCounters::new());
    plan.run(lines, &board, &TokioTimer).await;
    (board.total(), board.missed())
}

fn closed(end: RunEnd, in_flight: usize) -> LoadPlan {
    LoadPlan { pace: LoadMode::Closed, end, in_flight }
}

fn open(rate: f64, end: RunEnd, in_flight: usize) -> LoadPlan {
    LoadPlan { pace: LoadMode::Open { rate }, end, in_flight }
}

fn seconds(seconds: u64) -> RunEnd {
    RunEnd::After(Duration::from_secs(seconds))
}

/// Converts a histogram time to whole milliseconds.
fn ms(nanoseconds: u64) -> u64 {
    (nanoseconds + 500_000) / 1_000_000
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_keeps_the_configured_calls_in_flight() {
    let line = FixedLatency::of(&[100]);
    let (tally, missed) = run_plan(closed(seconds(1), 3), &[line.clone(), line.clone()]).await;
    assert_eq!((tally.succeeded(), missed), (60, 0));
    assert_eq!(line.max_in_flight.load(Ordering::Relaxed), 6);
    assert_eq!((ms(tally.latencies.min()), ms(tally.latencies.max())), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn a_call_count_is_exact() {
    for pace in [LoadMode::Closed, LoadMode::Open { rate: 1000.0 }] {
        let line = FixedLatency::of(&[10]);
        let plan = LoadPlan { pace, end: RunEnd::Count(101), in_flight: 40 };
        let (tally, missed) = run_plan(plan, &vec![line.clone(); 4]).await;
        assert_eq!((tally.succeeded(), tally.begun, missed), (101, 101, 0), "{pace:?}");
        assert_eq!(line.next.load(Ordering::Relaxed), 101);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_loop_starts_calls_on_schedule() {
    let line = FixedLatency::of(&[250]);
    let (tally, missed) = run_plan(open(100.0, seconds(2), 128), std::slice::from_ref(&line)).await;
    assert_eq!((tally.succeeded(), missed), (200, 0));
    assert_eq!(line.max_in_flight.load(Ordering::Relaxed), 25);
    assert_eq!(ms(tally.latencies.max()), 250);
}

#[tokio::test(start_paused = true)]
async fn calls_without_a_free_slot_are_missed() {
    let line = FixedLatency::of(&[1000]);
    let (tally, missed) = run_plan(open(100.0, seconds(1), 4), &[line.clone(), line.clone()]).await;
    assert_eq!(line.max_in_flight.load(Ordering::Relaxed), 8);
    assert_eq!((tally.succeeded(), missed), (8, 92));
}

/// Timer that wakes late: the delay must count towards the latency of a call.
struct LateTimer(Duration);

impl Timer for LateTimer {
    fn now(&self) -> std::time::Instant {
        TokioTimer.now()
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> wharf::model::BoxFuture<()> {
        TokioTimer.sleep_until(deadline + self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn latency_counts_from_the_scheduled_start() {
    let board = Arc::new(SharedCounters::new());
    let plan = open(1.0, RunEnd::Count(3), 1);
    plan.run(&[FixedLatency::of(&[10])], &board, &LateTimer(Duration::from_millis(300))).await;
    let times = board.total().latencies;
    // The first call is due at once and does not wait for another.
    assert_eq!((ms(times.min()), ms(times.max())), (10, 310));
    // Overdue calls are made up for, without a pause in between.
    let board = Arc::new(SharedCounters::new());
    let plan = open(100.0, seconds(1), 100);
    plan.run(&[FixedLatency::of(&[10])], &board, &LateTimer(Duration::from_millis(95))).await;
    assert_eq!((board.total().succeeded(), board.missed()), (100, 0));
    assert_eq!(ms(board.total().latencies.max()), 105);
}

#[tokio::test(start_paused = true)]
async fn calls_beyond_the_drain_timeout_are_unfinished() {
    for pace in [LoadMode::Closed, LoadMode::Open { rate: 10.0 }] {
        let line = FixedLatency::of(&[100, 3_600_000]);
        let plan = LoadPlan { pace, end: seconds(1), in_flight: 10 };
        let (tally, _) = run_plan(plan, std::slice::from_ref(&line)).await;
        assert!(tally.succeeded() > 0 && tally.unfinished() > 0, "{pace:?}: {tally:?}");
        assert_eq!(tally.begun, tally.succeeded() + tally.unfinished());
    }
    // Calls that take slightly longer than the run are awaited.
    let (tally, _) = run_plan(closed(seconds(1), 1), &[FixedLatency::of(&[600])]).await;
    assert_eq!((tally.succeeded(), tally.unfinished()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn broken_connections_are_retried_with_a_pause() {
    let line = FixedLatency { fails: true, ..FixedLatency::of(&[0]) };
    let (tally, _) = run_plan(closed(seconds(1), 1), &[line]).await;
    assert!((15..=20).contains(&tally.failed()), "{}", tally.failed());
}
