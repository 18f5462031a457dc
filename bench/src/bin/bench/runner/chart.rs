//! SVG chart of the CPU time per call, relative to bare hyper, on a logarithmic scale.

use std::fmt::Write;

use super::contenders::{BARE, WHARF};
use super::figures::Figure;
use super::results::Outcome;

const CHART_WORKLOADS: [&str; 8] = [
    "http-modern-16",
    "http-session-16",
    "http-stateless-16",
    "http-modern-128",
    "list-1000",
    "session-cycle",
    "progress-modern",
    "echo-1m-http",
];

const TICKS: [f64; 9] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0];
const LEFT: f64 = 320.0;
const RIGHT: f64 = 780.0;
const TOP: f64 = 64.0;
const BAR: f64 = 13.0;
const STEP: f64 = 16.0;
const GAP: f64 = 14.0;

const STYLE: &str = "\
text{font:12px system-ui,sans-serif;fill:#1f2328}.title{font-size:15px;font-weight:600}.small{font-size:11px;fill:#59636e}\
.grid{stroke:#d1d9e0}.one{stroke:#1f2328;stroke-width:1.5}.wharf{fill:#0969da}.a{fill:#bc4c00}.b{fill:#8250df}.c{fill:#1a7f37}.d{fill:#9a6700}\
@media(prefers-color-scheme:dark){text{fill:#f0f6fc}.small{fill:#9198a1}.grid{stroke:#3d444d}.one{stroke:#f0f6fc}\
.wharf{fill:#4493f8}.a{fill:#db6d28}.b{fill:#ab7df8}.c{fill:#3fb950}.d{fill:#d29922}}";

/// CSS classes of the other servers.
const OTHER_CLASSES: [&str; 4] = ["a", "b", "c", "d"];

struct Bar {
    server: &'static str,
    class: &'static str,
    times: f64,
}

/// Draws the chart as SVG, for light and dark pages.
pub(crate) fn draw(outcomes: &[Outcome]) -> String {
    let find = |name: &&str| outcomes.iter().find(|outcome| outcome.name == *name);
    let groups: Vec<(&str, Vec<Bar>)> = CHART_WORKLOADS
        .iter()
        .filter_map(find)
        .map(|one| (one.title.as_str(), bars(one)))
        .collect();
    let all = || groups.iter().flat_map(|(_, bars)| bars);
    let most = all().map(|bar| bar.times).fold(10.0, f64::max) * 1.3;
    let rows: f64 = groups.iter().map(|(_, bars)| bars.len() as f64 * STEP + GAP).sum();
    let bottom = TOP + rows;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 890 {height}\" role=\"img\">\n\
         <title>CPU of the server for one call, in terms of bare hyper</title>\n<style>{STYLE}</style>\n\
         <text class=\"title\" x=\"12\" y=\"24\">CPU of the server for one call: bare hyper = 1</text>\n\
         <text class=\"small\" x=\"12\" y=\"42\">shorter is better; logarithmic; left of the line is less than bare hyper</text>\n",
        height = bottom + 34.0,
    );
    draw_scale(&mut svg, most, bottom);
    let mut y = TOP;
    for (title, bars) in &groups {
        let middle = y + bars.len() as f64 * STEP / 2.0 + 3.0;
        let _ = writeln!(svg, "<text x=\"12\" y=\"{middle:.1}\">{title}</text>");
        for bar in bars {
            draw_bar(&mut svg, bar, most, y);
            y += STEP;
        }
        y += GAP;
    }
    svg + "</svg>\n"
}

fn bars(outcome: &Outcome) -> Vec<Bar> {
    let others = outcome.entries.iter().filter(|entry| ![BARE, WHARF].contains(&entry.server));
    let others = others.zip(OTHER_CLASSES).map(|(entry, class)| (entry.server, class));
    let bars = std::iter::once((WHARF, "wharf")).chain(others);
    let bars = bars.filter_map(|(server, class)| {
        Some(Bar { server, class, times: outcome.ratio(Figure::Cpu, server, BARE)? })
    });
    bars.collect()
}

fn draw_scale(svg: &mut String, most: f64, bottom: f64) {
    for tick in TICKS.into_iter().filter(|tick| *tick < most) {
        let (x, class) = (scale_position(tick, most), if tick == 1.0 { "one" } else { "grid" });
        let (top, below) = (TOP - 6.0, bottom + 14.0);
        let _ = writeln!(
            svg,
            "<line class=\"{class}\" x1=\"{x:.1}\" y1=\"{top}\" x2=\"{x:.1}\" y2=\"{bottom}\"/>\
             <text class=\"small\" x=\"{x:.1}\" y=\"{below}\" text-anchor=\"middle\">{tick}×</text>"
        );
    }
}

fn draw_bar(svg: &mut String, bar: &Bar, most: f64, y: f64) {
    let (one, end) = (scale_position(1.0, most), scale_position(bar.times, most));
    let (x, width) = (one.min(end), (one - end).abs().max(1.0));
    let (text, below) = (one.max(end) + 5.0, y + BAR - 3.0);
    let Bar { server, class, times } = bar;
    let times = if *times >= 10.0 { format!("{times:.0}") } else { format!("{times:.2}") };
    let _ = writeln!(
        svg,
        "<rect class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{BAR}\" rx=\"2\"/>\
         <text class=\"small\" x=\"{text:.1}\" y=\"{below:.1}\">{server} {times}×</text>"
    );
}

/// X coordinate of a multiple.
fn scale_position(times: f64, most: f64) -> f64 {
    let least = TICKS[0];
    LEFT + (RIGHT - LEFT) * (times.max(least) / least).ln() / (most / least).ln()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::results::Entry;
    use bench::load::Sample;

    fn entry(server: &'static str, cpu: f64) -> Entry {
        let rounds = vec![Sample::from([("cpu_us", cpu)])];
        Entry { server, rounds, error: None }
    }

    #[test]
    fn each_server_except_bare_has_a_bar_with_its_ratio() {
        let entries = vec![entry(WHARF, 16.0), entry(BARE, 20.0), entry("rmcp", 80.0)];
        let (name, title) = ("list-1000".to_owned(), "tools/list".to_owned());
        let svg = draw(&[Outcome { name, title, figures: &[], entries }]);
        assert_eq!(svg.matches("<rect").count(), 2);
        assert!(svg.contains(">wharf 0.80×<") && svg.contains(">rmcp 4.00×<"), "{svg}");
    }
}
