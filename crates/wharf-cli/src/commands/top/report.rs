//! Report of the time between two scrapes.

use std::collections::BTreeMap;

use serde::Serialize;

use super::snapshot::{CallKey, CallTotals, Snapshot};

/// State of a server, and its activity since the scrape before. Programs read the field names, so they are stable.
#[derive(Debug, Serialize)]
pub(super) struct TopReport {
    pub(super) target: String,
    pub(super) version: String,
    pub(super) uptime_s: Option<f64>,
    pub(super) interval_s: f64,
    pub(super) calls_per_s: f64,
    pub(super) errors_per_s: f64,
    pub(super) refused_per_s: f64,
    pub(super) received_bytes_per_s: f64,
    pub(super) sent_bytes_per_s: f64,
    pub(super) in_flight: f64,
    pub(super) waiting: f64,
    pub(super) sessions: BTreeMap<String, f64>,
    pub(super) streams: BTreeMap<String, f64>,
    pub(super) tasks: BTreeMap<String, f64>,
    /// True if the upstream server is connected.
    pub(super) upstreams: BTreeMap<String, bool>,
    pub(super) failing_stores: Vec<String>,
    pub(super) memory_bytes: f64,
    pub(super) open_fds: f64,
    pub(super) max_fds: f64,
    pub(super) calls: Vec<CallRow>,
}

/// Calls of one method and target. The quantiles are upper boundaries of buckets; that of the last bucket is unknown.
#[derive(Debug, Serialize)]
pub(super) struct CallRow {
    pub(super) role: &'static str,
    pub(super) method: String,
    pub(super) target: String,
    pub(super) total: f64,
    pub(super) total_errors: f64,
    pub(super) calls_per_s: f64,
    pub(super) errors_per_s: f64,
    pub(super) mean_s: Option<f64>,
    pub(super) p50_s: Option<f64>,
    pub(super) p95_s: Option<f64>,
    pub(super) p99_s: Option<f64>,
}

impl TopReport {
    pub(super) fn new(target: &str, before: &Snapshot, now: &Snapshot, unix_time: f64) -> Self {
        let seconds = (now.taken - before.taken).as_secs_f64();
        // A counter that is smaller than before began again with the process.
        let growth = |now: f64, before: f64| if now < before { now } else { now - before };
        let rate = |name: &str| per_second(growth(now.sum(name), before.sum(name)), seconds);
        let bytes = |direction: &str| {
            let at = |snapshot: &Snapshot| {
                let all = snapshot.by_label("wharf_bytes_total", "direction");
                all.get(direction).copied().unwrap_or_default()
            };
            per_second(growth(at(now), at(before)), seconds)
        };
        let open = |name: &str| {
            let mut values = now.by_label(name, "transport");
            values.retain(|_, count| *count != 0.0);
            values
        };
        let mut served = CallTotals::default();
        let mut calls = Vec::new();
        for (key, totals) in &now.calls {
            let recent = totals.since(before.calls.get(key));
            if key.role == "server" {
                served.add(&recent);
            }
            calls.push(row(key, totals, &recent, seconds));
        }
        // The busiest first; equal ones keep their alphabetic order.
        calls.sort_by(|a: &CallRow, b| {
            b.calls_per_s.total_cmp(&a.calls_per_s).then(b.total.total_cmp(&a.total))
        });
        let started = now.sum("process_start_time_seconds");
        let failing = now.by_label("wharf_store_failing", "store").into_iter();
        let upstreams = now.by_label("wharf_upstream_up", "mcp_upstream").into_iter();
        TopReport {
            target: target.to_owned(),
            version: now.version(),
            uptime_s: (started > 0.0).then(|| (unix_time - started).max(0.0)),
            interval_s: seconds,
            calls_per_s: per_second(served.calls, seconds),
            errors_per_s: per_second(served.errors, seconds),
            refused_per_s: rate("wharf_rejected_total"),
            received_bytes_per_s: bytes("received"),
            sent_bytes_per_s: bytes("sent"),
            in_flight: now.sum("wharf_requests_in_flight"),
            waiting: now.sum("wharf_requests_waiting"),
            sessions: open("wharf_sessions"),
            streams: open("wharf_streams"),
            tasks: now.by_label("wharf_tasks", "state"),
            upstreams: upstreams.map(|(name, up)| (name, up == 1.0)).collect(),
            failing_stores: failing.filter(|it| it.1 == 1.0).map(|it| it.0).collect(),
            memory_bytes: now.sum("process_resident_memory_bytes"),
            open_fds: now.sum("process_open_fds"),
            max_fds: now.sum("process_max_fds"),
            calls,
        }
    }
}

fn row(key: &CallKey, totals: &CallTotals, recent: &CallTotals, seconds: f64) -> CallRow {
    let known = |share: f64| recent.quantile(share).filter(|bound| bound.is_finite());
    CallRow {
        role: key.role,
        method: key.method.clone(),
        target: key.target.clone(),
        total: totals.calls,
        total_errors: totals.errors,
        calls_per_s: per_second(recent.calls, seconds),
        errors_per_s: per_second(recent.errors, seconds),
        mean_s: recent.mean(),
        p50_s: known(0.5),
        p95_s: known(0.95),
        p99_s: known(0.99),
    }
}

fn per_second(count: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { count / seconds } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::Instant;

    use super::*;

    fn report(before: &str, now: &str) -> TopReport {
        let start = Instant::now();
        let info = "wharf_build_info{version=\"1.2.3\"} 1\nprocess_start_time_seconds 900\n";
        let snapshot = |page: &str, at| Snapshot::parse(&format!("{info}{page}"), at).unwrap();
        let before = snapshot(before, start);
        let now = snapshot(now, start + Duration::from_secs(2));
        TopReport::new("here", &before, &now, 1000.0)
    }

    /// A histogram with these numbers of calls up to 10 ms, 1 s and infinity.
    fn calls(tool: &str, error: &str, counts: [u32; 3], sum: f64) -> String {
        let name = "mcp_server_operation_duration_seconds";
        let labels = format!("mcp_method_name=\"tools/call\",gen_ai_tool_name=\"{tool}\"{error}");
        let [a, b, c] = counts;
        format!(
            "{name}_bucket{{{labels},le=\"0.01\"}} {a}\n{name}_bucket{{{labels},le=\"1\"}} {b}\n\
             {name}_bucket{{{labels},le=\"+Inf\"}} {c}\n{name}_sum{{{labels}}} {sum}\n\
             {name}_count{{{labels}}} {c}\n"
        )
    }

    #[test]
    fn rates_and_quantiles_are_those_of_the_interval() {
        let failed = ",error_type=\"tool_error\"";
        let before = calls("echo", "", [100, 100, 100], 1.0);
        let now = calls("echo", "", [106, 109, 110], 3.0)
            + &calls("echo", failed, [0, 2, 2], 2.0)
            + "wharf_rejected_total{reason=\"a\"} 1\nwharf_rejected_total{reason=\"b\"} 3\n";
        let report = report(&before, &now);
        assert_eq!(
            (report.calls_per_s, report.errors_per_s, report.refused_per_s),
            (6.0, 1.0, 2.0)
        );
        assert_eq!((report.version.as_str(), report.uptime_s), ("1.2.3", Some(100.0)));
        let row = &report.calls[0];
        assert_eq!((row.target.as_str(), row.total, row.total_errors), ("echo", 112.0, 2.0));
        assert_eq!((row.p50_s, row.p95_s, row.p99_s), (Some(0.01), None, None));
        assert_eq!(row.mean_s, Some(4.0 / 12.0));
    }

    #[test]
    fn a_server_that_started_again_counts_from_zero() {
        let report =
            report(&calls("echo", "", [50, 50, 50], 9.0), &calls("echo", "", [4, 4, 4], 0.5));
        assert_eq!((report.calls_per_s, report.calls[0].total), (2.0, 4.0));
        assert_eq!(report.calls[0].p99_s, Some(0.01));
    }

    #[test]
    fn an_idle_tool_has_no_latency() {
        let same = calls("echo", "", [5, 5, 5], 0.1);
        let report = report(&same, &same);
        let row = &report.calls[0];
        assert_eq!((row.calls_per_s, row.mean_s, row.p50_s), (0.0, None, None));
    }

    #[test]
    fn states_are_those_of_the_last_scrape() {
        let report = report(
            "",
            "wharf_sessions{transport=\"http\"} 3\nwharf_sessions{transport=\"tcp\"} 0\n\
             wharf_upstream_up{mcp_upstream=\"files\"} 1\nwharf_upstream_up{mcp_upstream=\"git\"} 0\n\
             wharf_store_failing{store=\"redis\"} 1\nwharf_tasks{state=\"working\"} 2\n",
        );
        assert_eq!(report.sessions, BTreeMap::from([("http".to_owned(), 3.0)]));
        let upstreams = [("files".to_owned(), true), ("git".to_owned(), false)];
        assert_eq!(report.upstreams, BTreeMap::from(upstreams));
        assert_eq!(report.failing_stores, ["redis"]);
        assert_eq!(report.tasks["working"], 2.0);
    }
}
