//! Live progress of a benchmark at the terminal.

use std::{convert::Infallible, future::pending, time::Duration};

use tokio::time::{Instant, MissedTickBehavior, interval};

use crate::commands::bench::{
    counters::Board,
    load_loop::{End, Plan},
    summary::{plural, rate},
};
use crate::terminal::Screen;

/// Interval between redraws.
const TICK: Duration = Duration::from_millis(250);

/// Number of ticks over which the current rate is averaged.
const RECENT: usize = 4;

/// Draws the progress until it is dropped. Without a terminal it draws nothing.
pub(super) async fn show(screen: &Screen, plan: &Plan, board: &Board, name: &str) -> Infallible {
    if !screen.draws() {
        return pending().await;
    }
    let mut ticks = interval(TICK);
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
        if before.len() > RECENT {
            before.remove(0);
        }
        let far = Far::of(plan, now - board.started, done, speed);
        let left = far.left.map(|left| format!(", {:.0} s left", left.as_secs_f64().ceil()));
        let text = format!(
            "{} a second, {}{}",
            rate(speed),
            plural(errors, "error"),
            left.unwrap_or_default()
        );
        screen.bar(far.done, Some(1.0), &format!("{name}{text}"));
    }
}

/// Progress of the run.
#[derive(Debug, PartialEq)]
struct Far {
    /// Completed share.
    done: f64,
    /// Estimated remaining time, if it can be computed.
    left: Option<Duration>,
}

impl Far {
    fn of(plan: &Plan, elapsed: Duration, done: u64, speed: f64) -> Self {
        match plan.end {
            End::After(all) => Far {
                done: elapsed.as_secs_f64() / all.as_secs_f64(),
                left: Some(all.saturating_sub(elapsed)),
            },
            End::Count(count) => {
                let rest = count.saturating_sub(done) as f64 / speed;
                // Without a completed call there is no estimate.
                Far {
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
    use crate::commands::bench::load_loop::Pace;

    #[test]
    fn the_time_left_is_told_where_it_can_be() {
        let plan = |end| Plan { pace: Pace::Closed, end, in_flight: 1 };
        let seconds = Duration::from_secs;
        let far = Far::of(&plan(End::After(seconds(10))), seconds(4), 7, 1.0);
        assert_eq!(far, Far { done: 0.4, left: Some(seconds(6)) });
        let far = Far::of(&plan(End::After(seconds(10))), seconds(11), 7, 1.0);
        assert_eq!(far.left, Some(Duration::ZERO));
        let far = Far::of(&plan(End::Count(100)), seconds(4), 50, 25.0);
        assert_eq!(far, Far { done: 0.5, left: Some(seconds(2)) });
        assert_eq!(Far::of(&plan(End::Count(100)), seconds(4), 0, 0.0).left, None);
    }
}
