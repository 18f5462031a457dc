//! Values held against schemas, with work that ends.
//!
//! A schema is compiled into a flat list of rules; a check walks it with a number of steps it may
//! take. Schemas of this side's own author and schemas from elsewhere are treated alike.

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

/// The steps that one check may take: a tenth of a second or so, when they are all slow ones.
pub const STEPS: usize = 4_000_000;

/// The steps that finding out what is wrong may take.
pub const STEPS_OF_TELLING: usize = 100_000;

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

/// A check that would have taken more steps than it might.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooMuch;

impl fmt::Display for TooMuch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("checking it would take too long")
    }
}

impl std::error::Error for TooMuch {}

/// A JSON Schema, compiled.
///
/// It may be written in draft 2020-12, which is the default, or in 2019-09, draft-07, draft-06 or
/// draft-04. Formats are checked. Nothing is ever fetched: references lead to what is in the schema.
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
    /// The dynamic anchors of each resource; empty if nothing refers to one.
    anchors: Vec<NamedList<SchemaId>>,
}

impl Schema {
    /// Compiles a schema.
    ///
    /// # Errors
    /// What is wrong with it, and where.
    pub fn compile(schema: &Value) -> Result<Self, String> {
        compile::compile(schema).map_err(shorten)
    }

    /// Checks a value within [`STEPS`]. `quotes`: whether problems may quote it.
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

    /// Whether a value fits.
    ///
    /// # Errors
    /// If finding out takes more than `steps`.
    pub fn fits(&self, value: &Value, steps: usize) -> Result<bool, TooMuch> {
        ValueCheck::fits_only(self, steps).run(value).map_err(|_| TooMuch)
    }

    /// What is wrong with a value: what is found within `steps`, and no more than a few problems.
    /// `quotes`: whether they may quote the value.
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
