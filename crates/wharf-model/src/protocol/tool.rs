//! Tools: what they look like and what they return.

use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Value, json};

use crate::builders::{meta_setter, open_enum, setters};
use crate::json::unknown_fields::reads_extra;
use crate::{Content, Extra, Icon, JsonText, LazyJson, Meta};

/// A tool as `tools/list` shows it.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use serde_json::json;
/// use wharf::{ToolAnnotations, ToolInfo};
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
    /// Its name in code.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it does; models read this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The JSON Schema of its arguments. One that came from a server stays text until it is read.
    pub input_schema: LazyJson<Arc<Value>>,
    /// The JSON Schema of its structured content.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output_schema: Option<LazyJson<Arc<Value>>>,
    /// Hints on how it behaves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub annotations: Option<ToolAnnotations>,
    /// Pictures to show it with.
    #[serde(skip_serializing_if = "LazyJson::<Vec<Icon>>::is_empty")]
    pub icons: LazyJson<Vec<Icon>>,
    /// How it may be run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub execution: Option<Execution>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
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
    /// A tool that takes what `input_schema` describes.
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
            extra: Extra::default(),
        }
    }

    /// Sets the JSON Schema of its structured content.
    #[must_use]
    pub fn output_schema(mut self, schema: impl Into<Arc<Value>>) -> Self {
        self.output_schema = Some(schema.into().into());
        self
    }

    /// A tool without parameters.
    pub fn without_parameters(name: impl Into<String>) -> Self {
        Self::new(name, json!({"type": "object", "additionalProperties": false}))
    }
}

setters! { ToolInfo {
    /// Sets the name for people.
    title(title: some String);
    /// Says what it does.
    description(description: some String);
    /// Sets the hints on how it behaves.
    annotations(annotations: some ToolAnnotations);
    /// Adds an icon.
    icon(icons: push Icon);
    /// Says how it may be run.
    execution(execution: some Execution);
} }

/// Hints on how a tool behaves. A client must not trust them blindly.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolAnnotations {
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// It changes nothing.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only_hint: Option<bool>,
    /// It may destroy something.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub destructive_hint: Option<bool>,
    /// Calling it twice does no more than calling it once.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotent_hint: Option<bool>,
    /// It reaches out to the world.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open_world_hint: Option<bool>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

reads_extra! { ToolAnnotations {
    title "title" maybe,
    read_only_hint "readOnlyHint" maybe,
    destructive_hint "destructiveHint" maybe,
    idempotent_hint "idempotentHint" maybe,
    open_world_hint "openWorldHint" maybe,
} }

setters! { ToolAnnotations {
    /// Sets the name for people.
    title(title: some String);
    /// Says whether it changes nothing.
    read_only(read_only_hint: some bool);
    /// Says whether it may destroy something.
    destructive(destructive_hint: some bool);
    /// Says whether repeating it is harmless.
    idempotent(idempotent_hint: some bool);
    /// Says whether it reaches out to the world.
    open_world(open_world_hint: some bool);
} }

/// How a tool may be run.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct Execution {
    /// Whether it may run as a task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_support: Option<TaskSupport>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

reads_extra! { Execution {
    task_support "taskSupport" maybe,
} }

setters! { Execution {
    /// Says whether it may run as a task.
    task_support(task_support: some TaskSupport);
} }

open_enum! {
    /// Whether a tool may run as a task.
    TaskSupport {
        /// It may not; the default.
        Forbidden = "forbidden",
        /// As the caller likes.
        Optional = "optional",
        /// Only as a task.
        Required = "required",
    }
}

/// What a tool call returns.
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
    /// What the model reads.
    pub content: Vec<Content>,
    /// What programs read.
    #[serde(rename = "structuredContent", skip_serializing_if = "Option::is_none")]
    pub structured: Option<JsonText>,
    /// Whether the tool failed.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

reads_extra! { ToolResult {
    content "content" or_default,
    structured "structuredContent" present,
    is_error "isError" or_default,
    meta "_meta" maybe,
} }

impl ToolResult {
    /// A result with this content.
    pub fn new(content: impl IntoIterator<Item = Content>) -> Self {
        Self { content: content.into_iter().collect(), ..Self::default() }
    }

    /// One text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { content: vec![Content::text(text)], ..Self::default() }
    }

    /// A failure, in words that help the model to do better.
    pub fn error(text: impl Into<String>) -> Self {
        Self { is_error: true, ..Self::text(text) }
    }

    /// Structured content, and the same JSON as text for clients that read
    /// only text.
    pub fn json(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let json = JsonText::of(value)?;
        let text = Self::text(json.get());
        Ok(Self { structured: Some(json), ..text })
    }
}

setters! { ToolResult {
    /// Adds one item of content.
    content(content: push Content);
    /// Sets the structured content.
    structured(structured: some JsonText);
} }

meta_setter!(ToolInfo, ToolResult);

/// Keeps `null` as a value: structured content may be any JSON.
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
        // As values: the order of a schema's keys hangs on features that other crates switch on.
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
