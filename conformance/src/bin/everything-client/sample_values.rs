//! Sample values for the JSON Schemas of tools and forms.

use serde_json::{Map, Value, json};

/// Value that matches the schema: its default if it has one, else a minimal one.
pub(crate) fn sample_value(schema: &Value) -> Value {
    let credentials = [&schema["default"], &schema["const"], &schema["enum"][0]];
    if let Some(value) = credentials.into_iter().find(|value| !value.is_null()) {
        return value.clone();
    }
    for choice in ["oneOf", "anyOf"] {
        if let Some(first) = schema[choice].get(0) {
            return sample_value(first);
        }
    }
    let kind = schema["type"].as_str().or_else(|| schema["type"][0].as_str());
    match kind {
        Some("object") => object(schema, |_| true),
        Some("array") => {
            let length = schema["minItems"].as_u64().unwrap_or_default();
            (0..length).map(|_| sample_value(&schema["items"])).collect()
        }
        Some("integer") => json!(schema["minimum"].as_i64().unwrap_or(1)),
        Some("number") => json!(schema["minimum"].as_f64().unwrap_or(1.0)),
        Some("boolean") => json!(true),
        Some("null") => Value::Null,
        _ => json!(text(schema)),
    }
}

/// Required members without a default: the ones that a user has to fill in.
pub(crate) fn without_defaults(schema: &Value) -> Value {
    object(schema, |property| property["default"].is_null())
}

fn object(schema: &Value, wanted: impl Fn(&Value) -> bool) -> Value {
    let required = schema["required"].as_array().map(Vec::as_slice).unwrap_or_default();
    let mut members = Map::new();
    for name in required.iter().filter_map(Value::as_str) {
        let property = &schema["properties"][name];
        if wanted(property) {
            members.insert(name.to_owned(), sample_value(property));
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
    fn a_sample_value_matches_its_schema() {
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
            assert_eq!(sample_value(&schema), value, "{schema}");
        }
    }

    #[test]
    fn members_with_defaults_are_omitted() {
        let schema = json!({
            "properties": {"a": {"type": "string", "default": "x"}, "b": {"type": "boolean"}},
            "required": ["a", "b"],
        });
        assert_eq!(without_defaults(&schema), json!({"b": true}));
    }
}
