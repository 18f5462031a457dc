//! Runs the official conformance suite against `everything-server`, `everything-client` and `everything-authority`.

mod authorization;
mod report;
mod scenario;
mod server;
mod suite;

use std::collections::HashSet;
use std::time::Instant;

use crate::files::{remove_directory, write};
use crate::workspace::Workspace;
use report::{Report, Row};
use scenario::Scenario;
use server::Server;
use suite::{Side, Suite};

/// What the suite is asked to run. It says itself what belongs to each.
struct Set {
    name: &'static str,
    /// How many scenarios it has: results that are missing must not pass for good ones.
    scenarios: usize,
}

impl Set {
    fn arguments(&self) -> [&'static str; 2] {
        match self.name {
            ALL => ["--suite", ALL],
            revision => ["--requirements", revision],
        }
    }
}

const ALL: &str = "all";

/// How the server is told to choose a port.
const SERVE: &[&str] = &["--http", "127.0.0.1:0"];

const SERVER_SETS: [Set; 3] = [
    Set { name: "2025-11-25", scenarios: 33 },
    Set { name: "2026-07-28", scenarios: 50 },
    Set { name: ALL, scenarios: 65 },
];

const CLIENT_SETS: [Set; 3] = [
    Set { name: "2025-11-25", scenarios: 25 },
    Set { name: "2026-07-28", scenarios: 39 },
    Set { name: ALL, scenarios: 48 },
];

/// The suite has no requirement set for authorization servers: all that it has, by the revision that it is for.
const AUTHORIZATION_SETS: [Set; 2] =
    [Set { name: "2025-11-25", scenarios: 2 }, Set { name: "2026-07-28", scenarios: 2 }];

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let home = workspace.target.join("conformance");
    let suite = Suite::install(workspace, &home)?;
    workspace.cargo(
        "build --workspace --all-features --bin everything-server --bin everything-client --bin everything-authority",
    )?;
    remove_directory(&suite.results)?;
    let mut report = Report::default();
    let mut server = Server::start(&workspace.program("everything-server"), SERVE)?;
    println!("everything-server: {}", server.url);
    run_server(&suite, &server.url, &mut report).inspect_err(|_| server.explain())?;
    run_client(&suite, &mut report)?;
    run_authorization(&suite, workspace, &mut report)?;
    let path = home.join("report.md");
    write(&path, &report.to_string())?;
    println!("\n{report}\n{}", path.display());
    report.judge().inspect_err(|_| server.explain())
}

fn run_server(suite: &Suite, url: &str, report: &mut Report) -> Result<(), String> {
    for set in &SERVER_SETS {
        let scenarios = run_set(suite, &Side::Server { url }, set)?;
        report.rows.extend(scenarios.into_iter().map(|it| Row::new("server", set.name, it)));
    }
    Ok(())
}

/// Against the OAuth proxy. The same program is the person who agrees.
fn run_authorization(
    suite: &Suite,
    workspace: &Workspace,
    report: &mut Report,
) -> Result<(), String> {
    let program = workspace.program("everything-authority");
    let mut proxy = Server::start(&program, &[])?;
    println!("everything-authority: {}", proxy.url);
    for set in &AUTHORIZATION_SETS {
        let url = proxy.url.clone();
        let side = Side::Authorization { url: &url, person: &program };
        let scenarios = run_set(suite, &side, set).inspect_err(|_| proxy.explain())?;
        let rows = scenarios.into_iter().map(|it| Row::new("authorization", set.name, it));
        report.rows.extend(rows);
    }
    Ok(())
}

/// All at once, as the suite does it, and then each alone, where also exit codes and warnings count.
fn run_client(suite: &Suite, report: &mut Report) -> Result<(), String> {
    let mut seen = HashSet::new();
    for set in &CLIENT_SETS {
        for scenario in run_set(suite, &Side::Client, set)? {
            let name = scenario.name.clone();
            let can_be_alone = !scenario.is_waiting() && !scenario.is_lost();
            let row = Row::new("client", set.name, scenario);
            // What other sets have too was run alone with each revision already.
            let is_new = seen.insert(name.clone());
            let is_alone = can_be_alone && (set.name != ALL || is_new || !row.is_good());
            let alone = is_alone.then(|| run_alone(suite, &name, set)).transpose()?;
            report.rows.push(row.or_flaky(alone.as_ref().is_some_and(Row::is_good)));
            report.rows.extend(alone);
        }
    }
    Ok(())
}

fn run_set(suite: &Suite, side: &Side<'_>, set: &Set) -> Result<Vec<Scenario>, String> {
    let began = Instant::now();
    let which = match side {
        Side::Authorization { .. } => ["--spec-version", set.name],
        _ => set.arguments(),
    };
    let mut scenarios = suite.run_set(side, set.name, &which)?;
    let (found, expected) = (scenarios.len(), set.scenarios);
    if found != expected {
        scenarios.push(Scenario::lost(format!("{found} of {expected} have results")));
    }
    println!("{side} {}: {found} scenarios, {:.1} s", set.name, began.elapsed().as_secs_f32());
    Ok(scenarios)
}

/// One scenario by itself. It is run again before its failure is believed: the machine may be busy.
fn run_alone(suite: &Suite, name: &str, set: &Set) -> Result<Row, String> {
    let revision = Some(set.name).filter(|name| *name != ALL);
    let row = |scenario| Row::new("client, alone", set.name, scenario);
    let first = row(suite.run_alone(name, revision)?);
    if first.is_good() {
        return Ok(first);
    }
    let second = row(suite.run_alone(name, revision)?);
    let passed = second.is_good();
    Ok(if passed { first.or_flaky(true) } else { second })
}
