//! Sampling: asking the client's language model.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};
use serde_json::{Value, value::RawValue};

use crate::builders::{meta_setter, open_enum, or_default, setters};
use crate::protocol::tool::present;
use crate::{Content, LazyJson, Meta, Role, ToolInfo};

/// A question to the client's model.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{SamplingMessage, SamplingRequest};
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
    /// The conversation so far.
    pub messages: Vec<SamplingMessage>,
    /// Which model the server would like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_preferences: Option<ModelPreferences>,
    /// What to tell the model first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Which servers' context to add: `none`, `thisServer` or `allServers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_context: Option<String>,
    /// How freely the model may choose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// How much the model may write.
    pub max_tokens: u64,
    /// Where the model must stop.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub stop_sequences: Vec<String>,
    /// Parameters for the model's provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Value>,
    /// Tools that the model may use.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<ToolInfo>,
    /// How the model may use them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_choice: Option<ToolChoice>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl SamplingRequest {
    /// A question, answered in at most this many tokens.
    pub fn new(max_tokens: u64) -> Self {
        Self { max_tokens, ..Self::default() }
    }

    /// Adds what the user says.
    #[must_use]
    pub fn user(self, content: impl Into<Content>) -> Self {
        self.message(SamplingMessage::user(content))
    }
}

setters! { SamplingRequest {
    /// Adds a message to the conversation.
    message(messages: push SamplingMessage);
    /// Says which model would be best.
    model_preferences(model_preferences: some ModelPreferences);
    /// Sets what to tell the model first.
    system_prompt(system_prompt: some String);
    /// Says which servers' context to add.
    include_context(include_context: some String);
    /// Sets how freely the model may choose.
    temperature(temperature: some f64);
    /// Adds a text at which the model must stop.
    stop_sequence(stop_sequences: push String);
    /// Sets the parameters for the model's provider.
    metadata(metadata: some Value);
    /// Adds a tool that the model may use.
    tool(tools: push ToolInfo);
    /// Says how the model may use tools.
    tool_choice(tool_choice: some ToolChoice);
} }

/// One message of a conversation with a model.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct SamplingMessage {
    /// Who says it.
    pub role: Role,
    /// What is said. One item is written as an object, others as an array.
    #[serde(with = "one_or_many")]
    pub content: Vec<Content>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl SamplingMessage {
    /// A message of any number of items.
    pub fn new(role: Role, content: impl IntoIterator<Item = Content>) -> Self {
        Self { role, content: content.into_iter().collect(), meta: None }
    }

    /// What the user says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Role::User, [content.into()])
    }

    /// What the model says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Role::Assistant, [content.into()])
    }
}

/// Which model a server would like. The client decides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ModelPreferences {
    /// Names to look for, best first.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "Vec::is_empty")]
    pub hints: Vec<ModelHint>,
    /// How much a low price matters, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cost_priority: Option<f64>,
    /// How much speed matters, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speed_priority: Option<f64>,
    /// How much skill matters, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intelligence_priority: Option<f64>,
}

setters! { ModelPreferences {
    /// Adds a name to look for.
    hint(hints: push ModelHint);
    /// Says how much a low price matters, from 0 to 1.
    cost(cost_priority: some f64);
    /// Says how much speed matters, from 0 to 1.
    speed(speed_priority: some f64);
    /// Says how much skill matters, from 0 to 1.
    intelligence(intelligence_priority: some f64);
} }

/// Part of a model's name.
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

/// How a model may use tools.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolChoice {
    /// The mode; `auto` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<ToolChoiceMode>,
}

impl From<ToolChoiceMode> for ToolChoice {
    fn from(mode: ToolChoiceMode) -> Self {
        Self { mode: Some(mode) }
    }
}

open_enum! {
    /// Whether a model must use tools.
    ToolChoiceMode {
        /// As the model likes.
        Auto = "auto",
        /// At least one.
        Required = "required",
        /// None at all.
        None = "none",
    }
}

/// What the model said.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct SamplingResult {
    /// Who says it.
    pub role: Role,
    /// What is said. One item is written as an object, others as an array.
    #[serde(with = "one_or_many")]
    pub content: Vec<Content>,
    /// The model that answered.
    pub model: String,
    /// Why it stopped, such as `endTurn`, `maxTokens` or `toolUse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<String>,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<Meta>>,
}

impl SamplingResult {
    /// An answer from `model`.
    pub fn new(model: impl Into<String>, content: impl Into<Content>) -> Self {
        let content = vec![content.into()];
        Self { role: Role::Assistant, content, model: model.into(), stop_reason: None, meta: None }
    }

    /// All text of the answer, put together.
    pub fn text(&self) -> String {
        self.content.iter().filter_map(Content::as_text).collect()
    }
}

setters! { SamplingResult {
    /// Says why the model stopped.
    stop_reason(stop_reason: some String);
} }

/// A model's wish to call a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ToolUse {
    /// What the result will refer to.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its arguments.
    pub input: Value,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
}

impl ToolUse {
    /// A wish to call `name`.
    pub fn new(id: impl Into<String>, name: impl Into<String>, input: impl Into<Value>) -> Self {
        Self { id: id.into(), name: name.into(), input: input.into(), meta: None }
    }
}

/// What a tool answered to the model.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ToolResultContent {
    /// The tool use that it answers.
    pub tool_use_id: String,
    /// What the model reads.
    #[serde(default, deserialize_with = "or_default")]
    pub content: Vec<Content>,
    /// What programs read.
    #[serde(
        default,
        rename = "structuredContent",
        deserialize_with = "present",
        skip_serializing_if = "Option::is_none"
    )]
    pub structured: Option<Value>,
    /// Whether the tool failed.
    #[serde(default, deserialize_with = "or_default", skip_serializing_if = "std::ops::Not::not")]
    pub is_error: bool,
    /// The `_meta` object.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
}

impl ToolResultContent {
    /// The answer to a tool use.
    pub fn new(tool_use_id: impl Into<String>, content: impl IntoIterator<Item = Content>) -> Self {
        let content = content.into_iter().collect();
        Self { tool_use_id: tool_use_id.into(), content, ..Self::default() }
    }
}

setters! { ToolResultContent {
    /// Sets what programs read.
    structured(structured: some Value);
    /// Says whether the tool failed.
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
            // Older revisions know only the single object.
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
