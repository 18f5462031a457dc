//! Result of one scenario.

use std::fs;
use std::path::Path;
use std::process::ExitStatus;

use serde_json::Value;

use super::expected_failures;
use super::suite::SuiteSide;
use crate::files::read;

/// Statuses of a check, except informational ones.
const STATUSES: [&str; 4] = ["SUCCESS", "FAILURE", "WARNING", "SKIPPED"];

/// Check of every scenario: all messages match the schema, even if there are none.
const SCHEMA_CHECK: &str = "wire-schema-valid";

const LOST_NAME: &str = "(without results)";

pub(crate) struct Scenario {
    pub(crate) name: String,
    /// True if a check passed other than [`SCHEMA_CHECK`].
    has_own_success: bool,
    /// Number of checks with each of [`STATUSES`].
    pub(crate) counts: [usize; STATUSES.len()],
    /// Checks that did not pass, each with its error.
    pub(crate) failures: Vec<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScenarioVerdict {
    Passed,
    /// Failed once and passed when run by itself.
    Flaky,
    Failed,
    /// Did not pass, as expected (`expected_failures`).
    Expected,
}

impl Scenario {
    pub(crate) fn new(name: &str, checks: &[Value]) -> Self {
        let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
        let with = |status| checks.iter().filter(move |check| check["status"] == status);
        let remark = |check: &Value| {
            let [status, id, error] = ["status", "id", "errorMessage"].map(|key| text(check, key));
            // Some client checks have the message in `details`.
            let why = if error.is_empty() { text(&check["details"], "message") } else { error };
            format!("{} {id}: {}", status.to_lowercase(), why.replace('\n', " "))
        };
        Self {
            name: name.to_owned(),
            has_own_success: with("SUCCESS").any(|check| check["id"] != SCHEMA_CHECK),
            counts: STATUSES.map(|status| with(status).count()),
            failures: STATUSES[1..].iter().flat_map(|status| with(*status)).map(remark).collect(),
        }
    }

    /// Placeholder for scenarios without results.
    pub(crate) fn without_results(why: String) -> Self {
        Self {
            name: LOST_NAME.to_owned(),
            has_own_success: false,
            counts: [0, 1, 0, 0],
            failures: vec![why],
        }
    }

    pub(crate) fn has_no_results(&self) -> bool {
        self.name == LOST_NAME
    }

    /// Adds a failure if the suite failed without a failed check: it also validates the client's exit code and
    /// its duration.
    pub(crate) fn with_exit(mut self, status: ExitStatus) -> Self {
        let [_, failed, warnings, _] = self.counts;
        if !status.success() && failed + warnings == 0 {
            self.counts[1] += 1;
            let why = "the client failed or timed out";
            self.failures.push(format!("failure exit: {why}; the suite ended with {status}"));
        }
        self
    }

    /// Verdict of the scenario. Warnings count as failures, and a scenario without a passed check has not
    /// passed.
    pub(crate) fn verdict(&self) -> ScenarioVerdict {
        let [_, failed, warnings, skipped] = self.counts;
        let passed = self.has_own_success && failed == 0 && warnings == 0;
        expected_failures::verdict(&self.name, passed, skipped > 0)
    }
}

/// Reads the suite's results: one directory per scenario, named after the scenario and the time.
pub(crate) fn read_all(directory: &Path, side: &SuiteSide<'_>) -> Result<Vec<Scenario>, String> {
    let mut scenarios = Vec::new();
    collect(directory, side, "", &mut scenarios)?;
    scenarios.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(scenarios)
}

/// `group` is the directory part of scenario names, such as `auth/`.
fn collect(
    directory: &Path,
    side: &SuiteSide<'_>,
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
            into.push(Scenario::new(&name, &read_checks(&checks)?).with_client_error(&path));
        } else if path.is_dir() && group.is_empty() && !path.join("stderr.txt").exists() {
            // An aborted scenario has no checks but a stderr; a group has neither.
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
    /// Adds the last line of the client's stderr if the scenario did not pass.
    fn with_client_error(mut self, directory: &Path) -> Self {
        let output = fs::read_to_string(directory.join("stderr.txt")).unwrap_or_default();
        if let (ScenarioVerdict::Failed, Some(line)) =
            (self.verdict(), output.trim().lines().last())
        {
            self.failures.push(format!("stderr of the client: {line}"));
        }
        self
    }
}

/// `ping` of `server-ping-2026-11-16T00-59-12-489Z`.
fn scenario_name<'a>(directory: &'a str, side: &SuiteSide<'_>) -> &'a str {
    const TIME: usize = "-2026-11-16T00-59-12-489Z".len();
    let name = match side {
        SuiteSide::Server { .. } => directory.strip_prefix("server-").unwrap_or(directory),
        SuiteSide::Client => directory,
        SuiteSide::Authorization { .. } => {
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
    fn only_expected_failures_are_accepted_and_warnings_count() {
        use ScenarioVerdict::{Expected, Failed, Passed};
        for (name, statuses, expected) in [
            ("ping", &["SUCCESS", "INFO", "SKIPPED"][..], Passed),
            ("ping", &["SUCCESS", "WARNING"], Failed),
            ("ping", &["SUCCESS", "FAILURE"], Failed),
            ("ping", &["SKIPPED"], Failed),
            ("ping", &[], Failed),
            ("tasks-lifecycle", &["SUCCESS"], Passed),
            ("tasks-lifecycle", &["FAILURE"], Failed),
            ("tasks-status-notifications", &["SKIPPED"], Expected),
            ("auth/metadata-default", &["FAILURE"], Failed),
            ("auth/metadata-default", &["SUCCESS", "WARNING"], Failed),
            ("tasks-status-notifications", &["SUCCESS", "SKIPPED"], Expected),
            ("sep-2640-client-verify-size", &["SKIPPED"], Failed),
            ("sep-2640-skills-directory", &["SUCCESS", "WARNING"], Failed),
        ] {
            let checks: Vec<_> = statuses.iter().map(|it| json!({"status": it})).collect();
            assert_eq!(Scenario::new(name, &checks).verdict(), expected, "{name} {statuses:?}");
        }
    }

    #[test]
    fn the_common_check_alone_is_not_a_pass() {
        let checks =
            [json!({"status": "SUCCESS", "id": SCHEMA_CHECK}), json!({"status": "SKIPPED"})];
        assert_eq!(Scenario::new("ping", &checks).verdict(), ScenarioVerdict::Failed);
    }

    #[test]
    fn the_scenario_is_in_the_directory_name() {
        let server = SuiteSide::Server { url: "" };
        let authorization = SuiteSide::Authorization { url: "", user_agent: Path::new("") };
        for (directory, side, name) in [
            ("server-ping-2026-11-16T00-59-12-489Z", &server, "ping"),
            ("server-server-sse-polling-2026-11-16T00-59-12-489Z", &server, "server-sse-polling"),
            ("tools_call-2026-11-16T04-29-58-664Z", &SuiteSide::Client, "tools_call"),
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
