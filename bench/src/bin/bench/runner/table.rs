//! Markdown tables of the results.

use std::fmt::Write;

use super::contenders::{BARE, FASTMCP, JSONSCHEMA, RMCP, WHARF};
use super::figures::Figure;
use super::results::Outcome;
use super::targets::TargetResult;

/// One row per figure: the values of all servers, then the ratios of Wharf to some of them.
pub(crate) fn outcomes(outcomes: &[Outcome]) -> String {
    let Some(first) = outcomes.first() else { return String::new() };
    let servers: Vec<&str> = first.entries.iter().map(|entry| entry.server).collect();
    let ratios =
        [BARE, RMCP, FASTMCP, JSONSCHEMA].into_iter().filter(|server| servers.contains(server));
    let ratios: Vec<&str> = ratios.collect();
    let mut header = vec!["workload".to_owned(), "figure".to_owned()];
    header.extend(servers.iter().map(|server| (*server).to_owned()));
    header.extend(ratios.iter().map(|server| format!("wharf / {server}")));
    let mut rows = Vec::new();
    for outcome in outcomes {
        for (at, figure) in outcome.figures.iter().enumerate() {
            let title = if at == 0 { outcome.title.clone() } else { String::new() };
            let mut row = vec![title, figure.title().to_owned()];
            row.extend(servers.iter().map(|server| {
                outcome.median(*figure, server).map_or("–".to_owned(), |value| figure.show(value))
            }));
            row.extend(ratios.iter().map(|other| {
                let ratio = outcome.ratio(*figure, WHARF, other);
                ratio.map_or("–".to_owned(), |ratio| format!("{ratio:.2}"))
            }));
            rows.push(row);
        }
    }
    markdown(&header, &rows)
}

/// Notes: errors, and rates that were not limited by the server.
pub(crate) fn notes(outcomes: &[Outcome]) -> String {
    let mut text = String::new();
    for outcome in outcomes {
        let failed = outcome.entries.iter().filter_map(|it| Some((it.server, it.error.as_ref()?)));
        for (server, why) in failed {
            let _ = writeln!(text, "- {}, {server}: {why}", outcome.title);
        }
        let idle = outcome.entries.iter().filter(|_| outcome.figures.contains(&Figure::Rate));
        let idle =
            idle.filter_map(|it| Some((it.server, it.share()?)).filter(|(_, share)| *share < 0.9));
        let idle: Vec<String> =
            idle.map(|(server, share)| format!("{server} {:.0} %", share * 100.0)).collect();
        if !idle.is_empty() {
            let _ = writeln!(
                text,
                "- {}: cores were not busy ({}), so the rates are not what these servers can do",
                outcome.title,
                idle.join(", ")
            );
        }
    }
    text
}

/// Table of the targets and the measured values.
pub(crate) fn verdicts(verdicts: &[TargetResult]) -> String {
    let header = ["what", "figure", "target", "measured", ""].map(str::to_owned);
    let rows = verdicts.iter().map(|verdict| {
        let mark = if verdict.is_met { "met" } else { "**MISSED**" };
        vec![
            verdict.title.clone(),
            verdict.figure.title().to_owned(),
            verdict.bound.clone(),
            verdict.measured.clone(),
            mark.to_owned(),
        ]
    });
    markdown(&header, &rows.collect::<Vec<_>>())
}

fn markdown(header: &[String], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| &row[column]).chain([&header[column]]);
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &[String]| {
        for (cell, width) in cells.iter().zip(&widths) {
            let _ = write!(text, "| {cell:<width$} ");
        }
        text.push_str("|\n");
    };
    line(header);
    line(&widths.iter().map(|width| "-".repeat(*width)).collect::<Vec<_>>());
    rows.iter().for_each(|row| line(row));
    text
}
