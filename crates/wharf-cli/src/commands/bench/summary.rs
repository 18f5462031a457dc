//! Benchmark report for people.

use crate::commands::bench::json_report::{BenchReport, FailureKind, HistogramBar, LatencySummary};
use crate::terminal::{Paint, clean_line, cut, labelled, table, width, wrap};

/// Partial blocks of a bar, in eighths.
const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];

/// Width of the labels in front of the figures.
const LABEL_WIDTH: usize = 12;

/// Minimum width of a bar; a shorter one is not drawn.
const MIN_BAR_WIDTH: usize = 8;

/// Report as lines that fit into `columns`.
pub(super) fn lines(report: &BenchReport, columns: usize, paint: Paint) -> Vec<String> {
    let mut lines = heading(report, columns, paint);
    let mut row = |name: &str, text: &str| {
        // Non-breaking spaces kept related words on one line.
        let told = labelled(name, text, LABEL_WIDTH, columns, paint);
        lines.extend(told.into_iter().map(|line| line.replace('\u{a0}', " ")));
    };
    row("Throughput", &throughput(report));
    row("Errors", &errors(report));
    if report.missed > 0 {
        row("Missed", &missed(report));
    }
    if report.unfinished > 0 {
        row("Unfinished", &format!("{}, not counted above", grouped(report.unfinished)));
    }
    if let Some(latency) = &report.latency {
        row("Latency", &quantiles(latency));
        lines.push(String::new());
        lines.extend(histogram(&report.histogram, columns, paint));
    }
    if report.errors > 0 {
        lines.push(String::new());
        lines.extend(kinds(&report.error_kinds, report.other_errors, columns, paint));
    }
    lines
}

fn heading(report: &BenchReport, columns: usize, paint: Paint) -> Vec<String> {
    let tool = report.tool.as_deref().map(|tool| format!(" {}", clean_line(tool)));
    let called = format!("{}{}", report.method, tool.unwrap_or_default());
    let server = &report.server;
    let name = format!("{} {}", clean_line(&server.name), clean_line(&server.version));
    let connections = plural(report.connections as u64, "connection");
    let in_flight = grouped(report.in_flight as u64);
    let how = match report.rate_per_s {
        None => format!("{connections}, {in_flight} in flight on each"),
        Some(rate) => {
            format!("{rate} a second, {connections}, at most {in_flight} in flight on each")
        }
    };
    let what = format!("{called} at {name} ({})", clean_line(&report.protocol_version));
    let how = format!("{} loop: {how}", if report.mode == "open" { "Open" } else { "Closed" });
    let mut lines: Vec<String> = wrap(&what, columns).iter().map(|it| paint.bold(it)).collect();
    lines.extend(wrap(&how, columns));
    lines.push(String::new());
    lines
}

fn throughput(report: &BenchReport) -> String {
    let calls = plural(report.calls, "call");
    format!(
        "{} a second ({calls} in {:.2}\u{a0}s)",
        rate(report.throughput_per_s),
        report.elapsed_s
    )
}

fn errors(report: &BenchReport) -> String {
    match report.errors {
        0 => "none".to_owned(),
        count => format!("{} ({:.2}\u{a0}%)", grouped(count), report.error_share * 100.0),
    }
}

fn missed(report: &BenchReport) -> String {
    let most = grouped(report.connections as u64 * report.in_flight as u64);
    format!(
        "{} not sent, because {most} were in flight at their scheduled time",
        grouped(report.missed)
    )
}

fn quantiles(latency: &LatencySummary) -> String {
    let named = [
        ("min", latency.min_us),
        ("p50", latency.p50_us),
        ("p90", latency.p90_us),
        ("p99", latency.p99_us),
        ("p99.9", latency.p999_us),
        ("max", latency.max_us),
        ("mean", latency.mean_us),
    ];
    let each = named.map(|(name, us)| format!("{name}\u{a0}{}", time(us).replace(' ', "\u{a0}")));
    each.join(", ")
}

/// One line per range: its lower bound, bar, count, and the cumulative share.
fn histogram(bars: &[HistogramBar], columns: usize, paint: Paint) -> Vec<String> {
    let largest = bars.iter().map(|bar| bar.count).max().unwrap_or(0).max(1);
    let all: u64 = bars.iter().map(|bar| bar.count).sum();
    let counts = width(&grouped(largest));
    // "123.4 µs", two gaps, the count, " 100.0 %".
    let room = columns.saturating_sub(8 + 2 + 2 + counts + 9);
    let room = if room < MIN_BAR_WIDTH { 0 } else { room };
    let mut seen = 0;
    let line = |bar: &HistogramBar| {
        seen += bar.count;
        let (from, count) = (time(bar.from_us), grouped(bar.count));
        let share = seen as f64 / all.max(1) as f64 * 100.0;
        if room == 0 {
            return cut(&format!("{from:>8} {count:>counts$} {share:>4.0} %"), columns);
        }
        let bar_text = bar_text(bar.count, largest, room);
        let fill = " ".repeat(room - width(&bar_text));
        format!("{from:>8}  {}{fill}  {count:>counts$}  {share:>5.1} %", paint.cyan(&bar_text))
    };
    bars.iter().map(line).collect()
}

/// Bar proportional to its count, to an eighth of a column; a count above zero is always visible.
fn bar_text(count: u64, largest: u64, room: usize) -> String {
    let eighths = (count as f64 / largest as f64 * room as f64 * 8.0).round() as usize;
    let eighths = eighths.max(usize::from(count > 0));
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

fn kinds(kinds: &[FailureKind], others: u64, columns: usize, paint: Paint) -> Vec<String> {
    let row = |it: &FailureKind| {
        let code = it.code.map(|code| code.to_string()).unwrap_or_default();
        vec![grouped(it.count), it.kind.to_owned(), code, cut(&clean_line(&it.message), 200)]
    };
    let mut rows: Vec<Vec<String>> = kinds.iter().map(row).collect();
    if others > 0 {
        rows.push(vec![grouped(others), "others".to_owned()]);
    }
    table(&["COUNT", "ERROR", "CODE", "MESSAGE"], &rows, columns, paint)
}

/// Time with three digits.
pub(crate) fn time(us: f64) -> String {
    let (value, unit) = match us {
        us if us >= 1e6 => (us / 1e6, "s"),
        us if us >= 1e3 => (us / 1e3, "ms"),
        us => (us, "µs"),
    };
    match value {
        value if value >= 100.0 => format!("{value:.0} {unit}"),
        value if value >= 10.0 => format!("{value:.1} {unit}"),
        value => format!("{value:.2} {unit}"),
    }
}

/// Rate in calls per second.
pub(crate) fn rate(per_second: f64) -> String {
    if per_second >= 100.0 {
        grouped(per_second.round() as u64)
    } else {
        format!("{per_second:.1}")
    }
}

/// `1 call`, `1,234 calls`.
pub(super) fn plural(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Number with thousands separators.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_readable() {
        for (us, said) in [
            (0.25, "0.25 µs"),
            (93.14, "93.1 µs"),
            (201.4, "201 µs"),
            (1234.0, "1.23 ms"),
            (2.5e6, "2.50 s"),
        ] {
            assert_eq!(time(us), said);
        }
        for (number, said) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(grouped(number), said);
        }
        assert_eq!((rate(12.34), rate(12_345.6)), ("12.3".to_owned(), "12,346".to_owned()));
        assert_eq!(
            (plural(1, "call"), plural(0, "call")),
            ("1 call".to_owned(), "0 calls".to_owned())
        );
    }

    #[test]
    fn bars_are_proportional_to_counts() {
        let lengths = [100, 50, 1, 0].map(|count| width(&bar_text(count, 100, 40)));
        assert_eq!(lengths, [40, 20, 1, 0]);
        assert_eq!(bar_text(1, 1_000_000, 40), "▏");
    }

    #[test]
    fn a_histogram_fits_the_terminal_width() {
        let bar = |at: u32, count| {
            let from_us = 100.0 * 2_f64.powi(at as i32);
            HistogramBar { from_us, to_us: from_us * 2.0, count }
        };
        let bars: Vec<HistogramBar> =
            (0..16).map(|at| bar(at, 12_345 * u64::from(at % 5))).collect();
        for columns in [40, 80, 240] {
            let lines = histogram(&bars, columns, Paint::PLAIN);
            assert!(lines.iter().all(|line| width(line) <= columns), "{lines:#?}");
            assert!(
                lines.iter().any(|line| width(line) == columns) && lines[15].ends_with("100.0 %")
            );
        }
    }
}
