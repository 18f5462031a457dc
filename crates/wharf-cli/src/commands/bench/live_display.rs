//! Live progress of a benchmark at the terminal.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::commands::bench::{
    counters::SharedCounters,
    load_loop::{LoadPlan, RunEnd},
    summary::{plural, rate},
};
use crate::terminal::StderrOutput;

/// Interval between redraws.
const REDRAW_INTERVAL: Duration = Duration::from_millis(250);

/// Number of ticks over which the current rate is averaged.
const AVERAGED_TICKS: usize = 4;

/// Draws the progress until it is dropped. Without a terminal it draws nothing.
pub(super) async fn show(
    screen: &StderrOutput,
    plan: &LoadPlan,
    board: &SharedCounters,
    name: &str,
) -> Infallible {
    if !screen.draws() {
        return pending().await;
    }
    let mut ticks = interval(REDRAW_INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut before = vec![(board.started, 0)];
    loop {
        ticks.tick().await;
        let (ok, errors) = board.counts();
        let (now, done) = (Instant::now(), ok + errors);
        let (since, had) = before[0];
        let seconds = (now - since).as_secs_f64();
        let speed = if seconds > 0.0 { (done - had) as f64 / seconds } else { 0.0 };
        before.push((now, done));
        if before.len() > AVERAGED_TICKS {
            before.remove(0);
        }
        let progress = RunProgress::of(plan, now - board.started, done, speed);
        let left = progress.left.map(|left| format!(", {:.0} s left", left.as_secs_f64().ceil()));
        let text = format!(
            "{} a second, {}{}",
            rate(speed),
            plural(errors, "error"),
            left.unwrap_or_default()
        );
        screen.bar(progress.done, Some(1.0), &format!("{name}{text}"));
    }
}

/// Progress of the run.
#[derive(Debug, PartialEq)]
struct RunProgress {
    /// Completed share.
    done: f64,
    /// Estimated remaining time, if it can be computed.
    left: Option<Duration>,
}

impl RunProgress {
    fn of(plan: &LoadPlan, elapsed: Duration, done: u64, speed: f64) -> Self {
        match plan.end {
            RunEnd::After(all) => RunProgress {
                done: elapsed.as_secs_f64() / all.as_secs_f64(),
                left: Some(all.saturating_sub(elapsed)),
            },
            RunEnd::Count(count) => {
                let rest = count.saturating_sub(done) as f64 / speed;
                // Without a completed call there is no estimate.
                RunProgress {
                    done: done as f64 / count as f64,
                    left: Duration::try_from_secs_f64(rest).ok(),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::bench::load_loop::LoadMode;

    #[test]
    fn remaining_time_is_estimated() {
        let plan = |end| LoadPlan { pace: LoadMode::Closed, end, in_flight: 1 };
        let seconds = Duration::from_secs;
        let progress = RunProgress::of(&plan(RunEnd::After(seconds(10))), seconds(4), 7, 1.0);
        assert_eq!(progress, RunProgress { done: 0.4, left: Some(seconds(6)) });
        let progress = RunProgress::of(&plan(RunEnd::After(seconds(10))), seconds(11), 7, 1.0);
        assert_eq!(progress.left, Some(Duration::ZERO));
        let progress = RunProgress::of(&plan(RunEnd::Count(100)), seconds(4), 50, 25.0);
        assert_eq!(progress, RunProgress { done: 0.5, left: Some(seconds(2)) });
        assert_eq!(RunProgress::of(&plan(RunEnd::Count(100)), seconds(4), 0, 0.0).left, None);
    }
}
