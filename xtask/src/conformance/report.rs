//! What the suite found, as a table.

use std::fmt;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::files::read;

/// Scenarios of extensions that Wharf does not have yet, by how their names begin.
const WAITING: [&str; 2] = ["tasks-", "sep-2640-"];

/// How a check can end, other than by merely telling something.
const STATUSES: [&str; 4] = ["SUCCESS", "FAILURE", "WARNING", "SKIPPED"];

/// The check that every scenario has: that all messages fit the schema, however few they were.
const COMMON: &str = "wire-schema-valid";

/// What one scenario found.
pub(crate) struct Scenario {
    name: String,
    /// Whether a check of its own passed.
    proven: bool,
    /// How many checks ended with each of [`STATUSES`].
    counts: [usize; STATUSES.len()],
    /// The checks that did not pass, and why.
    remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Waiting,
}

impl Scenario {
    fn new(name: &str, checks: &[Value]) -> Self {
        let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
        let with = |status| checks.iter().filter(move |check| check["status"] == status);
        let remark = |check: &Value| {
            let [status, id, why] = ["status", "id", "errorMessage"].map(|key| text(check, key));
            format!("{} {id}: {}", status.to_lowercase(), why.replace('\n', " "))
        };
        Self {
            name: name.to_owned(),
            proven: with("SUCCESS").any(|check| check["id"] != COMMON),
            counts: STATUSES.map(|status| with(status).count()),
            remarks: STATUSES[1..].iter().flat_map(|status| with(*status)).map(remark).collect(),
        }
    }

    /// Stands for scenarios that have no results.
    pub(crate) fn lost(why: String) -> Self {
        let name = "(without results)".to_owned();
        Self { name, proven: false, counts: [0, 1, 0, 0], remarks: vec![why] }
    }

    /// Warnings count: all that the suite recommends can be done. A scenario that has checked nothing
    /// has not passed.
    fn verdict(&self) -> Verdict {
        let [_, failed, warnings, skipped] = self.counts;
        let passed = self.proven && failed == 0 && warnings == 0;
        let of_extension = WAITING.iter().any(|extension| self.name.starts_with(extension));
        match (passed, of_extension) {
            (true, true) if skipped > 0 => Verdict::Waiting,
            (true, _) => Verdict::Passed,
            (false, true) => Verdict::Waiting,
            (false, false) => Verdict::Failed,
        }
    }
}

/// What all scenarios of all sets found. It shows itself as Markdown.
#[derive(Default)]
pub(crate) struct Report {
    rows: Vec<(&'static str, Scenario)>,
}

impl Report {
    pub(crate) fn add(&mut self, set: &'static str, scenarios: Vec<Scenario>) {
        self.rows.extend(scenarios.into_iter().map(|scenario| (set, scenario)));
    }

    /// An error if a scenario failed that is not of an extension to come.
    pub(crate) fn judge(&self) -> Result<(), String> {
        match self.count(Verdict::Failed) {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} scenarios did not pass", self.rows.len())),
        }
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &(&'static str, Scenario)> {
        self.rows.iter().filter(move |(_, scenario)| scenario.verdict() == verdict)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.with(verdict).count()
    }

    /// Each scenario's checks that did not pass. Of those that wait, none is news.
    fn remarks(&self, f: &mut fmt::Formatter<'_>, verdict: Verdict) -> fmt::Result {
        for (set, scenario) in self.with(verdict).filter(|(_, it)| !it.remarks.is_empty()) {
            writeln!(f, "\n{} ({set}):", scenario.name)?;
            for remark in &scenario.remarks {
                writeln!(f, "- {remark}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|(_, it)| it.name.len()).max().unwrap_or_default();
        writeln!(f, "# Conformance\n")?;
        let (scenario, line) = ("scenario", "");
        writeln!(
            f,
            "| {scenario:width$} | set        | passed | failed | warnings | skipped | verdict |\n\
             | {line:-<width$} | ---------- | -----: | -----: | -------: | ------: | ------- |"
        )?;
        for (set, scenario) in &self.rows {
            let [passed, failed, warnings, skipped] = scenario.counts;
            let verdict = format!("{:?}", scenario.verdict()).to_lowercase();
            writeln!(
                f,
                "| {:width$} | {set:10} | {passed:6} | {failed:6} | {warnings:8} | {skipped:7} | {verdict:7} |",
                scenario.name,
            )?;
        }
        self.remarks(f, Verdict::Passed)?;
        self.remarks(f, Verdict::Failed)?;
        let [passed, failed, waiting] =
            [Verdict::Passed, Verdict::Failed, Verdict::Waiting].map(|verdict| self.count(verdict));
        writeln!(f, "\n{passed} scenarios passed, {failed} failed, {waiting} wait for extensions.")
    }
}

/// Reads what the suite wrote: a directory for each scenario, named after it and the time.
pub(crate) fn read_results(directory: &Path) -> Result<Vec<Scenario>, String> {
    let cannot = |e| format!("cannot read {}: {e}", directory.display());
    let mut scenarios = Vec::new();
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let path = path.join("checks.json");
        // A scenario that broke off has none.
        if !path.exists() {
            continue;
        }
        let json = read(&path)?;
        let checks: Vec<Value> = serde_json::from_str(&json)
            .map_err(|e| format!("{} is not a list of checks: {e}", path.display()))?;
        scenarios.push(Scenario::new(scenario_name(&name), &checks));
    }
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

/// `ping` of `server-ping-2026-11-16T00-59-12-489Z`.
fn scenario_name(directory: &str) -> &str {
    const TIME: usize = "-2026-11-16T00-59-12-489Z".len();
    let name = directory.strip_prefix("server-").unwrap_or(directory);
    name.get(..name.len().saturating_sub(TIME)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_extensions_may_wait_and_warnings_count() {
        use Verdict::{Failed, Passed, Waiting};
        for (name, statuses, expected) in [
            ("ping", &["SUCCESS", "INFO", "SKIPPED"][..], Passed),
            ("ping", &["SUCCESS", "WARNING"], Failed),
            ("ping", &["SUCCESS", "FAILURE"], Failed),
            ("ping", &["SKIPPED"], Failed),
            ("ping", &[], Failed),
            ("tasks-lifecycle", &["SUCCESS"], Passed),
            ("tasks-lifecycle", &["FAILURE"], Waiting),
            ("sep-2640-skills-directory", &["SUCCESS", "SKIPPED"], Waiting),
        ] {
            let checks: Vec<_> = statuses.iter().map(|it| json!({"status": it})).collect();
            assert_eq!(Scenario::new(name, &checks).verdict(), expected, "{name} {statuses:?}");
        }
    }

    #[test]
    fn what_every_scenario_checks_proves_nothing() {
        let checks = [json!({"status": "SUCCESS", "id": COMMON}), json!({"status": "SKIPPED"})];
        assert_eq!(Scenario::new("ping", &checks).verdict(), Verdict::Failed);
    }

    #[test]
    fn the_scenario_is_in_the_directory_name() {
        assert_eq!(scenario_name("server-ping-2026-11-16T00-59-12-489Z"), "ping");
        assert_eq!(
            scenario_name("server-server-sse-polling-2026-11-16T00-59-12-489Z"),
            "server-sse-polling"
        );
    }
}
