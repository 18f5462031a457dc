//! Elicitation: asking the user.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::builders::setters;

/// A form for the user to fill in.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use serde_json::json;
/// use wharf::ElicitForm;
///
/// let form = ElicitForm::new("Your name?", json!({"type": "object", "properties": {"name": {"type": "string"}}}));
/// assert_eq!(serde_json::to_value(&form).unwrap()["mode"], "form");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename = "form", tag = "mode")]
#[non_exhaustive]
pub struct ElicitForm {
    /// What to tell the user.
    pub message: String,
    /// The JSON Schema of the answer: an object of primitive fields.
    #[serde(rename = "requestedSchema")]
    pub schema: Value,
}

impl ElicitForm {
    /// A form whose answer fits `schema`.
    pub fn new(message: impl Into<String>, schema: impl Into<Value>) -> Self {
        Self { message: message.into(), schema: schema.into() }
    }
}

/// A page for the user to visit; what happens there never passes the client.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::ElicitUrl;
///
/// let page = ElicitUrl::new("Please sign in.", "https://example.com/sign-in");
/// assert_eq!(serde_json::to_value(&page).unwrap()["mode"], "url");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename = "url", tag = "mode")]
#[non_exhaustive]
pub struct ElicitUrl {
    /// Why the user should go there.
    pub message: String,
    /// Where to go.
    pub url: String,
    /// What the server calls this elicitation.
    #[serde(default, rename = "elicitationId", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl ElicitUrl {
    /// Sends the user to `url`.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into(), id: None }
    }
}

setters! { ElicitUrl {
    /// Sets what the server calls this elicitation.
    id(id: some String);
} }

/// What the user did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Agreed, and answered.
    Accept,
    /// Said no.
    Decline,
    /// Went away without a choice.
    Cancel,
}

/// The user's answer.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use serde_json::json;
/// use wharf::{ElicitAction, ElicitResult};
///
/// let answer = ElicitResult::accept(json!({"name": "octocat"}));
/// assert_eq!(answer.action, ElicitAction::Accept);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// What the user did.
    pub action: ElicitAction,
    /// The filled-in form; only when accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

impl ElicitResult {
    /// The user filled in the form.
    pub fn accept(content: impl Into<Value>) -> Self {
        Self { action: ElicitAction::Accept, content: Some(content.into()) }
    }

    /// The user agreed to visit the page.
    pub const fn accept_url() -> Self {
        Self { action: ElicitAction::Accept, content: None }
    }

    /// The user said no.
    pub const fn decline() -> Self {
        Self { action: ElicitAction::Decline, content: None }
    }

    /// The user went away without a choice.
    pub const fn cancel() -> Self {
        Self { action: ElicitAction::Cancel, content: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn requests_round_trip() {
        let json = json!({"mode": "form", "message": "Please provide your GitHub username",
            "requestedSchema": {"type": "object", "properties": {"name": {"type": "string", "enumNames": ["a"]}}, "required": ["name"]}});
        let it: ElicitForm = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(it).unwrap(), json);
        let modeless = r#"{"message":"m","requestedSchema":{}}"#;
        assert!(serde_json::from_str::<ElicitForm>(modeless).is_ok());

        let json = json!({"mode": "url", "url": "https://mcp.example.com/ui/set_api_key",
            "message": "Please provide your API key to continue.", "elicitationId": "e-1"});
        let it: ElicitUrl = serde_json::from_value(json.clone()).unwrap();
        assert_eq!(serde_json::to_value(it).unwrap(), json);
    }

    #[test]
    fn results_round_trip() {
        for json in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {"name": "Monalisa Octocat", "age": 30}}),
            json!({"action": "decline"}),
            json!({"action": "cancel"}),
        ] {
            let it: ElicitResult = serde_json::from_value(json.clone()).unwrap();
            assert_eq!(serde_json::to_value(it).unwrap(), json);
        }
        assert!(serde_json::from_str::<ElicitResult>(r#"{"action":"shrug"}"#).is_err());
    }
}
