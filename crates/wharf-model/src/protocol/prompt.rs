//! Prompts: messages that a user can pick.

use serde::Serialize;

use crate::builders::{meta_setter, setters};
use crate::json::unknown_fields::reads_extra;
use crate::{Content, Extra, Icon, LazyJson, Meta, Role};

/// A prompt as `prompts/list` shows it.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{PromptArgument, PromptInfo};
///
/// let review = PromptInfo::new("code_review").argument(PromptArgument::new("code").required(true));
/// assert!(review.arguments[0].required);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptInfo {
    /// Its name in code.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// What it can be given.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub arguments: Vec<PromptArgument>,
    /// Pictures to show it with.
    #[serde(skip_serializing_if = "LazyJson::<Vec<Icon>>::is_empty")]
    pub icons: LazyJson<Vec<Icon>>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
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
    /// A prompt without arguments.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

setters! { PromptInfo {
    /// Sets the name for people.
    title(title: some String);
    /// Says what it is for.
    description(description: some String);
    /// Adds an argument.
    argument(arguments: push PromptArgument);
    /// Adds an icon.
    icon(icons: push Icon);
} }

/// One argument of a prompt.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptArgument {
    /// Its name in code.
    pub name: String,
    /// Its name for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What it means.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the prompt needs it.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub required: bool,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

reads_extra! { PromptArgument {
    name "name" must,
    title "title" maybe,
    description "description" maybe,
    required "required" or_default,
} }

impl PromptArgument {
    /// An optional argument.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }
}

setters! { PromptArgument {
    /// Sets the name for people.
    title(title: some String);
    /// Says what it means.
    description(description: some String);
    /// Says whether the prompt needs it.
    required(required: set bool);
} }

/// One message of a prompt.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{PromptMessage, Role};
///
/// assert_eq!(PromptMessage::user("Review this").role, Role::User);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptMessage {
    /// Who says it.
    pub role: Role,
    /// What is said.
    pub content: Content,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

reads_extra! { PromptMessage {
    role "role" must,
    content "content" must,
} }

impl PromptMessage {
    /// What the user says.
    pub fn user(content: impl Into<Content>) -> Self {
        Self { role: Role::User, content: content.into(), extra: Extra::default() }
    }

    /// What the model says.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self { role: Role::Assistant, content: content.into(), extra: Extra::default() }
    }
}

/// The answer to `prompts/get`.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct PromptResult {
    /// What the prompt is for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The messages, in order.
    pub messages: Vec<PromptMessage>,
    /// The `_meta` object.
    #[serde(rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Box<LazyJson<Meta>>>,
    /// Fields that this version of Wharf does not know, kept as they came.
    #[serde(flatten)]
    pub extra: Extra,
}

reads_extra! { PromptResult {
    description "description" maybe,
    messages "messages" or_default,
    meta "_meta" maybe,
} }

impl PromptResult {
    /// A result with these messages.
    pub fn new(messages: impl IntoIterator<Item = PromptMessage>) -> Self {
        Self { messages: messages.into_iter().collect(), ..Self::default() }
    }
}

setters! { PromptResult {
    /// Says what the prompt is for.
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
