//! Problems of a `server.json`: where, what and what to do.

use serde::Serialize;
use serde_json::Value;

use crate::terminal::{Paint, clean, clean_line, labelled};

/// Severity of a problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum ProblemSeverity {
    /// The registry refuses the file.
    Error,
    /// The registry accepts the file, or cannot be known to refuse it.
    Warning,
}

/// Problem of a file.
#[derive(Debug, Serialize)]
pub(super) struct PublishProblem {
    /// Path of the value, such as `packages[0].version`; empty for the whole file.
    pub(super) path: String,
    pub(super) severity: ProblemSeverity,
    pub(super) message: String,
    /// Solution.
    pub(super) fix: String,
}

/// All problems of a file.
#[derive(Debug, Default)]
pub(super) struct PublishReport {
    pub(super) problems: Vec<PublishProblem>,
}

impl PublishReport {
    /// Adds a problem that the registry refuses.
    pub(super) fn error(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(ProblemSeverity::Error, path.into(), message.into(), fix.into());
    }

    /// Adds a problem that the registry may accept.
    pub(super) fn warning(
        &mut self,
        path: impl Into<String>,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.add(ProblemSeverity::Warning, path.into(), message.into(), fix.into());
    }

    fn add(&mut self, severity: ProblemSeverity, path: String, message: String, fix: String) {
        self.problems.push(PublishProblem { path, severity, message, fix });
    }

    /// Numbers of errors and warnings.
    pub(super) fn counts(&self) -> (usize, usize) {
        let errors =
            self.problems.iter().filter(|it| it.severity == ProblemSeverity::Error).count();
        (errors, self.problems.len() - errors)
    }

    /// Errors as text, each on its line.
    pub(super) fn errors(&self) -> Vec<String> {
        let errors = self.problems.iter().filter(|it| it.severity == ProblemSeverity::Error);
        errors.map(|it| format!("{}: {}: {}", it.path, it.message, it.fix)).collect()
    }

    /// Report for people.
    pub(super) fn lines(&self, file: &str, columns: usize, paint: Paint) -> Vec<String> {
        let (errors, warnings) = self.counts();
        let count = |count: usize, word: &str| match count {
            1 => format!("1 {word}"),
            count => format!("{count} {word}s"),
        };
        let (errors, warnings) = (count(errors, "error"), count(warnings, "warning"));
        let summary = format!("{}: {errors}, {warnings}", clean_line(file));
        let mut lines = vec![paint.bold(&summary)];
        for problem in &self.problems {
            let label = match problem.severity {
                ProblemSeverity::Error => "error",
                ProblemSeverity::Warning => "warning",
            };
            let path = if problem.path.is_empty() { "file" } else { &problem.path };
            let text = clean(&format!("{path}: {}\n{}", problem.message, problem.fix)).into_owned();
            lines.extend(labelled(label, &text, 9, columns, paint));
        }
        lines
    }
}

/// Text of a member. A member of another type is an error.
pub(super) fn text<'a>(
    object: &'a Value,
    key: &str,
    path: &str,
    report: &mut PublishReport,
) -> Option<&'a str> {
    match object.get(key)? {
        Value::String(text) => Some(text),
        other => {
            report.error(
                member(path, key),
                format!("{other} is not a string"),
                "write it in quotes",
            );
            None
        }
    }
}

/// Text of a member that must be there and not be blank.
pub(super) fn required<'a>(
    object: &'a Value,
    key: &str,
    path: &str,
    report: &mut PublishReport,
) -> Option<&'a str> {
    match text(object, key, path, report) {
        Some(value) if !value.trim().is_empty() => Some(value),
        None if object.get(key).is_some() => None,
        _ => {
            report.error(member(path, key), "it is missing", "add it");
            None
        }
    }
}

/// Elements of a member that must be an array of objects, with their paths.
pub(super) fn objects<'a>(
    object: &'a Value,
    key: &str,
    path: &str,
    report: &mut PublishReport,
) -> Vec<(String, &'a Value)> {
    let path = member(path, key);
    let Some(value) = object.get(key) else { return Vec::new() };
    let Some(values) = value.as_array() else {
        report.error(path, "it is not an array", "write it in brackets");
        return Vec::new();
    };
    let mut found = Vec::new();
    for (at, value) in values.iter().enumerate() {
        let path = format!("{path}[{at}]");
        match value.is_object() {
            true => found.push((path, value)),
            false => report.error(path, format!("{value} is not an object"), "write it in braces"),
        }
    }
    found
}

/// Path of a member.
pub(super) fn member(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}
