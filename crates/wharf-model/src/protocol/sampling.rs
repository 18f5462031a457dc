//! Sampling: generation by the client's language model.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, value::RawValue};

use crate::builders::{meta_setter, open_enum, or_default, setters};
use crate::protocol::tool::present;
use crate::{Content, LazyJson, Meta, Role, ToolInfo};

/// Parameters of `sampling/createMessage`.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{SamplingMessage, SamplingRequest};
///
/// let ask = SamplingRequest::new(100)
///     .message(SamplingMessage::user("What is the capital of France?"))
///     .system_prompt("Be brief.")
///     .temperature(0.1);
/// assert_eq!(ask.messages.len(), 1);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingRequest {
    /// Messages so far.
    pub messages: Vec<SamplingMessage>,
    /// Model preferences of the server.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// System prompt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Servers with context to include: `none`, `thisServer` or `allServers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<String>,
    /// Temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Maximum number of tokens to generate.
    pub max_tokens: u64,
    /// Stop sequences.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Parameters for the model's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Tools that the model may use.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolInfo>,
    /// Tool choice of the model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl SamplingRequest {
    /// Creates a request with a maximum number of tokens.
    pub fn new(max_tokens: u64) -> Self {
        Self { max_tokens, ..Self::default() }
    }

    /// Adds a message of the user.
    #[must_use]
    pub fn user(self, content: impl Into<Content>) -> Self {
        self.message(SamplingMessage::user(content))
    }
}

setters! { SamplingRequest {
    /// Adds a message.
    message(messages: push SamplingMessage);
    /// Sets the model preferences.
    model_preferences(model_preferences: some ModelPreferences);
    /// Sets the system prompt.
    system_prompt(system_prompt: some String);
    /// Sets the servers with context to include.
    include_context(include_context: some String);
    /// Sets the temperature.
    temperature(temperature: some f64);
    /// Adds a stop sequence.
    stop_sequence(stop_sequences: push String);
    /// Sets the parameters for the model's provider.
    metadata(metadata: some Value);
    /// Adds a tool that the model may use.
    tool(tools: push ToolInfo);
    /// Sets the tool choice.
    tool_choice(tool_choice: some ToolChoice);
} }

/// Message of a sampling conversation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Sender.
    pub role: Role,
    /// Content. One item is serialized as an object, several as an array.
    #[serde(with = "one_or_many")]
    pub content: Vec<Content>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl SamplingMessage {
    /// Creates a message of any number of items.
    pub fn new(role: Role, content: impl IntoIterator<Item = Content>) -> Self {
        Self { role, content: content.into_iter().collect(), meta: None }
    }

    /// Creates a message of the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, [content.into()])
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, [content.into()])
    }
}

/// Model preferences of a server. The client decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Model name hints, best first.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// Priority of low cost, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// Priority of speed, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// Priority of intelligence, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

setters! { ModelPreferences {
    /// Adds a model name hint.
    hint(hints: push ModelHint);
    /// Sets the priority of low cost, from 0 to 1.
    cost(cost_priority: some f64);
    /// Sets the priority of speed, from 0 to 1.
    speed(speed_priority: some f64);
    /// Sets the priority of intelligence, from 0 to 1.
    intelligence(intelligence_priority: some f64);
} }

/// Hint for the name of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelHint {
    /// Part of the name, such as `sonnet`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
}

impl From<&str> for ModelHint {
    fn from(name: &str) -> Self {
        Self { name: Some(name.to_owned()) }
    }
}

/// Tool choice of a model.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChoice {
    /// Mode; `auto` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

impl From<ToolChoiceMode> for ToolChoice {
    fn from(mode: ToolChoiceMode) -> Self {
        Self { mode: Some(mode) }
    }
}

open_enum! {
    /// Mode of a tool choice.
    ToolChoiceMode {
        /// The model decides.
        Auto = "auto",
        /// The model must use at least one tool.
        Required = "required",
        /// The model must not use tools.
        None = "none",
    }
}

/// Result of `sampling/createMessage`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingResult {
    /// Sender.
    pub role: Role,
    /// Content. One item is serialized as an object, several as an array.
    #[serde(with = "one_or_many")]
    pub content: Vec<Content>,
    /// Model that generated the message.
    pub model: String,
    /// Stop reason, such as `endTurn`, `maxTokens` or `toolUse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl SamplingResult {
    /// Creates a result of `model`.
    pub fn new(model: impl Into<String>, content: impl Into<Content>) -> Self {
        let content = vec![content.into()];
        Self { role: Role::Assistant, content, model: model.into(), stop_reason: None, meta: None }
    }

    /// Returns all text of the message, concatenated.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect()
    }
}

setters! { SamplingResult {
    /// Sets the stop reason.
    stop_reason(stop_reason: some String);
} }

/// Tool call of a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUse {
    /// Id that the result refers to.
    pub id: String,
    /// Name of the tool.
    pub name: String,
    /// Arguments.
    pub input: Value,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
}

impl ToolUse {
    /// Creates a tool call.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: impl Into<Value>) -> Self {
        Self { id: id.into(), name: name.into(), input: input.into(), meta: None }
    }
}

/// Result of a tool call for the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// Id of the tool call.
    pub tool_use_id: String,
    /// Content for the model.
    #[serde(default, deserialize_with = "or_default")]
    pub content: Vec<Content>,
    /// Structured content.
    #[serde(
        default,
        rename = "structuredContent",
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub structured: Option<Value>,
    /// True if the tool failed.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
}

impl ToolResultContent {
    /// Creates the result of a tool call.
    pub fn new(tool_use_id: impl Into<String>, content: impl IntoIterator<Item = Content>) -> Self {
        let content = content.into_iter().collect();
        Self { tool_use_id: tool_use_id.into(), content, ..Self::default() }
    }
}

setters! { ToolResultContent {
    /// Sets the structured content.
    structured(structured: some Value);
    /// Sets whether the tool failed.
    is_error(is_error: set bool);
} }

meta_setter!(SamplingRequest, SamplingMessage, SamplingResult, ToolUse, ToolResultContent);

impl From<ToolUse> for Content {
    fn from(it: ToolUse) -> Self {
        Self::ToolUse(Box::new(it))
    }
}

impl From<ToolResultContent> for Content {
    fn from(it: ToolResultContent) -> Self {
        Self::ToolResult(Box::new(it))
    }
}

mod one_or_many {
    use super::*;

    pub(crate) fn serialize<S: Serializer>(items: &[Content], to: S) -> Result<S::Ok, S::Error> {
        match items {
            // Older revisions allow only a single object.
            [item] => item.serialize(to),
            items => items.serialize(to),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Content>, D::Error> {
        let json = Box::<RawValue>::deserialize(from)?;
        let items = match json.get().starts_with('[') {
            true => serde_json::from_str(json.get()),
            false => serde_json::from_str(json.get()).map(|item| vec![item]),
        };
        items.map_err(D::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn request_round_trips() {
        let json = json!({"messages": [
                {"role": "user", "content": {"type": "text", "text": "Weather in Paris and London?"}},
                {"role": "assistant", "content": [
                    {"type": "tool_use", "id": "call_1", "name": "get_weather", "input": {"city": "Paris"}},
                    {"type": "tool_use", "id": "call_2", "name": "get_weather", "input": {"city": "London"}}]},
                {"role": "user", "content": {"type": "tool_result", "toolUseId": "call_1", "content": [], "structuredContent": null, "isError": true}}],
            "modelPreferences": {"hints": [{"name": "claude"}], "costPriority": 0.3, "speedPriority": 0.8, "intelligencePriority": 0.5},
            "systemPrompt": "s", "includeContext": "thisServer", "temperature": 0.1, "maxTokens": 1000, "stopSequences": ["."],
            "metadata": {"a": 1}, "tools": [{"name": "get_weather", "inputSchema": {"type": "object"}}],
            "toolChoice": {"mode": "perhaps"}, "_meta": {"k": 1}});
        let it: SamplingRequest = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(&it).unwrap(), json);
        assert_eq!(serde_json::from_str::<SamplingRequest>(&json.to_string()).unwrap(), it);
    }

    #[test]
    fn result_round_trips() {
        let json = json!({"role": "assistant", "content": [{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}],
            "model": "m", "stopReason": "endTurn"});
        let it: SamplingResult = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(it.text(), "ab");
        assert_eq!(serde_json::to_value(&it).unwrap(), json);
        let one =
            json!({"role": "assistant", "content": {"type": "text", "text": "a"}, "model": "m"});
        assert_eq!(serde_json::to_value(SamplingResult::new("m", "a")).unwrap(), one);
    }
}
