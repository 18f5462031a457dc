//! Results of foreign tools, held against the schemas of foreign tools.
//!
//! Both come from a server that may mean harm: what would take too much is not checked, and the
//! caller is told so.

use jsonschema::{PatternOptions, Validator};
use serde_json::Value;

use crate::{
    cost, lenient, problems,
    survey::{self, Bounds},
};

/// What a foreign schema may hold.
const BOUNDS: Bounds = Bounds { depth: 64, subschemas: 1024 };

/// How many values it may have in all, as JSON.
const SIZE: usize = 65_536;

/// How many patterns it may have, and how large each may become when compiled, in bytes.
const PATTERNS: usize = 32;
const PATTERN_SIZE: usize = 256 * 1024;

/// How often it may want what nothing else in it has looked at: each time doubles the work.
const UNEVALUATED: u32 = 4;

/// How many values one result may have, and how often any of them may be held against anything.
const VALUES: usize = 250_000;
const LOOKS: usize = 100_000_000;

/// The same where references lead to a schema in more ways than one.
const LOOKS_THROUGH_REFERENCES: usize = 1_000_000;

/// How much text may be matched against patterns: its length times their number.
const MATCHED: usize = 1024 * 1024;

/// One foreign schema, compiled.
#[derive(Debug)]
pub struct Checker {
    schema: Value,
    validator: Validator,
    /// What any one value may be held against: schemas, properties, choices.
    cost: usize,
    traits: Traits,
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
        let size = lenient::count(&schema.to_string());
        if size > SIZE {
            return Err(format!("the schema has more than {SIZE} values"));
        }
        let traits = Traits::of(schema);
        traits.check()?;
        // The other engine goes back and forth, and a foreign pattern can make that very long.
        let linear = PatternOptions::regex().size_limit(PATTERN_SIZE).dfa_size_limit(PATTERN_SIZE);
        let options = jsonschema::options()
            .should_validate_formats(true)
            // It would compile every text of the result.
            .with_format("regex", |_: &str| true)
            .offline();
        let validator = options.with_pattern_options(linear).build(schema);
        let validator = validator.map_err(|error| problems::shorten(error.to_string()))?;
        let cost = cost::highest(schema).saturating_add(size);
        let cost = cost.saturating_mul(1 << traits.unevaluated.min(UNEVALUATED));
        Ok(Checker { schema: schema.clone(), validator, cost, traits })
    }

    /// Checks the text of a JSON value.
    #[must_use]
    pub fn check(&self, json: &str) -> Verdict {
        let unchecked = |reason: &str| Verdict::Unchecked(reason.into());
        let values = lenient::count(json);
        if values > VALUES || values.saturating_mul(self.cost) > LOOKS {
            return unchecked("it is too large for its schema");
        }
        if json.len().saturating_mul(self.traits.patterns) > MATCHED {
            return unchecked("it is too long for the patterns of its schema");
        }
        let Ok(value) = serde_json::from_str::<Value>(json) else {
            return unchecked("it cannot be read as a value");
        };
        if self.traits.references
            && !cost::is_told_quickly(&self.schema, &value, LOOKS_THROUGH_REFERENCES)
        {
            return unchecked("the references of its schema lead to too much work");
        }
        if self.validator.is_valid(&value) {
            return Verdict::Fits;
        }
        let told = problems::tell(&self.schema, &self.validator, &value, true);
        Verdict::Misfit(told.unwrap_or_else(|| problems::UNTOLD.into()))
    }
}

/// What makes a schema costly, wherever it stands: a reference may lead into any part of it.
#[derive(Debug, Default)]
struct Traits {
    patterns: usize,
    unevaluated: u32,
    references: bool,
    /// References that lead elsewhere each time.
    dynamic: bool,
    /// Names by which a reference may lead elsewhere than its text says.
    rebased: bool,
}

impl Traits {
    fn of(schema: &Value) -> Self {
        let mut traits = Traits::default();
        traits.look(schema, true);
        traits
    }

    fn look(&mut self, json: &Value, is_root: bool) {
        match json {
            Value::Object(map) => {
                for (key, inner) in map {
                    self.note(key, inner, is_root);
                    self.look(inner, false);
                }
            }
            Value::Array(items) => items.iter().for_each(|inner| self.look(inner, false)),
            _ => {}
        }
    }

    fn note(&mut self, key: &str, value: &Value, is_root: bool) {
        match key {
            "pattern" => self.patterns += 1,
            "patternProperties" => self.patterns += value.as_object().map_or(0, |it| it.len()),
            "unevaluatedItems" | "unevaluatedProperties" => self.unevaluated += 1,
            "$ref" => self.references = true,
            "$dynamicRef" | "$recursiveRef" => self.dynamic = true,
            "$id" | "$schema" if !is_root => self.rebased = true,
            // The oldest dialect spells it so.
            "$schema" => self.rebased |= value.as_str().is_some_and(|it| it.contains("draft-04")),
            _ => {}
        }
    }

    fn check(&self) -> Result<(), String> {
        if self.patterns > PATTERNS {
            return Err(format!("the schema has more than {PATTERNS} patterns"));
        }
        let most = if self.references { 0 } else { UNEVALUATED };
        if self.unevaluated > most {
            return Err("checking what is unevaluated by the schema would take too long".into());
        }
        if self.dynamic || (self.rebased && self.references) {
            return Err("what the references of the schema lead to cannot be told".into());
        }
        Ok(())
    }
}
