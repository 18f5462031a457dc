//! Tests of the loops against a server with fixed latencies and a paused clock.

use std::sync::atomic::AtomicUsize;

use wharf::server::TokioTimer;

use crate::commands::bench::{counters::Tally, load_loop::*};

/// Connection whose calls take `time`, each in turn from this list.
#[derive(Clone)]
struct Slow {
    times: Arc<Vec<Duration>>,
    next: Arc<AtomicUsize>,
    under_way: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
    fails: bool,
}

impl Slow {
    fn of(times: &[u64]) -> Self {
        let times = times.iter().map(|ms| Duration::from_millis(*ms)).collect();
        let (next, under_way, most) = Default::default();
        Slow { times: Arc::new(times), next, under_way, most, fails: false }
    }
}

impl Call for Slow {
    async fn call(&self) -> Result<(), RunError> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let now = self.under_way.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(now, Ordering::Relaxed);
        sleep(self.times[number % self.times.len()]).await;
        self.under_way.fetch_sub(1, Ordering::Relaxed);
        match self.fails {
            true => Err(RunError { broken: true, ..RunError::of_tool("gone") }),
            false => Ok(()),
        }
    }
}

async fn driven(plan: Plan, lines: &[Slow]) -> (Tally, u64) {
    let board = Arc::new(Board::new());
    plan.drive(lines, &board, &TokioTimer).await;
    (board.total(), board.missed())
}

fn closed(end: End, in_flight: usize) -> Plan {
    Plan { pace: Pace::Closed, end, in_flight }
}

fn open(rate: f64, end: End, in_flight: usize) -> Plan {
    Plan { pace: Pace::Open { rate }, end, in_flight }
}

fn seconds(seconds: u64) -> End {
    End::After(Duration::from_secs(seconds))
}

/// Converts a histogram time to whole milliseconds.
fn ms(nanoseconds: u64) -> u64 {
    (nanoseconds + 500_000) / 1_000_000
}

#[tokio::test(start_paused = true)]
async fn a_closed_loop_keeps_as_many_under_way_as_it_may() {
    let line = Slow::of(&[100]);
    let (tally, missed) = driven(closed(seconds(1), 3), &[line.clone(), line.clone()]).await;
    assert_eq!((tally.succeeded(), missed), (60, 0));
    assert_eq!(line.most.load(Ordering::Relaxed), 6);
    assert_eq!((ms(tally.latencies.min()), ms(tally.latencies.max())), (100, 100));
}

#[tokio::test(start_paused = true)]
async fn a_count_is_kept_to_the_call() {
    for pace in [Pace::Closed, Pace::Open { rate: 1000.0 }] {
        let line = Slow::of(&[10]);
        let plan = Plan { pace, end: End::Count(101), in_flight: 40 };
        let (tally, missed) = driven(plan, &vec![line.clone(); 4]).await;
        assert_eq!((tally.succeeded(), tally.begun, missed), (101, 101, 0), "{pace:?}");
        assert_eq!(line.next.load(Ordering::Relaxed), 101);
    }
}

#[tokio::test(start_paused = true)]
async fn an_open_loop_begins_calls_on_time_whether_or_not_others_have_ended() {
    let line = Slow::of(&[250]);
    let (tally, missed) = driven(open(100.0, seconds(2), 128), std::slice::from_ref(&line)).await;
    assert_eq!((tally.succeeded(), missed), (200, 0));
    assert_eq!(line.most.load(Ordering::Relaxed), 25);
    assert_eq!(ms(tally.latencies.max()), 250);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_begin_on_time_is_missed_and_what_is_under_way_bounded() {
    let line = Slow::of(&[1000]);
    let (tally, missed) = driven(open(100.0, seconds(1), 4), &[line.clone(), line.clone()]).await;
    assert_eq!(line.most.load(Ordering::Relaxed), 8);
    assert_eq!((tally.succeeded(), missed), (8, 92));
}

/// Timer that wakes late: the delay must count towards the latency of a call.
struct Late(Duration);

impl Timer for Late {
    fn now(&self) -> std::time::Instant {
        TokioTimer.now()
    }

    fn sleep_until(&self, deadline: std::time::Instant) -> wharf::model::BoxFuture<()> {
        TokioTimer.sleep_until(deadline + self.0)
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_begins_late_counts_from_when_it_should_have_begun() {
    let board = Arc::new(Board::new());
    let plan = open(1.0, End::Count(3), 1);
    plan.drive(&[Slow::of(&[10])], &board, &Late(Duration::from_millis(300))).await;
    let times = board.total().latencies;
    // The first call is due at once and does not wait for another.
    assert_eq!((ms(times.min()), ms(times.max())), (10, 310));
    // Overdue calls are made up for, without a pause in between.
    let board = Arc::new(Board::new());
    let plan = open(100.0, seconds(1), 100);
    plan.drive(&[Slow::of(&[10])], &board, &Late(Duration::from_millis(95))).await;
    assert_eq!((board.total().succeeded(), board.missed()), (100, 0));
    assert_eq!(ms(board.total().latencies.max()), 105);
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_at_the_end_is_unfinished() {
    for pace in [Pace::Closed, Pace::Open { rate: 10.0 }] {
        let line = Slow::of(&[100, 3_600_000]);
        let plan = Plan { pace, end: seconds(1), in_flight: 10 };
        let (tally, _) = driven(plan, std::slice::from_ref(&line)).await;
        assert!(tally.succeeded() > 0 && tally.unfinished() > 0, "{pace:?}: {tally:?}");
        assert_eq!(tally.begun, tally.succeeded() + tally.unfinished());
    }
    // Calls that take slightly longer than the run are awaited.
    let (tally, _) = driven(closed(seconds(1), 1), &[Slow::of(&[600])]).await;
    assert_eq!((tally.succeeded(), tally.unfinished()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_is_not_called_without_a_pause() {
    let line = Slow { fails: true, ..Slow::of(&[0]) };
    let (tally, _) = driven(closed(seconds(1), 1), &[line]).await;
    assert!((15..=20).contains(&tally.failed()), "{}", tally.failed());
}
