//! Rules for the fields of the front matter (Agent Skills specification).

use serde_json::{Map, Value};

use super::problem::SkillProblem;

const MAX_NAME: usize = 64;
const MAX_DESCRIPTION: usize = 1024;
const MAX_COMPATIBILITY: usize = 500;
/// Prefix of `metadata` keys that the protocol reserves.
const RESERVED_METADATA: &str = "io.modelcontextprotocol/";

/// Checks the name of a skill: 1 to 64 lower-case letters, digits and single hyphens between them. The error describes the
/// problem.
///
/// ```
/// # mod wharf { pub use wharf_extensions::*; }
/// use wharf::skills::check_skill_name;
///
/// assert!(check_skill_name("pdf-processing").is_ok());
/// assert!(check_skill_name("PDF--processing").is_err());
/// ```
pub fn check_skill_name(name: &str) -> Result<(), String> {
    let is_word = |word: &str| {
        !word.is_empty() && word.bytes().all(|it| it.is_ascii_lowercase() || it.is_ascii_digit())
    };
    if (1..=MAX_NAME).contains(&name.len()) && name.split('-').all(is_word) {
        return Ok(());
    }
    Err(format!(
        "the name {name:?} is not valid: use 1 to {MAX_NAME} lower-case letters, digits and single \
         hyphens between them"
    ))
}

/// Returns the problems of the fields, each with the name of its field.
pub(super) fn field_problems(fields: &Map<String, Value>) -> Vec<(&'static str, SkillProblem)> {
    let mut problems = Vec::new();
    for (field, most) in [("name", MAX_NAME), ("description", MAX_DESCRIPTION)] {
        if let Err(text) = required_text(fields, field, most) {
            problems.push((field, SkillProblem::error(text)));
        }
    }
    if let Some(Err(text)) = fields.get("name").and_then(Value::as_str).map(check_skill_name) {
        problems.retain(|(field, _)| *field != "name");
        problems.push(("name", SkillProblem::error(text)));
    }
    let is_text = |field: &str| fields.get(field).is_none_or(Value::is_string);
    for field in ["license", "compatibility", "allowed-tools"] {
        if !is_text(field) {
            let text = format!("`{field}` is not a string: quote it");
            problems.push((field, SkillProblem::warning(text)));
        }
    }
    let compatibility = fields.get("compatibility").and_then(Value::as_str);
    let length = compatibility.map_or(1, |text| text.chars().count());
    if !(1..=MAX_COMPATIBILITY).contains(&length) {
        let text = format!(
            "`compatibility` has {length} characters: use 1 to {MAX_COMPATIBILITY}, or remove it"
        );
        problems.push(("compatibility", SkillProblem::warning(text)));
    }
    problems.extend(metadata_problems(fields).map(|problem| ("metadata", problem)));
    problems
}

fn required_text(fields: &Map<String, Value>, field: &str, most: usize) -> Result<(), String> {
    match fields.get(field) {
        None => Err(format!("it has no `{field}`: add one to its front matter")),
        Some(Value::String(text)) => match text.chars().count() {
            0 => Err(format!("its `{field}` is empty: write one")),
            length if length > most => {
                Err(format!("its `{field}` has {length} characters: use at most {most}"))
            }
            _ => Ok(()),
        },
        Some(other) => Err(format!("its `{field}` is not a string but `{other}`: quote it")),
    }
}

fn metadata_problems(fields: &Map<String, Value>) -> impl Iterator<Item = SkillProblem> {
    let metadata = fields.get("metadata");
    let entries = metadata.and_then(Value::as_object).into_iter().flatten();
    let not_a_map = metadata.is_some_and(|it| !it.is_object());
    let not_a_map = not_a_map.then(|| {
        SkillProblem::warning("`metadata` is not a map: write `key: value` lines below it")
    });
    not_a_map.into_iter().chain(entries.flat_map(|(key, value)| {
        let reserved = key.starts_with(RESERVED_METADATA).then(|| {
            SkillProblem::warning(format!(
                "the `metadata` key `{key}` begins with `{RESERVED_METADATA}`, which the protocol \
                 reserves: rename it"
            ))
        });
        let typed = (!value.is_string()).then(|| {
            SkillProblem::warning(format!(
                "the `metadata` value of `{key}` is not a string but `{value}`, and some hosts do \
                 not load the skill: quote it"
            ))
        });
        reserved.into_iter().chain(typed)
    }))
}
