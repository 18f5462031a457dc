//! Values that fit a JSON Schema, as far as the schemas of tools and forms go.

use serde_json::{Map, Value, json};

/// A value that fits: the schema's own default if it has one, else a small one.
pub(crate) fn fitting(schema: &Value) -> Value {
    let given = [&schema["default"], &schema["const"], &schema["enum"][0]];
    if let Some(value) = given.into_iter().find(|value| !value.is_null()) {
        return value.clone();
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(first) = schema[choice].get(0) {
            return fitting(first);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("object") => object(schema, |_| true),
        Some("array") => {
            let length = schema["minItems"].as_u64().unwrap_or_default();
            (0..length).map(|_| fitting(&schema["items"])).collect()
        }
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("number") => json!(schema["minimum"].as_f64().unwrap_or(1.0)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ => json!(text(schema)),
    }
}

/// The required members that have no default of their own: what is left to whoever fills in a form.
pub(crate) fn without_defaults(schema: &Value) -> Value {
    object(schema, |property| property["default"].is_null())
}

fn object(schema: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut members = Map::new();
    for name in required.iter().filter_map(Value::as_str) {
        let property = &schema["properties"][name];
        if wanted(property) {
            members.insert(name.to_owned(), fitting(property));
        }
    }
    members.into()
}

fn text(schema: &Value) -> String {
    let text = match schema["format"].as_str() {
        Some("email") => "someone@example.com",
        Some("uri") => "https://example.com/",
        Some("date") => "2026-07-28",
        Some("date-time") => "2026-07-28T00:00:00Z",
        _ => "text",
    };
    let shortest = schema["minLength"].as_u64().and_then(|length| usize::try_from(length).ok());
    format!("{text:x<width$}", width = shortest.unwrap_or_default().min(1_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fits_its_schema() {
        for (schema, value) in [
            (json!({"type": "string", "default": "a"}), json!("a")),
            (json!({"type": "string", "enum": ["x", "y"]}), json!("x")),
            (json!({"type": "string", "oneOf": [{"const": "v", "title": "V"}]}), json!("v")),
            (json!({"type": "string", "minLength": 6}), json!("textxx")),
            (json!({"type": "integer", "minimum": 7}), json!(7)),
            (json!({"type": ["boolean", "null"]}), json!(true)),
            (json!({"type": "array", "minItems": 1, "items": {"type": "number"}}), json!([1.0])),
            (
                json!({"type": "object", "required": ["a"], "properties": {"a": {}, "b": {}}}),
                json!({"a": "text"}),
            ),
        ] {
            assert_eq!(fitting(&schema), value, "{schema}");
        }
    }

    #[test]
    fn defaults_are_left_to_the_library() {
        let schema = json!({
            "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}},
            "required": ["a", "b"],
        });
        assert_eq!(without_defaults(&schema), json!({"b": true}));
    }
}
