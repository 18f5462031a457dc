//! What the suite found, as a table.

use std::fmt;

use super::scenario::{Scenario, Verdict};

/// One scenario, of one set, on one side.
pub(crate) struct Row {
    side: &'static str,
    set: &'static str,
    scenario: Scenario,
    /// Whether a second run by itself passed.
    flaky: bool,
}

impl Row {
    pub(crate) fn new(side: &'static str, set: &'static str, scenario: Scenario) -> Self {
        Self { side, set, scenario, flaky: false }
    }

    /// If it failed, and `passed` by itself, it is called flaky.
    pub(crate) fn or_flaky(self, passed: bool) -> Self {
        Self { flaky: passed, ..self }
    }

    pub(crate) fn is_good(&self) -> bool {
        matches!(self.verdict(), Verdict::Passed | Verdict::Flaky)
    }

    fn verdict(&self) -> Verdict {
        match self.scenario.verdict() {
            Verdict::Failed if self.flaky => Verdict::Flaky,
            verdict => verdict,
        }
    }
}

/// What all scenarios of all sets found. It shows itself as Markdown.
#[derive(Default)]
pub(crate) struct Report {
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// An error if a scenario failed that is not of something to come.
    pub(crate) fn judge(&self) -> Result<(), String> {
        match self.count(Verdict::Failed) {
            0 => Ok(()),
            failed => Err(format!("{failed} of {} scenarios did not pass", self.rows.len())),
        }
    }

    fn with(&self, verdict: Verdict) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(move |row| row.verdict() == verdict)
    }

    fn count(&self, verdict: Verdict) -> usize {
        self.with(verdict).count()
    }

    /// Each scenario's checks that did not pass. Of those that wait, none is news.
    fn remarks(&self, f: &mut fmt::Formatter<'_>, verdict: Verdict) -> fmt::Result {
        for row in self.with(verdict).filter(|row| !row.scenario.remarks.is_empty()) {
            writeln!(f, "\n{} ({}, {}):", row.scenario.name, row.side, row.set)?;
            for remark in &row.scenario.remarks {
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
        for verdict in [Verdict::Passed, Verdict::Flaky, Verdict::Failed] {
            self.remarks(f, verdict)?;
        }
        let [passed, flaky, failed, waiting] =
            [Verdict::Passed, Verdict::Flaky, Verdict::Failed, Verdict::Waiting]
                .map(|verdict| self.count(verdict));
        writeln!(
            f,
            "\n{passed} scenarios passed, {flaky} failed once and passed when run again by themselves, \
             {failed} failed, {waiting} wait for extensions."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_passes_alone_is_flaky_and_does_not_fail_the_report() {
        let failed = || Scenario::new("sse-retry", &[json!({"status": "FAILURE", "id": "a"})]);
        let mut report = Report::default();
        report.rows.push(Row::new("client", "all", failed()).or_flaky(true));
        assert_eq!(report.judge(), Ok(()));
        assert!(report.to_string().contains("failure a"), "{report}");
        report.rows.push(Row::new("client", "all", failed()));
        assert_eq!(report.judge(), Err("1 of 2 scenarios did not pass".to_owned()));
    }
}
