//! Results of foreign tools, held against the schemas of foreign tools.
//!
//! Both come from a server that may mean harm: what would take too much is not checked, and the
//! caller is told so.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::{
    cost, lenient, problems,
    survey::{self, Bounds, subschemas},
};

/// What a foreign schema may hold.
const BOUNDS: Bounds = Bounds { depth: 64, subschemas: 1024 };

/// How many patterns it may have, and how large each may become when compiled, in bytes.
const PATTERNS: usize = 32;
const PATTERN_SIZE: usize = 256 * 1024;

/// How many values one result may have, and how often any of them may be held against anything.
const VALUES: usize = 250_000;
const LOOKS: usize = 100_000_000;

/// How much text may be matched against patterns: its length times their number.
const MATCHED: usize = 1024 * 1024;

/// One foreign schema, compiled.
#[derive(Debug)]
pub struct Checker {
    schema: Value,
    validator: Validator,
    /// What any one value may be held against: schemas, properties, choices.
    cost: usize,
    patterns: usize,
}

/// What came of checking a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It fits the schema.
    Fits,
    /// It does not: why, a line for each problem.
    Misfit(String),
    /// It was not checked: why not.
    Unchecked(String),
}

impl Checker {
    /// Compiles a schema within bounds. Nothing is ever fetched.
    ///
    /// # Errors
    /// Why the schema cannot be used.
    pub fn new(schema: &Value) -> Result<Self, String> {
        if let Some(problem) = survey::problems(schema, BOUNDS).first() {
            return Err(problems::shorten(problem.to_string()));
        }
        let patterns = patterns(schema);
        if patterns > PATTERNS {
            return Err(format!("the schema has more than {PATTERNS} patterns"));
        }
        // The other engine goes back and forth, and a foreign pattern can make that very long.
        let linear = PatternOptions::regex().size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE);
        let options = jsonschema::options()
            .should_validate_formats(true)
            // It would compile every text of the result.
            .with_format("regex", |_: &str| true)
            .offline();
        let validator = options.with_pattern_options(linear).build(schema);
        let validator = validator.map_err(|error| problems::shorten(error.to_string()))?;
        let cost = cost::highest(schema).saturating_add(lenient::count(&schema.to_string()));
        Ok(Checker { schema: schema.clone(), validator, cost, patterns })
    }

    /// Checks the text of a JSON value.
    #[must_use]
    pub fn check(&self, json: &str) -> Verdict {
        let values = lenient::count(json);
        if values > VALUES || values.saturating_mul(self.cost) > LOOKS {
            return Verdict::Unchecked("it is too large for its schema".into());
        }
        if json.len().saturating_mul(self.patterns) > MATCHED {
            return Verdict::Unchecked("it is too long for the patterns of its schema".into());
        }
        let Ok(value) = serde_json::from_str::<Value>(json) else {
            return Verdict::Unchecked("it cannot be read as a value".into());
        };
        if self.validator.is_valid(&value) {
            return Verdict::Fits;
        }
        let told = problems::tell(&self.schema, &self.validator, &value, true);
        Verdict::Misfit(told.unwrap_or_else(|| problems::UNTOLD.into()))
    }
}

/// How many patterns a schema has, in it and in all schemas inside.
fn patterns(schema: &Value) -> usize {
    let Some(map) = schema.as_object() else { return 0 };
    let own = usize::from(map.contains_key("pattern"));
    let named = map.get("patternProperties").and_then(Value::as_object).map_or(0, |it| it.len());
    own + named + subschemas(map).map(|(_, _, inner)| patterns(inner)).sum::<usize>()
}
