//! Schemas compiled, and what is wrong with a value in words.

use jsonschema::{PatternOptions, ValidationError, Validator, error::ValidationErrorKind};
use serde_json::Value;

use crate::cost;

/// How many problems are told at once, and how long each may be: values come from callers.
const TOLD: usize = 8;
const LENGTH: usize = 300;

/// How many looks at parts of a value finding its problems may take.
const LOOKS: usize = 4096;

/// What is told where finding out more could take very long.
pub const UNTOLD: &str = "- they do not match the schema; finding out where would take too long";

/// Compiles a schema of this side's own author.
///
/// # Errors
/// What is wrong with the schema.
pub fn compile(schema: &Value) -> Result<Validator, String> {
    let options = || jsonschema::options().should_validate_formats(true).offline();
    // Patterns match in linear time where they can; look-around needs the other engine, which
    // gives up after a while.
    let linear = options().with_pattern_options(PatternOptions::regex()).build(schema);
    linear
        .or_else(|_| {
            let bounded = PatternOptions::fancy_regex().backtrack_limit(100_000);
            options().with_pattern_options(bounded).build(schema)
        })
        .map_err(|error| shorten(error.to_string()))
}

/// The problems of a value, a line each, unless finding them could take very long. `quotes`:
/// whether they may quote the value.
#[must_use]
pub fn tell(schema: &Value, validator: &Validator, value: &Value, quotes: bool) -> Option<String> {
    if !cost::is_told_quickly(schema, value, LOOKS) {
        return None;
    }
    let mut told = Vec::new();
    for error in validator.iter_errors(value) {
        for problem in nearest(&error).into_iter().map(|it| line(it, quotes)) {
            // Schemas that repeat themselves find the same problem again and again.
            if told.len() < TOLD && !told.contains(&problem) {
                told.push(problem);
            }
        }
    }
    Some(told.join("\n"))
}

/// What is wrong by the one schema of several that was meant, if that can be told: by the type of
/// the value, such as an object where it may also be null, or by its tag.
fn nearest<'e>(error: &'e ValidationError<'_>) -> Vec<&'e ValidationError<'e>> {
    let (ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }) =
        error.kind()
    else {
        return vec![error];
    };
    let is_other = |it: &ValidationError<'_>| match it.kind() {
        ValidationErrorKind::Type { .. } => it.instance_path() == error.instance_path(),
        ValidationErrorKind::Constant { .. } => true,
        _ => false,
    };
    let mut meant = context.iter().filter(|branch| !branch.iter().any(is_other));
    match (meant.next(), meant.next()) {
        (Some(one), None) if !one.is_empty() => one.iter().flat_map(nearest).collect(),
        _ => vec![error],
    }
}

fn line(error: &ValidationError<'_>, quotes: bool) -> String {
    let path = error.instance_path().to_string();
    let text = if quotes { error.to_string() } else { error.masked().to_string() };
    let path = path.trim_start_matches('/').replace('/', ".");
    shorten(if path.is_empty() { format!("- {text}") } else { format!("- `{path}`: {text}") })
}

/// As much of a text as one problem may take.
#[must_use]
pub fn shorten(text: String) -> String {
    match text.char_indices().nth(LENGTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}
