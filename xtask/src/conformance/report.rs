//! Report of the suite's results, as a Markdown table.

use std::fmt;

use super::scenario_result::{Scenario, ScenarioVerdict};

/// Result of one scenario in one set, on one side.
pub(crate) struct ReportRow {
    side: &'static str,
    set: &'static str,
    scenario: Scenario,
    /// True if a second run, by itself, passed.
    flaky: bool,
}

impl ReportRow {
    pub(crate) fn new(side: &'static str, set: &'static str, scenario: Scenario) -> Self {
        Self { side, set, scenario, flaky: false }
    }

    /// Marks a failed scenario as flaky if it `passed` by itself.
    pub(crate) fn flaky_if(self, passed: bool) -> Self {
        Self { flaky: passed, ..self }
    }

    pub(crate) fn passed(&self) -> bool {
        matches!(self.verdict(), ScenarioVerdict::Passed | ScenarioVerdict::Flaky)
    }

    fn verdict(&self) -> ScenarioVerdict {
        match self.scenario.verdict() {
            ScenarioVerdict::Failed if self.flaky => ScenarioVerdict::Flaky,
            verdict => verdict,
        }
    }
}

/// Results of all scenarios of all sets; `Display` writes Markdown.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<ReportRow>,
}

impl Report {
    /// Returns an error if a scenario failed that is not expected to.
    pub(crate) fn check(&self) -> Result<(), String> {
        match self.count(ScenarioVerdict::Failed) {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} scenarios did not pass", self.rows.len())),
        }
    }

    fn with(&self, verdict: ScenarioVerdict) -> impl Iterator<Item = &ReportRow> {
        self.rows.iter().filter(move |row| row.verdict() == verdict)
    }

    fn count(&self, verdict: ScenarioVerdict) -> usize {
        self.with(verdict).count()
    }

    /// Writes the failed checks of the scenarios with this verdict.
    fn failures(&self, f: &mut fmt::Formatter<'_>, verdict: ScenarioVerdict) -> fmt::Result {
        for row in self.with(verdict).filter(|row| !row.scenario.failures.is_empty()) {
            writeln!(f, "\n{} ({}, {}):", row.scenario.name, row.side, row.set)?;
            for remark in &row.scenario.failures {
                writeln!(f, "- {remark}")?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.rows.iter().map(|row| row.scenario.name.len()).max().unwrap_or_default();
        writeln!(f, "# Conformance\n")?;
        let (scenario, line) = ("scenario", "");
        writeln!(
            f,
            "| {scenario:width$} | side          | set        | passed | failed | warnings | skipped | verdict |\n\
             | {line:-<width$} | ------------- | ---------- | -----: | -----: | -------: | ------: | ------- |"
        )?;
        for row in &self.rows {
            let [passed, failed, warnings, skipped] = row.scenario.counts;
            let verdict = format!("{:?}", row.verdict()).to_lowercase();
            writeln!(
                f,
                "| {:width$} | {:13} | {:10} | {passed:6} | {failed:6} | {warnings:8} | {skipped:7} | {verdict:7} |",
                row.scenario.name, row.side, row.set,
            )?;
        }
        for verdict in [ScenarioVerdict::Passed, ScenarioVerdict::Flaky, ScenarioVerdict::Failed] {
            self.failures(f, verdict)?;
        }
        let [passed, flaky, failed, expected] = [
            ScenarioVerdict::Passed,
            ScenarioVerdict::Flaky,
            ScenarioVerdict::Failed,
            ScenarioVerdict::Expected,
        ]
        .map(|verdict| self.count(verdict));
        writeln!(
            f,
            "\n{passed} scenarios passed, {flaky} failed once and passed when run again by themselves, \
             {failed} failed, {expected} failed as expected."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_scenario_that_passes_alone_is_flaky() {
        let failed = || Scenario::new("sse-retry", &[json!({"status": "FAILURE", "id": "a"})]);
        let mut report = Report::default();
        report.rows.push(ReportRow::new("client", "all", failed()).flaky_if(true));
        assert_eq!(report.check(), Ok(()));
        assert!(report.to_string().contains("failure a"), "{report}");
        report.rows.push(ReportRow::new("client", "all", failed()));
        assert_eq!(report.check(), Err("1 of 2 scenarios did not pass".to_owned()));
    }
}
