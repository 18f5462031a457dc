//! Documents and responses of servers.

use serde::{Deserialize, Deserializer, Serialize};

/// Protected resource metadata (RFC 9728).
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ResourceDocument {
    pub(super) resource: String,
    pub(super) authorization_servers: Vec<String>,
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient_bool")]
    pub(super) dpop_bound_access_tokens_required: bool,
}

/// Authorization server metadata (RFC 8414, OpenID Connect Discovery).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AuthServerMetadata {
    pub(super) issuer: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) authorization_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) registration_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) revocation_endpoint: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scopes_supported: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) code_challenge_methods_supported: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) token_endpoint_auth_methods_supported: Option<Vec<String>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) dpop_signing_alg_values_supported: Option<Vec<String>>,
    #[serde(deserialize_with = "lenient_bool")]
    pub(super) authorization_response_iss_parameter_supported: bool,
    #[serde(deserialize_with = "lenient_bool")]
    pub(super) client_id_metadata_document_supported: bool,
}

/// Token response.
#[derive(Deserialize)]
pub(super) struct TokenResponse {
    pub(super) access_token: String,
    #[serde(default)]
    pub(super) token_type: Option<String>,
    #[serde(default, deserialize_with = "lenient_seconds")]
    pub(super) expires_in: Option<u64>,
    #[serde(default)]
    pub(super) refresh_token: Option<String>,
    #[serde(default)]
    pub(super) scope: Option<String>,
    #[serde(default)]
    pub(super) issued_token_type: Option<String>,
}

/// OAuth error response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ErrorResponse {
    pub(super) error: String,
    pub(super) error_description: Option<String>,
}

/// Client registration response (RFC 7591).
#[derive(Deserialize)]
pub(super) struct RegistrationResponse {
    pub(super) client_id: String,
    #[serde(default)]
    pub(super) client_secret: Option<String>,
    #[serde(default, deserialize_with = "lenient_seconds")]
    pub(super) client_secret_expires_at: Option<u64>,
    #[serde(default)]
    pub(super) token_endpoint_auth_method: Option<String>,
}

/// Reads a boolean; any other value is false.
fn lenient_bool<'de, D: Deserializer<'de>>(from: D) -> Result<bool, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(value.as_bool().unwrap_or_default())
}

/// Reads a number of seconds; some servers send a string or a fraction.
fn lenient_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    // Casts saturate.
    Ok(number.map(|it| it as u64))
}
