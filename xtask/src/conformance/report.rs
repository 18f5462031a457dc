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

/// What one scenario found.
pub(crate) struct Scenario {
    name: String,
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
            counts: STATUSES.map(|status| with(status).count()),
            remarks: STATUSES[1..].iter().flat_map(|status| with(*status)).map(remark).collect(),
        }
    }

    /// Warnings count: whatever the suite recommends can be done. So does a scenario that checked nothing.
    fn verdict(&self) -> Verdict {
        let [passed, failed, warnings, _skipped] = self.counts;
        if passed > 0 && failed == 0 && warnings == 0 {
            return Verdict::Passed;
        }
        match WAITING.iter().any(|extension| self.name.starts_with(extension)) {
            true => Verdict::Waiting,
            false => Verdict::Failed,
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

    fn count(&self, verdict: Verdict) -> usize {
        self.rows.iter().filter(|(_, scenario)| scenario.verdict() == verdict).count()
    }

    fn remarks(&self, f: &mut fmt::Formatter<'_>, title: &str, verdict: Verdict) -> fmt::Result {
        let mut rows =
            self.rows.iter().filter(|(_, it)| it.verdict() == verdict && !it.remarks.is_empty());
        let Some(first) = rows.next() else { return Ok(()) };
        writeln!(f, "\n## {title}\n")?;
        for (set, scenario) in std::iter::once(first).chain(rows) {
            writeln!(f, "- {} ({set})", scenario.name)?;
            for remark in &scenario.remarks {
                writeln!(f, "  - {remark}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|(_, it)| it.name.len()).max().unwrap_or_default();
        writeln!(f, "# Conformance\n")?;
        let head = ["passed", "failed", "warnings", "skipped"].join(" | ");
        writeln!(f, "| {:width$} | set        | {head} | verdict |", "scenario")?;
        writeln!(
            f,
            "| {:-<width$} | ---------- | -----: | -----: | -------: | ------: | ------- |",
            ""
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
        self.remarks(f, "Passed, but not all of it could be checked", Verdict::Passed)?;
        self.remarks(f, "Waiting for extensions that Wharf does not have yet", Verdict::Waiting)?;
        self.remarks(f, "Failed", Verdict::Failed)?;
        let count = |verdict| self.count(verdict);
        let (passed, failed) = (count(Verdict::Passed), count(Verdict::Failed));
        let waiting = count(Verdict::Waiting);
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
        let json = read(&path.join("checks.json"))?;
        let checks: Vec<Value> = serde_json::from_str(&json)
            .map_err(|e| format!("{}: checks.json is not what it was: {e}", path.display()))?;
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
        for (name, statuses, expected) in [
            ("ping", &["SUCCESS", "INFO", "SKIPPED"][..], Verdict::Passed),
            ("ping", &["SUCCESS", "WARNING"], Verdict::Failed),
            ("ping", &["SUCCESS", "FAILURE"], Verdict::Failed),
            ("ping", &["SKIPPED"], Verdict::Failed),
            ("ping", &[], Verdict::Failed),
            ("tasks-lifecycle", &["SUCCESS"], Verdict::Passed),
            ("tasks-lifecycle", &["FAILURE"], Verdict::Waiting),
            ("sep-2640-skills-directory", &["SKIPPED"], Verdict::Waiting),
        ] {
            let checks: Vec<_> = statuses.iter().map(|it| json!({"status": it})).collect();
            assert_eq!(Scenario::new(name, &checks).verdict(), expected, "{name} {statuses:?}");
        }
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
