//! Writes the results of a complete run to `docs/bench`.

use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};

use super::results::{Entry, Outcome};
use super::targets::TargetResult;
use super::{chart, machine, table};

/// Report of a run: its name, its environment and its results.
pub(crate) struct Report<'a> {
    /// `results`, `instructions` or `tasks`: the name of the file, and of the section of the README.
    pub(crate) name: &'static str,
    pub(crate) made: Value,
    pub(crate) outcomes: &'a [Outcome],
    pub(crate) verdicts: &'a [TargetResult],
}

impl Report<'_> {
    pub(crate) fn write(&self) -> Result<(), String> {
        let json = serde_json::to_string_pretty(&self.json()).map_err(|e| e.to_string())?;
        write(&format!("{}.json", self.name), &(json + "\n"))?;
        if self.name == "results" {
            write("cpu.svg", &chart::draw(self.outcomes))?;
        }
        let readme = docs_path("README.md");
        let text = fs::read_to_string(&readme);
        let text = text.map_err(|e| format!("cannot read {}: {e}", readme.display()))?;
        let text = replace_section(&text, self.name, &self.section());
        let text =
            text.ok_or_else(|| format!("{} has no marks for the section", readme.display()))?;
        write("README.md", &text)
    }

    fn json(&self) -> Value {
        let outcomes = self.outcomes.iter().map(|outcome| {
            let servers = outcome.entries.iter().map(|one| (one.server.to_owned(), entry(one)));
            json!({
                "name": outcome.name,
                "title": outcome.title,
                "servers": servers.collect::<Map<_, _>>(),
            })
        });
        let targets = self.verdicts.iter().map(|verdict| {
            json!({
                "workload": verdict.workload,
                "figure": verdict.figure.key(),
                "target": verdict.bound,
                "measured": verdict.measured,
                "met": verdict.is_met,
            })
        });
        json!({
            "made": self.made,
            "targets": targets.collect::<Vec<_>>(),
            "workloads": outcomes.collect::<Vec<_>>(),
        })
    }

    fn section(&self) -> String {
        let made = |name: &str| match &self.made[name] {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let missed = self.verdicts.iter().filter(|verdict| !verdict.is_met).count();
        let changed = if self.made["uncommitted_changes"] == true { " with changes" } else { "" };
        let versions = self.made["versions"].as_object().into_iter().flatten();
        let versions = versions
            .map(|(name, version)| format!("{name} {}", version.as_str().unwrap_or_default()));
        let notes = match table::notes(self.outcomes) {
            none if none.is_empty() => none,
            notes => format!("\nNotes:\n\n{notes}"),
        };
        let targets = match self.verdicts {
            [] => String::new(),
            all => format!(
                "{missed} of {} targets missed.\n\n{}\n",
                all.len(),
                table::verdicts(self.verdicts)
            ),
        };
        format!(
            "{date}, commit {commit}{changed}; {processor}, {cores} cores, Linux {kernel}, load average \
             {load} before; {rustc}; {versions}.\n\n{targets}{figures}{notes}",
            date = made("date"),
            commit = made("commit"),
            processor = made("processor"),
            cores = made("cores"),
            kernel = made("kernel"),
            load = made("load_average"),
            rustc = made("rustc"),
            versions = versions.collect::<Vec<_>>().join(", "),
            figures = table::outcomes(self.outcomes),
        )
    }
}

fn entry(entry: &Entry) -> Value {
    match &entry.error {
        Some(why) => json!({ "error": why }),
        None => entry.medians().map(|(key, value)| (key.to_owned(), rounded(value))).collect(),
    }
}

/// Rounds to four significant digits, which is more than the noise allows.
fn rounded(value: f64) -> Value {
    let scale = 10f64.powi(3 - value.abs().max(1.0).log10().floor() as i32).max(1.0);
    json!((value * scale).round() / scale)
}

/// Replaces the text between the marks of a section.
fn replace_section(text: &str, name: &str, section: &str) -> Option<String> {
    let (begin, end) = (format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->"));
    let (before, after) = text.split_once(&begin)?;
    let (_, after) = after.split_once(&end)?;
    Some(format!("{before}{begin}\n{}\n\n{end}{after}", section.trim()))
}

fn write(name: &str, text: &str) -> Result<(), String> {
    let path = docs_path(name);
    fs::write(&path, text).map_err(|e| format!("cannot write {}: {e}", path.display()))
}

fn docs_path(name: &str) -> PathBuf {
    machine::root().join("docs/bench").join(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_marked_section_is_replaced() {
        let text = "a\n<!-- results -->\nold\n<!-- end of results -->\nb\n";
        let new = "a\n<!-- results -->\n\nnew\n\n<!-- end of results -->\nb\n";
        assert_eq!(replace_section(text, "results", "new\n").as_deref(), Some(new));
        assert_eq!(replace_section(text, "instructions", "new"), None);
    }
}
