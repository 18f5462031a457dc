//! Validates, for a client, the results of a server's tools against their output schemas.
//!
//! Both come from a server that may be malicious. A check that would take too long is skipped, and
//! the caller receives the reason.

use serde_json::Value;

pub use crate::validate::Validity;
use crate::{
    lenient_json, problem_report, schema_problems, schema_problems::SchemaLimits, validate::Schema,
};

/// Limits of a foreign schema.
const SCHEMA_LIMITS: SchemaLimits = SchemaLimits::new(64, 1024);

/// Maximum size of a schema: bytes and values of its JSON.
const MAX_SCHEMA_BYTES: usize = 256 * 1024;
const MAX_SCHEMA_VALUES: usize = 65_536;

/// Maximum length of a name in a schema: property, anchor, definition.
const MAX_NAME_BYTES: usize = 1024;

/// Maximum number of values in one result.
const MAX_RESULT_VALUES: usize = 250_000;

/// Validator for the results of a remote tool: its compiled output schema.
#[derive(Debug)]
pub struct OutputValidator(Schema);

impl OutputValidator {
    /// Compiles a schema that is within the limits. Nothing is fetched.
    ///
    /// # Errors
    /// Contains the reason for which the schema is rejected.
    pub fn new(schema: &Value) -> Result<Self, String> {
        let text = schema.to_string();
        if text.len() > MAX_SCHEMA_BYTES {
            return Err(format!("the schema has more than {MAX_SCHEMA_BYTES} bytes"));
        }
        if lenient_json::count(&text) > MAX_SCHEMA_VALUES {
            return Err(format!("the schema has more than {MAX_SCHEMA_VALUES} values"));
        }
        if schema_problems::has_longer_name(schema, MAX_NAME_BYTES) {
            return Err(format!("a name in the schema is longer than {MAX_NAME_BYTES} bytes"));
        }
        if let Some(problem) = schema_problems::problems(schema, SCHEMA_LIMITS).first() {
            return Err(problem_report::shorten(problem.to_string()));
        }
        Schema::compile(schema).map(OutputValidator)
    }

    /// Validates the text of a JSON value.
    #[must_use]
    pub fn validate(&self, json: &str) -> Validity {
        if lenient_json::count(json) > MAX_RESULT_VALUES {
            return Validity::Unchecked(format!(
                "it has {}",
                lenient_json::too_many(MAX_RESULT_VALUES)
            ));
        }
        match serde_json::from_str::<Value>(json) {
            Ok(value) => self.0.validate(&value, true),
            Err(_) => Validity::Unchecked("it is not valid JSON".into()),
        }
    }
}
