//! Elicitation: input from the user.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::builders::setters;

/// Elicitation with a form.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use serde_json::json;
/// use wharf::model::ElicitForm;
///
/// let form = ElicitForm::new("Your name?", json!({"type": "object", "properties": {"name": {"type": "string"}}}));
/// assert_eq!(serde_json::to_value(&form).unwrap()["mode"], "form");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", rename = "form", tag = "mode")]
#[non_exhaustive]
pub struct ElicitForm {
    /// Message for the user.
    pub message: String,
    /// JSON Schema of the content: an object of primitive fields.
    #[serde(rename = "requestedSchema")]
    pub schema: Value,
}

impl ElicitForm {
    /// Creates a form with this schema.
    pub fn new(message: impl Into<String>, schema: impl Into<Value>) -> Self {
        Self { message: message.into(), schema: schema.into() }
    }
}

/// Elicitation with a URL; the data entered there does not pass through the client.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use wharf::model::ElicitUrl;
///
/// let page = ElicitUrl::new("Please sign in.", "https://example.com/sign-in");
/// assert_eq!(serde_json::to_value(&page).unwrap()["mode"], "url");
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename = "url", tag = "mode")]
#[non_exhaustive]
pub struct ElicitUrl {
    /// Message for the user: the reason to open the URL.
    pub message: String,
    /// URL to open.
    pub url: String,
    /// Id of the elicitation.
    #[serde(default, rename = "elicitationId", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl ElicitUrl {
    /// Creates an elicitation for `url`.
    pub fn new(message: impl Into<String>, url: impl Into<String>) -> Self {
        Self { message: message.into(), url: url.into(), id: None }
    }
}

setters! { ElicitUrl {
    /// Sets the id of the elicitation.
    id(id: some String);
} }

/// Action of the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ElicitAction {
    /// Accepted.
    Accept,
    /// Declined.
    Decline,
    /// Dismissed without a choice.
    Cancel,
}

/// Result of an elicitation.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod model { pub use super::*; } }
/// use serde_json::json;
/// use wharf::model::{ElicitAction, ElicitResult};
///
/// let answer = ElicitResult::accept(json!({"name": "octocat"}));
/// assert_eq!(answer.action, ElicitAction::Accept);
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ElicitResult {
    /// Action of the user.
    pub action: ElicitAction,
    /// Submitted content; only if accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<Value>,
}

impl ElicitResult {
    /// Creates the result of an accepted form.
    pub fn accept(content: impl Into<Value>) -> Self {
        Self { action: ElicitAction::Accept, content: Some(content.into()) }
    }

    /// Creates the result of an accepted URL.
    pub const fn accept_url() -> Self {
        Self { action: ElicitAction::Accept, content: None }
    }

    /// Creates the result of a declined elicitation.
    pub const fn decline() -> Self {
        Self { action: ElicitAction::Decline, content: None }
    }

    /// Creates the result of a dismissed elicitation.
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
