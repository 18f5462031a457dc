//! JSON Schema validation with a bounded number of steps.
//!
//! A schema is compiled into a flat list of rules; validation walks the rules with a step budget.
//! Own and foreign schemas are treated alike.

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
mod evaluated;
mod format;
mod keywords;
mod messages;
pub(crate) mod metaschema;
mod number;
mod pattern;
mod step_budget;
pub(crate) mod uri;

use std::fmt;

use serde_json::Value;

use crate::validate::compiled::{NamedList, SchemaId, SchemaNode};
use crate::validate::evaluate::ValueCheck;
use crate::validate::step_budget::StopReason;

use crate::problems::{Problems, shorten};

/// Step budget of one validation: about a tenth of a second if all steps are slow.
pub const STEPS: usize = 4_000_000;

/// Step budget for collecting the problems.
pub const STEPS_OF_TELLING: usize = 100_000;

/// Result of validating a value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The value matches the schema.
    Fits,
    /// The value does not match; one line per problem.
    Misfit(String),
    /// The value was not validated, with the reason.
    Unchecked(String),
}

/// Error for a validation that exceeds its step budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("checking it would take too long")
    }
}

impl std::error::Error for TooMuch {}

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
/// assert_eq!(schema.fits(&json!({"day": "2026-07-28"}), 1000), Ok(true));
///
/// let bad = json!({"day": "soon"});
/// assert_eq!(schema.fits(&bad, 1000), Ok(false));
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

    /// Validates a value within [`STEPS`]. `quotes`: true if problems may quote the value.
    #[must_use]
    pub fn judge(&self, value: &Value, quotes: bool) -> Verdict {
        match self.fits(value, STEPS) {
            Ok(true) => Verdict::Fits,
            Ok(false) => {
                Verdict::Misfit(self.problems(value, STEPS_OF_TELLING, quotes).to_string())
            }
            Err(reason) => Verdict::Unchecked(reason.to_string()),
        }
    }

    /// True if a value matches.
    ///
    /// # Errors
    /// Returned if the validation takes more than `steps`.
    pub fn fits(&self, value: &Value, steps: usize) -> Result<bool, TooMuch> {
        ValueCheck::fits_only(self, steps).run(value).map_err(|_| TooMuch)
    }

    /// Problems of a value that are found within `steps`, limited in number. `quotes`: true if they
    /// may quote the value.
    #[must_use]
    pub fn problems(&self, value: &Value, steps: usize, quotes: bool) -> Problems {
        let mut check = ValueCheck::collecting(self, steps, quotes);
        let outcome = check.run(value);
        Problems::new(check.problems(), outcome == Err(StopReason::BudgetExceeded))
    }
}

impl fmt::Debug for Schema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Schema").field("schemas", &self.nodes.len()).finish_non_exhaustive()
    }
}
