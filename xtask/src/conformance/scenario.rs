//! What one scenario found.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::Value;

use super::suite::Side;
use crate::files::read;

/// Scenarios of what Wharf does not have yet, by how their names begin; and one whose only check the
/// suite always skips.
const WAITING: [&str; 2] = ["tasks-status-notifications", "sep-2640-"];

/// How a check can end, other than by merely telling something.
const STATUSES: [&str; 4] = ["SUCCESS", "FAILURE", "WARNING", "SKIPPED"];

/// The check that every scenario has: that all messages fit the schema, however few they were.
const COMMON: &str = "wire-schema-valid";

const LOST: &str = "(without results)";

pub(crate) struct Scenario {
    pub(crate) name: String,
    /// Whether a check of its own passed.
    proven: bool,
    /// How many checks ended with each of [`STATUSES`].
    pub(crate) counts: [usize; STATUSES.len()],
    /// The checks that did not pass, and why.
    pub(crate) remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Passed,
    /// It failed once and passed when it was run by itself.
    Flaky,
    Failed,
    Waiting,
}

impl Scenario {
    pub(crate) fn new(name: &str, checks: &[Value]) -> Self {
        let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
        let with = |status| checks.iter().filter(move |check| check["status"] == status);
        let remark = |check: &Value| {
            let [status, id, error] = ["status", "id", "errorMessage"].map(|key| text(check, key));
            // Some of the client's checks say it elsewhere.
            let why = if error.is_empty() { text(&check["details"], "message") } else { error };
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
        Self { name: LOST.to_owned(), proven: false, counts: [0, 1, 0, 0], remarks: vec![why] }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.name == LOST
    }

    /// Whether it is of something that Wharf does not have yet.
    pub(crate) fn is_waiting(&self) -> bool {
        WAITING.iter().any(|start| self.name.starts_with(start))
    }

    /// Counts also how the suite ended: by itself it minds the client's exit code and its time.
    pub(crate) fn with_exit(mut self, status: ExitStatus) -> Self {
        let [_, failed, warnings, _] = self.counts;
        if !status.success() && failed + warnings == 0 {
            self.counts[1] += 1;
            let why = "the client did not end well, or not in time";
            self.remarks.push(format!("failure exit: {why}; the suite ended with {status}"));
        }
        self
    }

    /// Warnings count: all that the suite recommends can be done. A scenario that has checked nothing
    /// has not passed.
    pub(crate) fn verdict(&self) -> Verdict {
        let [_, failed, warnings, skipped] = self.counts;
        let passed = self.proven && failed == 0 && warnings == 0;
        match (passed, self.is_waiting()) {
            (true, true) if skipped > 0 => Verdict::Waiting,
            (true, _) => Verdict::Passed,
            (false, true) => Verdict::Waiting,
            (false, false) => Verdict::Failed,
        }
    }
}

/// Reads what the suite wrote: a directory for each scenario, named after it and the time.
pub(crate) fn read_all(directory: &Path, side: &Side<'_>) -> Result<Vec<Scenario>, String> {
    let mut scenarios = Vec::new();
    collect(directory, side, "", &mut scenarios)?;
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

/// `group` is the part of their names that is a directory's: `auth/`.
fn collect(
    directory: &Path,
    side: &Side<'_>,
    group: &str,
    into: &mut Vec<Scenario>,
) -> Result<(), String> {
    let cannot = |e| format!("cannot read {}: {e}", directory.display());
    for entry in fs::read_dir(directory).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let checks = path.join("checks.json");
        if checks.exists() {
            let name = format!("{group}{}", scenario_name(&name, side));
            into.push(Scenario::new(&name, &read_checks(&checks)?).with_complaint(&path));
        } else if path.is_dir() && group.is_empty() && !path.join("stderr.txt").exists() {
            // A scenario that broke off has no checks; only a group has neither.
            collect(&path, side, &format!("{name}/"), into)?;
        }
    }
    Ok(())
}

fn read_checks(path: &Path) -> Result<Vec<Value>, String> {
    serde_json::from_str(&read(path)?)
        .map_err(|e| format!("{} is not a list of checks: {e}", path.display()))
}

impl Scenario {
    /// Adds the last line that a client said, if the scenario did not pass.
    fn with_complaint(mut self, directory: &Path) -> Self {
        let said = fs::read_to_string(directory.join("stderr.txt")).unwrap_or_default();
        if let (Verdict::Failed, Some(line)) = (self.verdict(), said.trim().lines().last()) {
            self.remarks.push(format!("the client said: {line}"));
        }
        self
    }
}

/// `ping` of `server-ping-2026-11-16T00-59-12-489Z`.
fn scenario_name<'a>(directory: &'a str, side: &Side<'_>) -> &'a str {
    const TIME: usize = "-2026-11-16T00-59-12-489Z".len();
    let name = match side {
        Side::Server { .. } => directory.strip_prefix("server-").unwrap_or(directory),
        Side::Client => directory,
        Side::Authorization { .. } => {
            directory.strip_prefix("authorization-server-").unwrap_or(directory)
        }
    };
    name.get(..name.len().saturating_sub(TIME)).unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_is_to_come_may_wait_and_warnings_count() {
        use Verdict::{Failed, Passed, Waiting};
        for (name, statuses, expected) in [
            ("ping", &["SUCCESS", "INFO", "SKIPPED"][..], Passed),
            ("ping", &["SUCCESS", "WARNING"], Failed),
            ("ping", &["SUCCESS", "FAILURE"], Failed),
            ("ping", &["SKIPPED"], Failed),
            ("ping", &[], Failed),
            ("tasks-lifecycle", &["SUCCESS"], Passed),
            ("tasks-lifecycle", &["FAILURE"], Failed),
            ("tasks-status-notifications", &["SKIPPED"], Waiting),
            ("auth/metadata-default", &["FAILURE"], Failed),
            ("auth/metadata-default", &["SUCCESS", "WARNING"], Failed),
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
        let server = Side::Server { url: "" };
        let authorization = Side::Authorization { url: "", person: Path::new("") };
        for (directory, side, name) in [
            ("server-ping-2026-11-16T00-59-12-489Z", &server, "ping"),
            ("server-server-sse-polling-2026-11-16T00-59-12-489Z", &server, "server-sse-polling"),
            ("tools_call-2026-11-16T04-29-58-664Z", &Side::Client, "tools_call"),
            (
                "authorization-server-authorization-server-metadata-endpoint-2026-11-18T11-47-05-823Z",
                &authorization,
                "authorization-server-metadata-endpoint",
            ),
        ] {
            assert_eq!(scenario_name(directory, side), name);
        }
    }
}
