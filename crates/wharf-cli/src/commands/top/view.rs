//! Report of `wharf top` for people.

use std::collections::BTreeMap;

use super::report::{CallRow, TopReport};
use crate::commands::bench::summary::{grouped, rate, time};
use crate::terminal::{Paint, bytes, clean_line, cut, labelled, table};

/// Width of the labels in front of the figures.
const LABEL_WIDTH: usize = 11;

/// Report as lines that fit into `columns`.
pub(super) fn lines(report: &TopReport, columns: usize, paint: Paint) -> Vec<String> {
    let uptime = report.uptime_s.map(|seconds| format!(", up {}", duration(seconds)));
    let heading = format!(
        "{}  Wharf {}{}",
        clean_line(&report.target),
        clean_line(&report.version),
        uptime.unwrap_or_default()
    );
    let mut lines = vec![paint.bold(&cut(&heading, columns))];
    for (name, text) in figures(report) {
        if !text.is_empty() {
            lines.extend(labelled(name, &text, LABEL_WIDTH, columns, paint));
        }
    }
    lines.push(String::new());
    if report.calls.is_empty() {
        lines.push("No calls yet".to_owned());
        return lines;
    }
    let head = ["CALL", "PER S", "ERRORS", "MEAN", "P50", "P95", "P99"];
    let rows: Vec<Vec<String>> = report.calls.iter().map(cells).collect();
    lines.extend(table(&head, &rows, columns, paint));
    lines
}

fn figures(report: &TopReport) -> [(&'static str, String); 8] {
    let TopReport { in_flight, waiting, .. } = report;
    let upstream = |(name, up): (&String, &bool)| {
        format!("{} {}", clean_line(name), if *up { "up" } else { "DOWN" })
    };
    [
        (
            "Calls",
            format!(
                "{} a second, {} errors, {} refused; {in_flight} in flight, {waiting} waiting",
                rate(report.calls_per_s),
                rate(report.errors_per_s),
                rate(report.refused_per_s),
            ),
        ),
        ("Sessions", counts(&report.sessions)),
        ("Streams", counts(&report.streams)),
        ("Tasks", counts(&report.tasks)),
        ("Upstreams", report.upstreams.iter().map(upstream).collect::<Vec<_>>().join(", ")),
        ("Failing", clean_line(&report.failing_stores.join(", ")).into_owned()),
        (
            "Traffic",
            format!(
                "{} a second in, {} out",
                bytes(whole(report.received_bytes_per_s)),
                bytes(whole(report.sent_bytes_per_s))
            ),
        ),
        (
            "Process",
            format!(
                "{} memory, {} of {} files",
                bytes(whole(report.memory_bytes)),
                report.open_fds,
                report.max_fds
            ),
        ),
    ]
}

fn cells(row: &CallRow) -> Vec<String> {
    let client = if row.role == "client" { " (client)" } else { "" };
    let name = format!("{} {}", row.method, row.target);
    let is_idle = row.mean_s.is_none();
    let errors = match row.errors_per_s {
        0.0 if row.total_errors == 0.0 => String::new(),
        errors => format!("{} ({})", rate(errors), grouped(whole(row.total_errors) as u64)),
    };
    let quantile = |bound: Option<f64>| match bound {
        _ if is_idle => String::new(),
        Some(bound) => format!("<{}", boundary(bound)),
        None => ">5 m".to_owned(),
    };
    let mean = row.mean_s.map(|seconds| time(seconds * 1e6)).unwrap_or_default();
    vec![
        format!("{}{client}", clean_line(name.trim_end())),
        rate(row.calls_per_s),
        errors,
        mean,
        quantile(row.p50_s),
        quantile(row.p95_s),
        quantile(row.p99_s),
    ]
}

/// `http 3, stdio 1`
fn counts(by_name: &BTreeMap<String, f64>) -> String {
    let each = by_name.iter().map(|(name, count)| format!("{} {count}", clean_line(name)));
    each.collect::<Vec<_>>().join(", ")
}

/// Boundary of a bucket: `10 ms`, `2 s`, `5 m`.
fn boundary(seconds: f64) -> String {
    match seconds {
        it if it >= 60.0 => format!("{} m", it / 60.0),
        it if it >= 1.0 => format!("{it} s"),
        // Without the rest of a division that is not exact.
        it => format!("{} ms", (it * 1e6).round() / 1e3),
    }
}

fn duration(seconds: f64) -> String {
    let minutes = whole(seconds / 60.0);
    match (minutes / 1440, minutes / 60 % 24, minutes % 60) {
        (0, 0, 0) => format!("{} s", whole(seconds)),
        (0, 0, minutes) => format!("{minutes} m"),
        (0, hours, minutes) => format!("{hours} h {minutes} m"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates")]
fn whole(number: f64) -> usize {
    number as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        for (seconds, said) in [(0.0001, "0.1 ms"), (0.01, "10 ms"), (2.0, "2 s"), (300.0, "5 m")] {
            assert_eq!(boundary(seconds), said);
        }
        for (seconds, said) in
            [(59.0, "59 s"), (60.0, "1 m"), (3660.0, "1 h 1 m"), (90_000.0, "1 d 1 h")]
        {
            assert_eq!(duration(seconds), said);
        }
    }
}
