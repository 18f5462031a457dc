//! What Wharf is to reach.

use super::contenders::{BARE, RMCP, WHARF};
use super::figures::Figure;
use super::results::Outcome;

/// The bound of a figure of Wharf's in one workload.
pub(crate) struct Target {
    workload: &'static str,
    figure: Figure,
    bound: Bound,
}

#[derive(Clone, Copy)]
enum Bound {
    Most(f64),
    /// Times the figure of another server in the same rounds.
    MostTimes(f64, &'static str),
    LeastTimes(f64, &'static str),
    /// Times Wharf's own figure in another workload.
    MostTimesOwn(f64, &'static str),
}

/// How a target was met.
pub(crate) struct Verdict {
    pub(crate) workload: String,
    pub(crate) title: String,
    pub(crate) figure: Figure,
    pub(crate) bound: String,
    pub(crate) measured: String,
    pub(crate) is_met: bool,
}

const fn target(workload: &'static str, figure: Figure, bound: Bound) -> Target {
    Target { workload, figure, bound }
}

const fn like_bare(workload: &'static str) -> Target {
    target(workload, Figure::Cpu, Bound::MostTimes(1.2, BARE))
}

/// A call that waits on Nagle's algorithm and a delayed acknowledgement takes 40 ms. Of the median: the
/// slowest calls wait for the scheduler.
const NO_WAIT: Bound = Bound::Most(5_000.0);

const TARGETS: &[Target] = &[
    target("stdio-legacy", Figure::Instructions, Bound::Most(8_000.0)),
    target("stdio-legacy", Figure::Allocations, Bound::Most(6.0)),
    target("stdio-modern", Figure::Instructions, Bound::Most(10_500.0)),
    target("http-stateless", Figure::Instructions, Bound::Most(25_000.0)),
    target("http-session", Figure::Instructions, Bound::Most(27_000.0)),
    target("http-modern", Figure::Instructions, Bound::Most(31_000.0)),
    target("stdio-echo-64k", Figure::Instructions, Bound::Most(600_000.0)),
    like_bare("http-modern-16"),
    like_bare("http-modern-128"),
    like_bare("http-session-16"),
    like_bare("http-session-128"),
    like_bare("http-stateless-16"),
    like_bare("http-stateless-128"),
    target("pipelined-10000", Figure::Rate, Bound::LeastTimes(0.8, BARE)),
    target("pipelined-50000", Figure::Rate, Bound::LeastTimes(0.8, BARE)),
    target("pipelined-50000", Figure::Peak, Bound::MostTimesOwn(1.1, "pipelined-10000")),
    target("progress-modern", Figure::Events, Bound::LeastTimes(1.5, BARE)),
    target("progress-modern", Figure::Lost, Bound::Most(0.0)),
    target("progress-session", Figure::Events, Bound::LeastTimes(1.5, BARE)),
    target("progress-session", Figure::Lost, Bound::Most(0.0)),
    like_bare("list-1000"),
    target("call-1000-tools", Figure::TimesPlain, Bound::Most(1.1)),
    target("call-10000-sessions", Figure::TimesPlain, Bound::Most(1.1)),
    target("echo-1m-http", Figure::Cpu, Bound::MostTimes(0.65, BARE)),
    target("memory-session", Figure::BytesEach, Bound::Most(512.0)),
    target("memory-listen", Figure::BytesEach, Bound::Most(4096.0)),
    target("memory-get-stream", Figure::BytesEach, Bound::Most(4096.0)),
    target("cold-start", Figure::Cold, Bound::MostTimes(1.2, BARE)),
    target("cold-start", Figure::Memory, Bound::Most(4e6)),
    target("size", Figure::Quickstart, Bound::Most(4.5e6)),
    target("crates", Figure::Crates, Bound::Most(90.0)),
    target("build", Figure::BuildCpu, Bound::MostTimes(1.0, RMCP)),
    target("http-modern-1", Figure::Median, NO_WAIT),
    target("http-session-1", Figure::Median, NO_WAIT),
    target("http-stateless-1", Figure::Median, NO_WAIT),
    target("progress-alone", Figure::Median, NO_WAIT),
    target("stdio-legacy", Figure::Median, NO_WAIT),
    target("stdio-modern", Figure::Median, NO_WAIT),
];

/// The targets that these outcomes say something about.
pub(crate) fn judge(outcomes: &[Outcome]) -> Vec<Verdict> {
    TARGETS.iter().filter_map(|target| target.judge(outcomes)).collect()
}

impl Target {
    fn judge(&self, outcomes: &[Outcome]) -> Option<Verdict> {
        let find = |name: &str| outcomes.iter().find(|outcome| outcome.name == name);
        let (outcome, figure) = (find(self.workload)?, self.figure);
        let times = |other| outcome.ratio(figure, WHARF, other);
        let multiple = |ratio: f64, of: &str| format!("{ratio:.2} × {of}");
        let (measured, bound, is_met) = match self.bound {
            Bound::Most(most) => {
                let value = outcome.median(figure, WHARF)?;
                (figure.show(value), format!("≤ {}", figure.show(most)), value <= most)
            }
            Bound::MostTimes(most, of) => {
                let ratio = times(of)?;
                (multiple(ratio, of), format!("≤ {most} × {of}"), ratio <= most)
            }
            Bound::LeastTimes(least, of) => {
                let ratio = times(of)?;
                (multiple(ratio, of), format!("≥ {least} × {of}"), ratio >= least)
            }
            Bound::MostTimesOwn(most, name) => {
                let ratio = outcome.median(figure, WHARF)? / find(name)?.median(figure, WHARF)?;
                (multiple(ratio, name), format!("≤ {most} × {name}"), ratio <= most)
            }
        };
        let (workload, title) = (outcome.name.clone(), outcome.title.clone());
        Some(Verdict { workload, title, figure, bound, measured, is_met })
    }
}
