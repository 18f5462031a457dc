//! Validates arguments and results against schemas that are stricter than their types.

use std::{
    fmt,
    sync::{Arc, OnceLock},
};

use serde_json::{Map, Value};
use wharf_schema::{
    problem_report::shorten,
    validate::{MAX_REPORT_STEPS, Schema, Validity},
};

use crate::{
    handler::string_args::StringArg,
    lenient_json, schema,
    schema::{ArgumentSchema, lint},
};

/// Maximum nesting of lists that one string can be converted to; needed because types may refer to
/// themselves.
const MAX_LIST_NESTING: usize = 16;

/// Schema that is compiled on first use.
pub(crate) struct SchemaValidator {
    schema: Arc<Value>,
    /// True if the schema is stricter than deserializing the handler's type.
    stricter_than_type: bool,
    /// True if problems may quote the value. Arguments may be quoted to their caller; a result must
    /// not reach a log.
    quotes_values: bool,
    /// True if an empty object is certainly valid, which is all that most calls without parameters
    /// send.
    accepts_empty: bool,
    compiled: OnceLock<Result<Schema, String>>,
}

impl SchemaValidator {
    pub(crate) fn new(schema: Arc<Value>, stricter_than_type: bool) -> Self {
        let accepts_empty = *schema == ArgumentSchema::nothing().schema;
        SchemaValidator {
            schema,
            stricter_than_type,
            quotes_values: true,
            accepts_empty,
            compiled: OnceLock::new(),
        }
    }

    /// Creates the validator of results: every value is validated, and none is quoted.
    pub(crate) fn for_results(schema: Arc<Value>) -> Self {
        SchemaValidator { quotes_values: false, ..SchemaValidator::new(schema, true) }
    }

    /// Compiles the schema, so that an invalid one is found when the server is built.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        if !self.stricter_than_type || self.accepts_empty {
            return Ok(());
        }
        self.compiled().as_ref().map(drop).map_err(Clone::clone)
    }

    /// Validates a JSON object of at most `most` values, if the schema is stricter than its type.
    pub(crate) fn check_json(&self, json: &str, most: usize) -> Result<(), String> {
        if !self.stricter_than_type || (self.accepts_empty && json == "{}") {
            return Ok(());
        }
        if !lenient_json::is_within(json, most) {
            return Err(format!("- they have {}", lenient_json::too_many(most)));
        }
        match lenient_json::unambiguous(json) {
            Ok(value) => self.check(&value),
            Err(error) => Err(shorten(format!("- {error}"))),
        }
    }

    /// Validates decoded strings, each parsed as the type of its property.
    pub(crate) fn check_strings(
        &self,
        pairs: &[(impl AsRef<str>, StringArg)],
    ) -> Result<(), String> {
        if self.stricter_than_type { self.check(&self.object(pairs)) } else { Ok(()) }
    }

    /// Returns the problems of a JSON object that could not be deserialized as the handler's type.
    pub(crate) fn explain_json(&self, json: &str, most: usize) -> Option<String> {
        if !lenient_json::is_within(json, most) {
            return None;
        }
        let (value, schema) = (serde_json::from_str(json).ok()?, self.compiled().as_ref().ok()?);
        let found = schema.problems(&value, MAX_REPORT_STEPS, self.quotes_values);
        (!found.is_empty()).then(|| found.to_string())
    }

    pub(crate) fn check(&self, value: &Value) -> Result<(), String> {
        let Ok(schema) = self.compiled() else { return Ok(()) };
        match schema.validate(value, self.quotes_values) {
            Validity::Valid => Ok(()),
            Validity::Invalid(problems) => Err(problems),
            Validity::Unchecked(reason) => Err(format!("- {reason}")),
        }
    }

    /// Returns the parameters in one line, for a model that sent invalid arguments.
    pub(crate) fn signature(&self) -> String {
        let parameter = |(name, property): (&String, &Value)| {
            let kind = lint::describe(&self.schema, property);
            let optional = if schema::requires(&self.schema, name) { "" } else { "?" };
            if kind.is_empty() {
                format!("{name}{optional}")
            } else {
                format!("{name}{optional}: {kind}")
            }
        };
        let all: Vec<String> = schema::properties(&self.schema).map(parameter).collect();
        if all.is_empty() { "no arguments".into() } else { all.join(", ") }
    }

    fn compiled(&self) -> &Result<Schema, String> {
        self.compiled.get_or_init(|| Schema::compile(&self.schema))
    }

    fn object(&self, pairs: &[(impl AsRef<str>, StringArg)]) -> Value {
        let anything = Value::Bool(true);
        let properties = self.schema.get("properties");
        let object: Map<String, Value> = pairs
            .iter()
            .map(|(name, value)| {
                let name = name.as_ref();
                let property = properties.and_then(|it| it.get(name)).unwrap_or(&anything);
                (name.to_owned(), self.typed(property, value, MAX_LIST_NESTING))
            })
            .collect();
        Value::Object(object)
    }

    /// Converts decoded strings to the JSON that `schema` describes.
    fn typed(&self, schema: &Value, value: &StringArg, depth: usize) -> Value {
        let leaves = lint::leaves(&self.schema, schema);
        let takes = |kind: &str| leaves.iter().any(|leaf| lint::accepts(leaf, kind));
        let item = |text: &String| {
            let items = leaves.iter().find_map(|leaf| leaf.get("items"));
            let items = items.unwrap_or(&Value::Null);
            self.typed(items, &StringArg::Single(text.clone()), depth.saturating_sub(1))
        };
        match value {
            StringArg::List(texts) => texts.iter().map(item).collect(),
            StringArg::Single(text) if takes("string") => Value::from(text.as_str()),
            StringArg::Single(text) if depth > 0 && takes("array") => {
                [text].map(item).into_iter().collect()
            }
            StringArg::Single(text) => number_or_bool(text),
        }
    }
}

/// Parses a string as `bool` or number, as Rust's `FromStr` does.
fn number_or_bool(text: &str) -> Value {
    let switch = || text.parse::<bool>().map(Value::from).ok();
    let json = || serde_json::from_str(text).map(Value::Number).ok();
    // Rust accepts `+1` and `01` as well.
    let number = || text.parse::<i64>().map(Value::from).ok();
    switch().or_else(json).or_else(number).unwrap_or_else(|| Value::from(text))
}

impl fmt::Debug for SchemaValidator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchemaValidator")
            .field("stricter_than_type", &self.stricter_than_type)
            .finish_non_exhaustive()
    }
}
