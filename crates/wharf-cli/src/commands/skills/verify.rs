//! `wharf skills verify`: reads every file of every skill and compares it with its entry.

use std::fmt;

use serde::Serialize;
use serde_json::json;
use wharf::{
    Client,
    client::CallError,
    skills::{FileUri, ListedSkill, ManifestEntry, SkillError},
};

use crate::{
    context::Context,
    error::CliError,
    exit_status::ExitStatus,
    terminal::{Paint, clean_line, table},
};

/// Maximum number of skills whose files are read.
const MAX_SKILLS: usize = 256;
/// Maximum number of bytes that are read, by the sizes in the entries.
const MAX_BYTES: u64 = 64 << 20;

/// Result for one skill.
#[derive(Serialize)]
struct VerifiedSkill {
    uri: String,
    state: VerifyState,
    /// Number of files that were read and are those of the entry.
    files: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum VerifyState {
    Verified,
    Refused,
    /// Not all files were read, because of a limit.
    Unchecked,
    /// The files are generated: only the front matter can be checked.
    Dynamic,
}

/// Number of bytes that may still be read.
struct ReadBudget(u64);

impl ReadBudget {
    /// Returns false if the file is too large for what is left.
    fn take(&mut self, bytes: u64) -> bool {
        let left = self.0.checked_sub(bytes);
        self.0 = left.unwrap_or(self.0);
        left.is_some()
    }
}

pub(super) async fn run(
    context: &Context,
    client: &Client,
    uri: Option<&str>,
    require_digests: bool,
) -> Result<(), CliError> {
    let skills = match uri {
        Some(uri) => vec![super::find(client, uri).await?],
        None => client.skills().all().await?,
    };
    let (mut budget, mut results) = (ReadBudget(MAX_BYTES), Vec::with_capacity(skills.len()));
    for (at, skill) in skills.iter().enumerate() {
        results.push(match at < MAX_SKILLS {
            true => verify(skill, &mut budget).await?,
            false => result(skill, VerifyState::Unchecked, 0),
        });
    }
    let out = context.out;
    match out.is_json() {
        true => out.json(&json!({"skills": results}))?,
        false => out.lines(&lines(&results, out.columns(), out.paint()))?,
    }
    check(&results, require_digests)
}

/// Reads all files of a skill. An error of the connection is returned; one of the server is that of the skill.
async fn verify(skill: &ListedSkill, budget: &mut ReadBudget) -> Result<VerifiedSkill, CliError> {
    let mut files = 0;
    match read_all(skill, budget, &mut files).await {
        Ok(state) => Ok(result(skill, state, files)),
        Err(
            error @ (SkillError::Refused(_)
            | SkillError::Call(CallError::Refused(_) | CallError::Protocol { .. })),
        ) => {
            let problem = Some(error.to_string());
            Ok(VerifiedSkill { problem, ..result(skill, VerifyState::Refused, files) })
        }
        Err(error) => Err(error.into()),
    }
}

async fn read_all(
    skill: &ListedSkill,
    budget: &mut ReadBudget,
    files: &mut usize,
) -> Result<VerifyState, SkillError> {
    let entry = skill.entry()?;
    let skill_file = FileUri::parse(&entry.uri).ok();
    let is_skill_file = |it: &&ManifestEntry| FileUri::parse(&it.uri).ok() == skill_file;
    let manifest = entry.manifest().unwrap_or_default();
    let (own, others): (Vec<_>, Vec<_>) = manifest.iter().partition(is_skill_file);
    if !budget.take(own.iter().map(|it| it.size).sum()) {
        return Ok(VerifyState::Unchecked);
    }
    let loaded = skill.load().await?;
    *files += 1;
    if entry.manifest().is_none() {
        return Ok(VerifyState::Dynamic);
    }
    for file in others {
        if !budget.take(file.size) {
            return Ok(VerifyState::Unchecked);
        }
        loaded.read(&file.uri).await?;
        *files += 1;
    }
    Ok(VerifyState::Verified)
}

fn result(skill: &ListedSkill, state: VerifyState, files: usize) -> VerifiedSkill {
    VerifiedSkill { uri: skill.uri().to_owned(), state, files, problem: None }
}

fn lines(results: &[VerifiedSkill], columns: usize, paint: Paint) -> Vec<String> {
    let row = |it: &VerifiedSkill| {
        let problem = it.problem.as_deref().map(clean_line).unwrap_or_default().into_owned();
        vec![clean_line(&it.uri).into_owned(), it.state.to_string(), it.files.to_string(), problem]
    };
    let rows: Vec<_> = results.iter().map(row).collect();
    let mut lines = vec![paint.cyan(&format!("Skills ({})", rows.len()))];
    if !rows.is_empty() {
        lines.extend(table(&["SKILL", "RESULT", "FILES", "PROBLEM"], &rows, columns, paint));
    }
    lines
}

/// Returns the error of the first of the exit codes that applies.
fn check(results: &[VerifiedSkill], require_digests: bool) -> Result<(), CliError> {
    let count = |state| results.iter().filter(|it| it.state == state).count();
    let [refused, unchecked, dynamic] =
        [VerifyState::Refused, VerifyState::Unchecked, VerifyState::Dynamic].map(count);
    let all = results.len();
    if refused > 0 {
        let message = format!("{refused} of {all} skills are refused");
        return Err(CliError::skills(ExitStatus::SkillRefused, "skills_refused", message));
    }
    if unchecked > 0 {
        let message = format!(
            "{unchecked} of {all} skills were not read completely: at most {MAX_SKILLS} skills and {} MiB are read",
            MAX_BYTES >> 20
        );
        return Err(CliError::skills(ExitStatus::SkillsUnchecked, "skills_unchecked", message)
            .hint("`wharf skills verify TARGET URI` verifies one skill.".to_owned()));
    }
    if require_digests && dynamic > 0 {
        let message = format!("{dynamic} of {all} skills have generated files without digests");
        return Err(CliError::skills(ExitStatus::SkillsDynamic, "skills_dynamic", message));
    }
    Ok(())
}

impl fmt::Display for VerifyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            VerifyState::Verified => "verified",
            VerifyState::Refused => "refused",
            VerifyState::Unchecked => "unchecked",
            VerifyState::Dynamic => "dynamic",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn results(states: &[VerifyState]) -> Vec<VerifiedSkill> {
        let result = |state: &VerifyState| VerifiedSkill {
            uri: "skill://a/SKILL.md".to_owned(),
            state: *state,
            files: 1,
            problem: None,
        };
        states.iter().map(result).collect()
    }

    #[test]
    fn the_exit_code_is_that_of_the_worst_result() {
        use VerifyState::{Dynamic, Refused, Unchecked, Verified};
        let code = |states: &[VerifyState], require_digests| {
            check(&results(states), require_digests).err().map_or(0, |it| it.exit as i32)
        };
        assert_eq!(code(&[], true), 0);
        assert_eq!(code(&[Verified, Dynamic], false), 0);
        assert_eq!(code(&[Verified, Dynamic], true), 9);
        assert_eq!(code(&[Dynamic, Unchecked], true), 8);
        assert_eq!(code(&[Dynamic, Unchecked, Refused], true), 7);
    }

    #[test]
    fn a_file_that_is_too_large_for_the_budget_takes_nothing() {
        let mut budget = ReadBudget(10);
        assert!(budget.take(6) && !budget.take(5) && budget.take(4) && !budget.take(1));
    }
}
