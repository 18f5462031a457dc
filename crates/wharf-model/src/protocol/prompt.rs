//! Prompts: message templates that a user can select.

use serde::Serialize;

use crate::builders::{meta_setter, setters};
use crate::json::unknown_fields::reads_extra;
use crate::{Content, Icon, LazyJson, Meta, Role, UnknownFields};

/// Prompt as listed by `prompts/list`.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{PromptArgument, PromptInfo};
///
/// let review = PromptInfo::new("code_review").argument(PromptArgument::new("code").required(true));
/// assert!(review.arguments[0].required);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptInfo {
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Arguments.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// Icons for display.
    #[serde(skip_serializing_if = "LazyJson::<Vec<Icon>>::is_empty")]
    pub icons: LazyJson<Vec<Icon>>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { PromptInfo {
    name "name" must,
    title "title" maybe,
    description "description" maybe,
    arguments "arguments" or_default,
    icons "icons" or_default,
    meta "_meta" maybe,
} }

impl PromptInfo {
    /// Creates a prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

setters! { PromptInfo {
    /// Sets the display name.
    title(title: some String);
    /// Sets the description.
    description(description: some String);
    /// Adds an argument.
    argument(arguments: push PromptArgument);
    /// Adds an icon.
    icon(icons: push Icon);
} }

/// Argument of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Programmatic name.
    pub name: String,
    /// Display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Description.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if the argument is required.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { PromptArgument {
    name "name" must,
    title "title" maybe,
    description "description" maybe,
    required "required" or_default,
} }

impl PromptArgument {
    /// Creates an optional argument.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

setters! { PromptArgument {
    /// Sets the display name.
    title(title: some String);
    /// Sets the description.
    description(description: some String);
    /// Sets whether the argument is required.
    required(required: set bool);
} }

/// Message of a prompt.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::{PromptMessage, Role};
///
/// assert_eq!(PromptMessage::user("Review this").role, Role::User);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Sender.
    pub role: Role,
    /// Content.
    pub content: Content,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { PromptMessage {
    role "role" must,
    content "content" must,
} }

impl PromptMessage {
    /// Creates a message of the user.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into(), extra: UnknownFields::default() }
    }

    /// Creates a message of the model.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into(), extra: UnknownFields::default() }
    }
}

/// Result of `prompts/get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptResult {
    /// Description of the prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Messages, in order.
    pub messages: Vec<PromptMessage>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Unknown fields, preserved unchanged.
    #[serde(flatten)]
    pub extra: UnknownFields,
}

reads_extra! { PromptResult {
    description "description" maybe,
    messages "messages" or_default,
    meta "_meta" maybe,
} }

impl PromptResult {
    /// Creates a result with these messages.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }
}

setters! { PromptResult {
    /// Sets the description of the prompt.
    description(description: some String);
    /// Adds a message.
    message(messages: push PromptMessage);
} }

meta_setter!(PromptInfo, PromptResult);

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn round_trips() {
        let json = json!({"name": "code_review", "title": "Request Code Review", "description": "Asks the LLM",
            "arguments": [{"name": "code", "description": "The code", "required": true}, {"name": "style", "title": "Style"}],
            "icons": [{"src": "https://x.test/i.svg", "mimeType": "image/svg+xml", "sizes": ["any"]}]});
        let it: PromptInfo = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(it).unwrap(), json);

        let json = json!({"description": "Code review prompt", "messages": [
            {"role": "user", "content": {"type": "text", "text": "Please review"}},
            {"role": "critic", "content": {"type": "text", "text": "No"}}]});
        let it: PromptResult = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(it.messages[1].role, Role::Other("critic".into()));
        assert_eq!(serde_json::to_value(it).unwrap(), json);
    }
}
