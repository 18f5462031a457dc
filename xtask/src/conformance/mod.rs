//! Runs the official conformance suite against `everything-server`, `everything-client` and `everything-authority`.

mod authorization;
mod expected_failures;
mod report;
mod scenario_result;
mod server;
mod suite;

use std::collections::HashSet;
use std::time::Instant;

use crate::files::{remove_directory, write};
use crate::workspace::Workspace;
use report::{Report, ReportRow};
use scenario_result::Scenario;
use server::ServerProcess;
use suite::{Suite, SuiteSide};

/// Set of scenarios, as the suite defines it.
struct ScenarioSet {
    name: &'static str,
    /// Number of scenarios: missing results must not count as passed.
    scenarios: usize,
}

impl ScenarioSet {
    fn arguments(&self) -> [&'static str; 2] {
        match self.name {
            ALL => ["--suite", ALL],
            revision => ["--requirements", revision],
        }
    }
}

const ALL: &str = "all";

/// Arguments for serving HTTP at a free port, whose URL is printed as text.
const SERVE_ARGS: &[&str] = &["--http", "127.0.0.1:0", "--log-format", "text"];

const SERVER_SETS: [ScenarioSet; 3] = [
    ScenarioSet { name: "2025-11-25", scenarios: 33 },
    ScenarioSet { name: "2026-07-28", scenarios: 50 },
    ScenarioSet { name: ALL, scenarios: 65 },
];

const CLIENT_SETS: [ScenarioSet; 3] = [
    ScenarioSet { name: "2025-11-25", scenarios: 25 },
    ScenarioSet { name: "2026-07-28", scenarios: 39 },
    ScenarioSet { name: ALL, scenarios: 48 },
];

/// Scenarios for authorization servers, by revision: the suite has no requirement set for them.
const AUTHORIZATION_SETS: [ScenarioSet; 2] = [
    ScenarioSet { name: "2025-11-25", scenarios: 2 },
    ScenarioSet { name: "2026-07-28", scenarios: 2 },
];

/// Builds the programs under test.
pub(crate) fn build(workspace: &Workspace) -> Result<(), String> {
    workspace.cargo(
        "build --workspace --all-features --bin everything-server --bin everything-client --bin everything-authority",
    )
}

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let home = workspace.target.join("conformance");
    let suite = Suite::install(workspace, &home)?;
    build(workspace)?;
    remove_directory(&suite.results)?;
    let mut report = Report::default();
    let mut server = ServerProcess::start(&workspace.program("everything-server"), SERVE_ARGS)?;
    println!("everything-server: {}", server.url);
    run_server(&suite, &server.url, &mut report).inspect_err(|_| server.print_status())?;
    run_client(&suite, &mut report)?;
    run_authorization(&suite, workspace, &mut report)?;
    let path = home.join("report.md");
    write(&path, &report.to_string())?;
    println!("\n{report}\n{}", path.display());
    report.check().inspect_err(|_| server.print_status())
}

fn run_server(suite: &Suite, url: &str, report: &mut Report) -> Result<(), String> {
    for set in &SERVER_SETS {
        let scenarios = run_set(suite, &SuiteSide::Server { url }, set)?;
        report.rows.extend(scenarios.into_iter().map(|it| ReportRow::new("server", set.name, it)));
    }
    Ok(())
}

/// Runs the authorization scenarios against the OAuth proxy. The same program also acts as the consenting user.
fn run_authorization(
    suite: &Suite,
    workspace: &Workspace,
    report: &mut Report,
) -> Result<(), String> {
    let program = workspace.program("everything-authority");
    let mut proxy = ServerProcess::start(&program, &[])?;
    println!("everything-authority: {}", proxy.url);
    for set in &AUTHORIZATION_SETS {
        let url = proxy.url.clone();
        let side = SuiteSide::Authorization { url: &url, user_agent: &program };
        let scenarios = run_set(suite, &side, set).inspect_err(|_| proxy.print_status())?;
        let rows = scenarios.into_iter().map(|it| ReportRow::new("authorization", set.name, it));
        report.rows.extend(rows);
    }
    Ok(())
}

/// Runs the client scenarios together, then each by itself: only then do exit codes and warnings count.
fn run_client(suite: &Suite, report: &mut Report) -> Result<(), String> {
    let mut seen = HashSet::new();
    for set in &CLIENT_SETS {
        for scenario in run_set(suite, &SuiteSide::Client, set)? {
            let name = scenario.name.clone();
            let can_be_alone =
                !expected_failures::may_fail(&scenario.name) && !scenario.has_no_results();
            let row = ReportRow::new("client", set.name, scenario);
            // Scenarios of an earlier set were already run by themselves with each revision.
            let is_new = seen.insert(name.clone());
            let is_alone = can_be_alone && (set.name != ALL || is_new || !row.passed());
            let alone = is_alone.then(|| run_alone(suite, &name, set)).transpose()?;
            report.rows.push(row.flaky_if(alone.as_ref().is_some_and(ReportRow::passed)));
            report.rows.extend(alone);
        }
    }
    Ok(())
}

fn run_set(
    suite: &Suite,
    side: &SuiteSide<'_>,
    set: &ScenarioSet,
) -> Result<Vec<Scenario>, String> {
    let began = Instant::now();
    let which = match side {
        SuiteSide::Authorization { .. } => ["--spec-version", set.name],
        _ => set.arguments(),
    };
    let mut scenarios = suite.run_set(side, set.name, &which)?;
    let (found, expected) = (scenarios.len(), set.scenarios);
    if found != expected {
        scenarios.push(Scenario::without_results(format!(
            "{found} of {expected} scenarios have results"
        )));
    }
    println!("{side} {}: {found} scenarios, {:.1} s", set.name, began.elapsed().as_secs_f32());
    Ok(scenarios)
}

/// Runs one scenario by itself, and repeats a failure once, because the machine may be busy.
fn run_alone(suite: &Suite, name: &str, set: &ScenarioSet) -> Result<ReportRow, String> {
    let revision = Some(set.name).filter(|name| *name != ALL);
    let row = |scenario| ReportRow::new("client, alone", set.name, scenario);
    let first = row(suite.run_alone(name, revision)?);
    if first.passed() {
        return Ok(first);
    }
    let second = row(suite.run_alone(name, revision)?);
    let passed = second.passed();
    Ok(if passed { first.flaky_if(true) } else { second })
}
