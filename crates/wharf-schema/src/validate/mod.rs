//! JSON Schema validation with a bounded number of steps.
//!
//! A schema is compiled into a flat list of rules; validation walks the rules with a step budget.
//! Own and foreign schemas are treated alike.
//!
//! A validator of our own, of 4,000 lines with its patterns and formats, because no crate can be stopped after a
//! number of steps: `jsonschema` 0.60 adds 38 crates to `wharf` and matches patterns by backtracking. On three schemas
//! of tools, validation takes 0.7 to 0.95 of its time and compilation 0.2 to 0.7 (`cargo xtask bench --only schema`).
//! Of the 8,327 cases of the official test suite (August 2026), 22 are decided otherwise: `tests/it/official.rs` names them.

mod applicators;
mod assertions;
mod combinators;
mod compile;
mod compiled;
mod content;
pub(crate) mod dialect;
pub(crate) mod document;
mod equal;
mod evaluate;
mod evaluated_marks;
mod format;
mod keywords;
pub(crate) mod metaschema;
mod number;
mod pattern;
pub(crate) mod reference;
mod rule_messages;
mod step_budget;
pub(crate) mod uri;

use std::fmt;

use serde_json::Value;

use crate::validate::compiled::{NamedList, SchemaId, SchemaNode};
use crate::validate::evaluate::ValueCheck;
use crate::validate::step_budget::StopReason;

pub use crate::validate::step_budget::{MAX_REPORT_STEPS, MAX_STEPS};

use crate::problem_report::{Problems, shorten};

/// Result of validating a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Validity {
    /// The value matches the schema.
    Valid,
    /// The value does not match; one line per problem.
    Invalid(String),
    /// The value was not validated, with the reason.
    Unchecked(String),
}

/// Error for a validation that exceeds its step budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepLimitExceeded;

impl fmt::Display for StepLimitExceeded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "validation exceeds the limit of steps: simplify the schema, or send a smaller value",
        )
    }
}

impl std::error::Error for StepLimitExceeded {}

/// A compiled JSON Schema.
///
/// Supported dialects are draft 2020-12 (the default), 2019-09, draft-07, draft-06 and draft-04.
/// Formats are validated. Nothing is fetched: references resolve within the schema.
///
/// ```
/// use serde_json::json;
/// use wharf_schema::validate::Schema;
///
/// let schema = json!({"type": "object", "properties": {"day": {"format": "date"}}});
/// let schema = Schema::compile(&schema)?;
/// assert_eq!(schema.is_valid(&json!({"day": "2026-07-28"}), 1000), Ok(true));
///
/// let bad = json!({"day": "soon"});
/// assert_eq!(schema.is_valid(&bad, 1000), Ok(false));
/// let problems = schema.problems(&bad, 1000, true);
/// assert_eq!(problems.to_string(), "- `day`: \"soon\" is not a \"date\"");
/// # Ok::<(), String>(())
/// ```
pub struct Schema {
    root: SchemaId,
    nodes: Box<[SchemaNode]>,
    /// Dynamic anchors of each schema resource; empty without dynamic references.
    anchors: Vec<NamedList<SchemaId>>,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// Describes the problem and its location in the schema.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        compile::compile(schema).map_err(shorten)
    }

    /// Validates a value within [`MAX_STEPS`]. `quotes`: true if problems may quote the value.
    #[must_use]
    pub fn validate(&self, value: &Value, quotes: bool) -> Validity {
        match self.is_valid(value, MAX_STEPS) {
            Ok(true) => Validity::Valid,
            Ok(false) => {
                Validity::Invalid(self.problems(value, MAX_REPORT_STEPS, quotes).to_string())
            }
            Err(reason) => Validity::Unchecked(reason.to_string()),
        }
    }

    /// True if a value matches.
    ///
    /// # Errors
    /// Returned if the validation takes more than `steps`.
    pub fn is_valid(&self, value: &Value, steps: usize) -> Result<bool, StepLimitExceeded> {
        ValueCheck::without_report(self, steps).run(value).map_err(|_| StepLimitExceeded)
    }

    /// Problems of a value that are found within `steps`, limited in number. `quotes`: true if they
    /// may quote the value.
    #[must_use]
    pub fn problems(&self, value: &Value, steps: usize, quotes: bool) -> Problems {
        let mut check = ValueCheck::with_report(self, steps, quotes);
        let outcome = check.run(value);
        Problems::new(check.problems(), outcome == Err(StopReason::BudgetExceeded))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("schemas", &self.nodes.len()).finish_non_exhaustive()
    }
}
