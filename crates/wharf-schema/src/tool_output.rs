//! Results of foreign tools, held against the schemas of foreign tools.
//!
//! Both come from a server that may mean harm: what would take too much is not checked, and the
//! caller is told so.

use serde_json::Value;

pub use crate::validate::Verdict;
use crate::{lenient_json, problems, schema_limits, schema_limits::Bounds, validate::Schema};

/// What a foreign schema may hold.
const SCHEMA_BOUNDS: Bounds = Bounds { depth: 64, subschemas: 1024 };

/// How long it may be, and how many values it may have in all, as JSON.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
const MAX_SCHEMA_VALUES: usize = 65_536;

/// How long a name in it may be, in bytes: a property's, an anchor's, a definition's.
const MAX_NAME_BYTES: usize = 1024;

/// How many values one result may have.
const MAX_RESULT_VALUES: usize = 250_000;

/// One foreign schema, compiled.
#[derive(Debug)]
pub struct Checker(Schema);

impl Checker {
    /// Compiles a schema within bounds. Nothing is ever fetched.
    ///
    /// # Errors
    /// Why the schema cannot be used.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let text = schema.to_string();
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema has more than {MAX_SCHEMA_BYTES} bytes"));
        }
        if lenient_json::count(&text) > MAX_SCHEMA_VALUES {
            return Err(format!("the schema has more than {MAX_SCHEMA_VALUES} values"));
        }
        if schema_limits::has_longer_name(schema, MAX_NAME_BYTES) {
            return Err(format!("a name in the schema is longer than {MAX_NAME_BYTES} bytes"));
        }
        if let Some(problem) = schema_limits::problems(schema, SCHEMA_BOUNDS).first() {
            return Err(problems::shorten(problem.to_string()));
        }
        Schema::compile(schema).map(Checker)
    }

    /// Checks the text of a JSON value.
    #[must_use]
    pub fn check(&self, json: &str) -> Verdict {
        if lenient_json::count(json) > MAX_RESULT_VALUES {
            return Verdict::Unchecked(format!(
                "it has {}",
                lenient_json::too_many(MAX_RESULT_VALUES)
            ));
        }
        match serde_json::from_str::<Value>(json) {
            Ok(value) => self.0.judge(&value, true),
            Err(_) => Verdict::Unchecked("it cannot be read as a value".into()),
        }
    }
}
