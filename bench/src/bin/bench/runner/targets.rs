//! Performance targets of Wharf.

use super::contenders::{BARE, JSONSCHEMA, RMCP, WHARF};
use super::figures::Figure;
use super::results::Outcome;

/// Target for a figure of Wharf in one workload.
pub(crate) struct Target {
    workload: &'static str,
    figure: Figure,
    bound: TargetBound,
}

#[derive(Clone, Copy)]
enum TargetBound {
    Most(f64),
    /// Multiple of another server's figure in the same rounds.
    MostTimes(f64, &'static str),
    LeastTimes(f64, &'static str),
    /// Multiple of Wharf's own figure in another workload.
    MostTimesOwn(f64, &'static str),
}

/// Result for one target.
pub(crate) struct TargetResult {
    pub(crate) workload: String,
    pub(crate) title: String,
    pub(crate) figure: Figure,
    pub(crate) bound: String,
    pub(crate) measured: String,
    pub(crate) is_met: bool,
}

const fn target(workload: &'static str, figure: Figure, bound: TargetBound) -> Target {
    Target { workload, figure, bound }
}

const fn near_bare(workload: &'static str) -> Target {
    target(workload, Figure::Cpu, TargetBound::MostTimes(1.2, BARE))
}

const fn at_most_jsonschema(workload: &'static str, figure: Figure) -> Target {
    target(workload, figure, TargetBound::MostTimes(1.0, JSONSCHEMA))
}

/// Bound on the median latency that detects Nagle's algorithm with delayed acknowledgements, which takes 40 ms. The
/// slowest calls wait for the scheduler, so they are not bounded.
const NO_DELAY: TargetBound = TargetBound::Most(5_000.0);

/// Multiple of the calls without observers, over the same transport.
const fn with_observers(workload: &'static str, most: f64, of: &'static str) -> Target {
    target(workload, Figure::Instructions, TargetBound::MostTimesOwn(most, of))
}

/// Share that observers which are not there may cost: what the compiler arranges differently in another program.
const UNCHANGED: f64 = 1.01;

const TARGETS: &[Target] = &[
    target("stdio-legacy", Figure::Instructions, TargetBound::Most(8_000.0)),
    target("stdio-legacy", Figure::Allocations, TargetBound::Most(6.0)),
    target("stdio-modern", Figure::Instructions, TargetBound::Most(10_500.0)),
    target("http-stateless", Figure::Instructions, TargetBound::Most(25_000.0)),
    target("http-session", Figure::Instructions, TargetBound::Most(27_000.0)),
    target("http-modern", Figure::Instructions, TargetBound::Most(31_000.0)),
    target("stdio-echo-64k", Figure::Instructions, TargetBound::Most(600_000.0)),
    with_observers("observed-none", UNCHANGED, "stdio-legacy"),
    with_observers("observed-metrics", 1.03, "observed-none"),
    with_observers("observed-traces", 1.05, "observed-none"),
    with_observers("observed-none-http-modern", UNCHANGED, "http-modern"),
    with_observers("observed-metrics-http-modern", 1.03, "observed-none-http-modern"),
    with_observers("observed-traces-http-modern", 1.05, "observed-none-http-modern"),
    with_observers("observed-none-http-session", UNCHANGED, "http-session"),
    with_observers("observed-metrics-http-session", 1.03, "observed-none-http-session"),
    with_observers("observed-traces-http-session", 1.05, "observed-none-http-session"),
    near_bare("http-modern-16"),
    near_bare("http-modern-128"),
    near_bare("http-session-16"),
    near_bare("http-session-128"),
    near_bare("http-stateless-16"),
    near_bare("http-stateless-128"),
    target("pipelined-10000", Figure::Rate, TargetBound::LeastTimes(0.8, BARE)),
    target("pipelined-50000", Figure::Rate, TargetBound::LeastTimes(0.8, BARE)),
    target("pipelined-50000", Figure::Peak, TargetBound::MostTimesOwn(1.1, "pipelined-10000")),
    target("progress-modern", Figure::Events, TargetBound::LeastTimes(1.5, BARE)),
    target("progress-modern", Figure::Lost, TargetBound::Most(0.0)),
    target("progress-session", Figure::Events, TargetBound::LeastTimes(1.5, BARE)),
    target("progress-session", Figure::Lost, TargetBound::Most(0.0)),
    near_bare("list-1000"),
    target("call-1000-tools", Figure::TimesPlain, TargetBound::Most(1.1)),
    target("call-10000-sessions", Figure::TimesPlain, TargetBound::Most(1.1)),
    target("echo-1m-http", Figure::Cpu, TargetBound::MostTimes(0.65, BARE)),
    target("memory-session", Figure::BytesEach, TargetBound::Most(512.0)),
    target("memory-listen", Figure::BytesEach, TargetBound::Most(4096.0)),
    target("memory-get-stream", Figure::BytesEach, TargetBound::Most(4096.0)),
    target("cold-start", Figure::Cold, TargetBound::MostTimes(1.2, BARE)),
    target("cold-start", Figure::Memory, TargetBound::Most(4e6)),
    target("size", Figure::Quickstart, TargetBound::Most(4.5e6)),
    target("crates", Figure::Crates, TargetBound::Most(90.0)),
    target("build", Figure::BuildCpu, TargetBound::MostTimes(1.0, RMCP)),
    target("http-modern-1", Figure::Median, NO_DELAY),
    target("http-session-1", Figure::Median, NO_DELAY),
    target("http-stateless-1", Figure::Median, NO_DELAY),
    target("progress-alone", Figure::Median, NO_DELAY),
    target("stdio-legacy", Figure::Median, NO_DELAY),
    target("stdio-modern", Figure::Median, NO_DELAY),
    at_most_jsonschema("schema-issue", Figure::Validation),
    at_most_jsonschema("schema-event", Figure::Validation),
    at_most_jsonschema("schema-order", Figure::Validation),
    at_most_jsonschema("schema-issue", Figure::Compilation),
    at_most_jsonschema("schema-event", Figure::Compilation),
    at_most_jsonschema("schema-order", Figure::Compilation),
    at_most_jsonschema("schema-issue-counted", Figure::Instructions),
    at_most_jsonschema("schema-event-counted", Figure::Instructions),
    at_most_jsonschema("schema-order-counted", Figure::Instructions),
];

/// Evaluates the targets of the measured workloads.
pub(crate) fn evaluate(outcomes: &[Outcome]) -> Vec<TargetResult> {
    TARGETS.iter().filter_map(|target| target.evaluate(outcomes)).collect()
}

impl Target {
    fn evaluate(&self, outcomes: &[Outcome]) -> Option<TargetResult> {
        let find = |name: &str| outcomes.iter().find(|outcome| outcome.name == name);
        let (outcome, figure) = (find(self.workload)?, self.figure);
        let times = |other| outcome.ratio(figure, WHARF, other);
        let multiple = |ratio: f64, of: &str| format!("{ratio:.2} × {of}");
        let (measured, bound, is_met) = match self.bound {
            TargetBound::Most(most) => {
                let value = outcome.median(figure, WHARF)?;
                (figure.show(value), format!("≤ {}", figure.show(most)), value <= most)
            }
            TargetBound::MostTimes(most, of) => {
                let ratio = times(of)?;
                (multiple(ratio, of), format!("≤ {most} × {of}"), ratio <= most)
            }
            TargetBound::LeastTimes(least, of) => {
                let ratio = times(of)?;
                (multiple(ratio, of), format!("≥ {least} × {of}"), ratio >= least)
            }
            TargetBound::MostTimesOwn(most, name) => {
                let ratio = outcome.median(figure, WHARF)? / find(name)?.median(figure, WHARF)?;
                (multiple(ratio, name), format!("≤ {most} × {name}"), ratio <= most)
            }
        };
        let (workload, title) = (outcome.name.clone(), outcome.title.clone());
        Some(TargetResult { workload, title, figure, bound, measured, is_met })
    }
}
