//! Benchmark report as JSON.

use std::time::Duration;

use serde::Serialize;

use crate::commands::bench::{
    counters::{CallCounts, CallFailure},
    histogram::{Histogram, HistogramRange},
    load_loop::{LoadMode, LoadPlan},
};

/// Maximum number of ranges in the reported histogram.
const MAX_RANGES: usize = 16;

/// Results and parameters of a benchmark. Programs read the field names, so they are stable.
#[derive(Debug, Serialize)]
pub(super) struct BenchReport {
    pub(super) server: ServerUnderTest,
    pub(super) protocol_version: String,
    pub(super) method: &'static str,
    pub(super) tool: Option<String>,
    pub(super) mode: &'static str,
    pub(super) connections: usize,
    pub(super) in_flight: usize,
    pub(super) rate_per_s: Option<f64>,
    pub(super) warmup_s: f64,
    pub(super) elapsed_s: f64,
    pub(super) calls: u64,
    pub(super) ok: u64,
    pub(super) errors: u64,
    pub(super) error_share: f64,
    pub(super) missed: u64,
    pub(super) unfinished: u64,
    pub(super) interrupted: bool,
    pub(super) throughput_per_s: f64,
    pub(super) latency: Option<LatencySummary>,
    pub(super) histogram: Vec<HistogramBar>,
    pub(super) error_kinds: Vec<FailureKind>,
    pub(super) other_errors: u64,
}

/// Server under test.
#[derive(Debug, Serialize)]
pub(super) struct ServerUnderTest {
    pub(super) name: String,
    pub(super) version: String,
}

/// Latencies of successful calls.
#[derive(Debug, Serialize)]
pub(super) struct LatencySummary {
    pub(super) min_us: f64,
    pub(super) p50_us: f64,
    pub(super) p90_us: f64,
    pub(super) p99_us: f64,
    pub(super) p999_us: f64,
    pub(super) max_us: f64,
    pub(super) mean_us: f64,
}

/// Number of calls in one latency range.
#[derive(Debug, Serialize)]
pub(super) struct HistogramBar {
    pub(super) from_us: f64,
    pub(super) to_us: f64,
    pub(super) count: u64,
}

/// Kind of failure, with its count.
#[derive(Debug, Serialize)]
pub(super) struct FailureKind {
    pub(super) kind: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code: Option<i32>,
    pub(super) message: String,
    pub(super) count: u64,
}

/// Server and operation under test.
pub(super) struct BenchSubject {
    pub(super) server: ServerUnderTest,
    pub(super) protocol_version: String,
    pub(super) method: &'static str,
    pub(super) tool: Option<String>,
    pub(super) connections: usize,
}

/// Measurements of a run.
pub(super) struct BenchResults {
    pub(super) tally: CallCounts,
    pub(super) missed: u64,
    pub(super) warmup: Duration,
    pub(super) elapsed: Duration,
    pub(super) interrupted: bool,
}

impl BenchReport {
    pub(super) fn new(subject: BenchSubject, plan: &LoadPlan, measured: BenchResults) -> Self {
        let BenchSubject { server, protocol_version, method, tool, connections } = subject;
        let BenchResults { mut tally, missed, warmup, elapsed, interrupted } = measured;
        let (mode, rate_per_s) = match plan.pace {
            LoadMode::Closed => ("closed", None),
            LoadMode::Open { rate } => ("open", Some(rate)),
        };
        let (ok, errors) = (tally.succeeded(), tally.failed());
        tally.failures.kinds.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
        BenchReport {
            server,
            protocol_version,
            method,
            tool,
            mode,
            connections,
            in_flight: plan.in_flight,
            rate_per_s,
            warmup_s: warmup.as_secs_f64(),
            elapsed_s: rounded(elapsed.as_secs_f64(), 1e6),
            calls: ok + errors,
            ok,
            errors,
            error_share: share(errors, ok + errors),
            missed,
            unfinished: tally.unfinished(),
            interrupted,
            throughput_per_s: throughput(ok, elapsed),
            latency: (ok > 0).then(|| LatencySummary::of(&tally.latencies)),
            histogram: bars(&tally.latencies),
            error_kinds: tally.failures.kinds.into_iter().map(FailureKind::from).collect(),
            other_errors: tally.failures.others,
        }
    }
}

impl LatencySummary {
    fn of(times: &Histogram) -> Self {
        let at = |share| microseconds(times.quantile(share) as f64);
        LatencySummary {
            min_us: microseconds(times.min() as f64),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: microseconds(times.max() as f64),
            mean_us: microseconds(times.mean()),
        }
    }
}

impl From<(CallFailure, u64)> for FailureKind {
    fn from((failure, count): (CallFailure, u64)) -> Self {
        let CallFailure { kind, code, message, .. } = failure;
        FailureKind { kind, code, message, count }
    }
}

fn bars(times: &Histogram) -> Vec<HistogramBar> {
    if times.count() == 0 {
        return Vec::new();
    }
    let bar = |HistogramRange { from, to, count }| {
        let (from_us, to_us) = (microseconds(from as f64), microseconds(to as f64));
        HistogramBar { from_us, to_us, count }
    };
    times.ranges(MAX_RANGES).into_iter().map(bar).collect()
}

fn throughput(ok: u64, elapsed: Duration) -> f64 {
    let seconds = elapsed.as_secs_f64();
    if seconds > 0.0 { rounded(ok as f64 / seconds, 1e3) } else { 0.0 }
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn microseconds(nanoseconds: f64) -> f64 {
    rounded(nanoseconds / 1e3, 1e3)
}

/// Rounds to the digits that the measurement supports.
fn rounded(value: f64, parts: f64) -> f64 {
    (value * parts).round() / parts
}
