//! JSON Schemas: derived from types, and validated before a server offers them.

pub(crate) mod derive;
mod hand_written;
pub(crate) mod lint;
pub(crate) mod validator;

use serde_json::{Value, json};

pub(crate) use crate::schema::hand_written::problems;

/// Schema of a handler's arguments, and whether it is stricter than deserializing the type.
#[derive(Clone, Debug)]
pub(crate) struct ArgumentSchema {
    pub(crate) schema: Value,
    pub(crate) stricter_than_type: bool,
}

impl ArgumentSchema {
    /// Schema of a handler without arguments.
    pub(crate) fn nothing() -> Self {
        let schema = json!({"type": "object", "additionalProperties": false});
        ArgumentSchema { schema, stricter_than_type: true }
    }

    /// Schema of a handler that accepts any arguments.
    pub(crate) fn anything() -> Self {
        ArgumentSchema { schema: json!({"type": "object"}), stricter_than_type: false }
    }

    /// Returns the names of the arguments.
    pub(crate) fn names(&self) -> impl Iterator<Item = &String> {
        properties(&self.schema).map(|(name, _)| name)
    }

    /// Returns whether arguments of any name are accepted, as for a map.
    pub(crate) fn is_open(&self) -> bool {
        let extra = self.schema.get("additionalProperties");
        properties(&self.schema).next().is_none() && extra != Some(&Value::Bool(false))
    }
}

/// Returns the properties of an object schema, in the order of declaration.
pub(crate) fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    schema.get("properties").and_then(Value::as_object).into_iter().flatten()
}

/// Returns whether an object schema requires the property `name`.
pub(crate) fn requires(schema: &Value, name: &str) -> bool {
    let required = schema.get("required").and_then(Value::as_array);
    required.is_some_and(|names| names.iter().any(|it| it == name))
}
