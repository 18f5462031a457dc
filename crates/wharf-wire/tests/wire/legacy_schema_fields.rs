//! Fields of each legacy revision's schema, to validate results against.

use serde_json::Value;

use crate::common::LEGACY;

/// Type, field, first revision with it, last revision with it.
type SchemaField = (&'static str, &'static str, usize, usize);

const ALL: (usize, usize) = (0, 3);

/// Fields of the legacy schemas, with the first and the last legacy revision that has them.
#[rustfmt::skip]
const FIELDS: &[SchemaField] = &[
    ("Tool", "name", ALL.0, ALL.1), ("Tool", "description", 0, 3), ("Tool", "inputSchema", 0, 3),
    ("Tool", "annotations", 1, 3), ("Tool", "title", 2, 3), ("Tool", "outputSchema", 2, 3), ("Tool", "_meta", 2, 3),
    ("Tool", "icons", 3, 3), ("Tool", "execution", 3, 3),
    ("Resource", "uri", 0, 3), ("Resource", "name", 0, 3), ("Resource", "description", 0, 3), ("Resource", "mimeType", 0, 3),
    ("Resource", "annotations", 0, 3), ("Resource", "size", 0, 3), ("Resource", "title", 2, 3), ("Resource", "_meta", 2, 3),
    ("Resource", "icons", 3, 3),
    ("Template", "uriTemplate", 0, 3), ("Template", "name", 0, 3), ("Template", "description", 0, 3), ("Template", "mimeType", 0, 3),
    ("Template", "annotations", 0, 3), ("Template", "title", 2, 3), ("Template", "_meta", 2, 3), ("Template", "icons", 3, 3),
    ("Prompt", "name", 0, 3), ("Prompt", "description", 0, 3), ("Prompt", "arguments", 0, 3), ("Prompt", "title", 2, 3),
    ("Prompt", "_meta", 2, 3), ("Prompt", "icons", 3, 3),
    ("Argument", "name", 0, 3), ("Argument", "description", 0, 3), ("Argument", "required", 0, 3), ("Argument", "title", 2, 3),
    ("Annotations", "audience", 0, 3), ("Annotations", "priority", 0, 3), ("Annotations", "lastModified", 2, 3),
    ("ToolAnnotations", "title", 1, 3), ("ToolAnnotations", "readOnlyHint", 1, 3), ("ToolAnnotations", "destructiveHint", 1, 3),
    ("ToolAnnotations", "idempotentHint", 1, 3), ("ToolAnnotations", "openWorldHint", 1, 3),
    ("text", "type", 0, 3), ("text", "text", 0, 3), ("text", "annotations", 0, 3), ("text", "_meta", 2, 3),
    ("image", "type", 0, 3), ("image", "data", 0, 3), ("image", "mimeType", 0, 3), ("image", "annotations", 0, 3), ("image", "_meta", 2, 3),
    ("audio", "type", 1, 3), ("audio", "data", 1, 3), ("audio", "mimeType", 1, 3), ("audio", "annotations", 1, 3), ("audio", "_meta", 2, 3),
    ("resource", "type", 0, 3), ("resource", "resource", 0, 3), ("resource", "annotations", 0, 3), ("resource", "_meta", 2, 3),
    ("resource_link", "type", 2, 3), ("resource_link", "uri", 2, 3), ("resource_link", "name", 2, 3), ("resource_link", "title", 2, 3),
    ("resource_link", "description", 2, 3), ("resource_link", "mimeType", 2, 3), ("resource_link", "annotations", 2, 3),
    ("resource_link", "size", 2, 3), ("resource_link", "_meta", 2, 3), ("resource_link", "icons", 3, 3),
    ("Contents", "uri", 0, 3), ("Contents", "mimeType", 0, 3), ("Contents", "text", 0, 3), ("Contents", "blob", 0, 3), ("Contents", "_meta", 2, 3),
    ("CallResult", "content", 0, 3), ("CallResult", "isError", 0, 3), ("CallResult", "_meta", 0, 3), ("CallResult", "structuredContent", 2, 3),
    ("ListResult", "tools", 0, 3), ("ListResult", "resources", 0, 3), ("ListResult", "resourceTemplates", 0, 3),
    ("ListResult", "prompts", 0, 3), ("ListResult", "nextCursor", 0, 3), ("ListResult", "_meta", 0, 3),
    ("ReadResult", "contents", 0, 3), ("ReadResult", "_meta", 0, 3),
    ("PromptResult", "description", 0, 3), ("PromptResult", "messages", 0, 3), ("PromptResult", "_meta", 0, 3),
    ("Message", "role", 0, 3), ("Message", "content", 0, 3),
    ("CompleteResult", "completion", 0, 3), ("CompleteResult", "_meta", 0, 3),
    ("Completion", "values", 0, 3), ("Completion", "total", 0, 3), ("Completion", "hasMore", 0, 3),
];

/// Returns the type of a field's value, if it is an object type again.
const INNER: &[(&str, &str, &str)] = &[
    ("ListResult", "tools", "Tool"),
    ("ListResult", "resources", "Resource"),
    ("ListResult", "resourceTemplates", "Template"),
    ("ListResult", "prompts", "Prompt"),
    ("Prompt", "arguments", "Argument"),
    ("Tool", "annotations", "ToolAnnotations"),
    ("CallResult", "content", "Content"),
    ("PromptResult", "messages", "Message"),
    ("Message", "content", "Content"),
    ("ReadResult", "contents", "Contents"),
    ("resource", "resource", "Contents"),
    ("CompleteResult", "completion", "Completion"),
];

/// Panics if `value`, or anything in it, has a field that the revision's schema does not have.
pub(crate) fn check(shape: &str, value: &Value, version: &str) {
    let revision = LEGACY.iter().position(|date| *date == version).unwrap();
    if let Value::Array(items) = value {
        return items.iter().for_each(|item| check(shape, item, version));
    }
    let shape = match shape {
        "Content" => value["type"].as_str().unwrap(),
        shape => shape,
    };
    for (name, inner) in value.as_object().unwrap() {
        let known = FIELDS.iter().any(|field| {
            (field.0, field.1) == (shape, name) && (field.2..=field.3).contains(&revision)
        });
        assert!(known, "{version} has no {shape}.{name}: {value}");
        if let Some(row) = INNER.iter().find(|row| (row.0, row.1) == (shape, name)) {
            check(row.2, inner, version);
        } else if name == "annotations" {
            check("Annotations", inner, version);
        }
    }
}
