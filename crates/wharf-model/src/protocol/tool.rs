//! Tools and their results.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::builders::{meta_setter, open_enum, setters};
use crate::json::unknown_fields::reads_extra;
use crate::{Content, Icon, JsonText, LazyJson, Meta, UnknownFields};

/// Tool as listed by `tools/list`.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use serde_json::json;
/// use wharf::model::{ToolAnnotations, ToolInfo};
///
/// let add = ToolInfo::new("add", json!({"type": "object"}))
///     .description("Adds two numbers.")
///     .annotations(ToolAnnotations::default().read_only(true));
/// assert_eq!(serde_json::to_value(&add).unwrap()["annotations"]["readOnlyHint"], true);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolInfo {
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description for models.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// JSON Schema of the arguments. If it came from a server, it stays text until it is read.
    pub input_schema: LazyJson<Arc<Value>>,
    /// JSON Schema of the structured content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<LazyJson<Arc<Value>>>,
    /// Annotations: hints about the behaviour.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Icons for display.
    #[serde(skip_serializing_if = "LazyJson::<Vec<Icon>>::is_empty")]
    pub icons: LazyJson<Vec<Icon>>,
    /// Execution options.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { ToolInfo {
    name "name" must,
    title "title" maybe,
    description "description" maybe,
    input_schema "inputSchema" must,
    output_schema "outputSchema" maybe,
    annotations "annotations" maybe,
    icons "icons" or_default,
    execution "execution" maybe,
    meta "_meta" maybe,
} }

impl ToolInfo {
    /// Creates a tool with this input schema.
    pub fn new(name: impl Into<String>, input_schema: impl Into<Arc<Value>>) -> Self {
        Self {
            name: name.into(),
            title: None,
            description: None,
            input_schema: input_schema.into().into(),
            output_schema: None,
            annotations: None,
            icons: LazyJson::default(),
            execution: None,
            meta: None,
            extra: UnknownFields::default(),
        }
    }

    /// Sets the JSON Schema of the structured content.
    #[must_use]
    pub fn output_schema(mut self, schema: impl Into<Arc<Value>>) -> Self {
        self.output_schema = Some(schema.into().into());
        self
    }

    /// Creates a tool without parameters.
    pub fn without_parameters(name: impl Into<String>) -> Self {
        Self::new(name, json!({"type": "object", "additionalProperties": false}))
    }
}

setters! { ToolInfo {
    /// Sets the display name.
    title(title: some String);
    /// Sets the description.
    description(description: some String);
    /// Sets the annotations.
    annotations(annotations: some ToolAnnotations);
    /// Adds an icon.
    icon(icons: push Icon);
    /// Sets the execution options.
    execution(execution: some Execution);
} }

/// Annotations of a tool: hints about its behaviour. Clients must not trust them blindly.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// The tool is read-only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// The tool may be destructive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// The tool is idempotent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// The tool interacts with external systems.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { ToolAnnotations {
    title "title" maybe,
    read_only_hint "readOnlyHint" maybe,
    destructive_hint "destructiveHint" maybe,
    idempotent_hint "idempotentHint" maybe,
    open_world_hint "openWorldHint" maybe,
} }

setters! { ToolAnnotations {
    /// Sets the display name.
    title(title: some String);
    /// Sets whether the tool is read-only.
    read_only(read_only_hint: some bool);
    /// Sets whether the tool may be destructive.
    destructive(destructive_hint: some bool);
    /// Sets whether the tool is idempotent.
    idempotent(idempotent_hint: some bool);
    /// Sets whether the tool interacts with external systems.
    open_world(open_world_hint: some bool);
} }

/// Execution options of a tool.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Execution {
    /// Task support.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { Execution {
    task_support "taskSupport" maybe,
} }

setters! { Execution {
    /// Sets the task support.
    task_support(task_support: some TaskSupport);
} }

open_enum! {
    /// Task support of a tool.
    TaskSupport {
        /// Never runs as a task; the default.
        Forbidden = "forbidden",
        /// The caller decides.
        Optional = "optional",
        /// Runs only as a task.
        Required = "required",
    }
}

/// Result of a tool call.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::ToolResult;
///
/// let ok = ToolResult::json(&[1, 2]).unwrap();
/// assert_eq!(
///     serde_json::to_string(&ok).unwrap(),
///     r#"{"content":[{"type":"text","text":"[1,2]"}],"structuredContent":[1,2]}"#
/// );
/// assert!(ToolResult::error("no such crate").is_error);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResult {
    /// Content for the model.
    pub content: Vec<Content>,
    /// Structured content for programs.
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    pub structured: Option<JsonText>,
    /// True if the tool failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { ToolResult {
    content "content" or_default,
    structured "structuredContent" present,
    is_error "isError" or_default,
    meta "_meta" maybe,
} }

impl ToolResult {
    /// Creates a result with this content.
    pub fn new(content: impl IntoIterator<Item = Content>) -> Self {
        Self { content: content.into_iter().collect(), ..Self::default() }
    }

    /// Creates a result with one text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// Creates an error result, with a text that helps the model to correct its call.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Creates a result with structured content, and the same JSON as text for clients that read only text.
    pub fn json(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let json = JsonText::of(value)?;
        let text = Self::text(json.get());
        Ok(Self { structured: Some(json), ..text })
    }
}

setters! { ToolResult {
    /// Adds a content item.
    content(content: push Content);
    /// Sets the structured content.
    structured(structured: some JsonText);
} }

meta_setter!(ToolInfo, ToolResult);

/// Reads `null` as a value: structured content may be any JSON.
pub(crate) fn present<'de, D, T>(from: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    T::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn info_round_trips() {
        let json = json!({"name": "get_weather", "title": "Weather", "description": "Get it",
            "inputSchema": {"type": "object", "properties": {"city": {"type": "string"}}},
            "outputSchema": {"type": "array"}, "annotations": {"readOnlyHint": true, "destructiveHint": false},
            "icons": [{"src": "data:,"}], "execution": {"taskSupport": "someday"}, "_meta": {"k": 1}});
        let it: ToolInfo = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&it).unwrap(), json);
        // Compared as values: the key order of a schema depends on features that other crates enable.
        let bare =
            json!({"name": "a", "inputSchema": {"additionalProperties": false, "type": "object"}});
        assert_eq!(serde_json::to_value(ToolInfo::without_parameters("a")).unwrap(), bare);
        assert!(serde_json::from_str::<ToolInfo>(r#"{"name":"a"}"#).is_err());
    }

    #[test]
    fn result_round_trips() {
        for text in [
            r#"{"content":[{"type":"text","text":"72F"}]}"#,
            r#"{"content":[],"structuredContent":{"b":1.50,"a":null}}"#,
            r#"{"content":[],"structuredContent":null}"#,
            r#"{"content":[{"type":"text","text":"bad date"}],"isError":true,"_meta":{"k":1}}"#,
        ] {
            let it: ToolResult = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&it).unwrap(), text);
            assert_eq!(it, it.clone());
        }
        let nulls = r#"{"content":null,"isError":null,"_meta":null}"#;
        assert_eq!(serde_json::from_str::<ToolResult>(nulls).unwrap(), ToolResult::default());
    }
}
