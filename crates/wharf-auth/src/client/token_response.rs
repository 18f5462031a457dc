//! Response of a token endpoint, and the tokens that it contains.

use serde::{Deserialize, Deserializer};
use wharf_model::{Error, excerpt};

use crate::client::{Tokens, failed, now};

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

/// Policy for binding tokens to the client's DPoP key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum BindingPolicy {
    Impossible,
    Possible,
    Required,
}

impl TokenResponse {
    /// Converts to tokens. Without refresh token rotation, the previous refresh token stays valid.
    pub(super) fn tokens(
        self,
        before: Option<&Tokens>,
        proof: BindingPolicy,
    ) -> Result<Tokens, Error> {
        let kind = self.token_type.unwrap_or_else(|| "Bearer".into());
        let bound = match (kind.to_ascii_lowercase().as_str(), proof) {
            ("bearer", BindingPolicy::Required) => {
                return Err(failed(
                    "the token is not bound to this client's key although DPoP is required: it was not used"
                        .into(),
                ));
            }
            ("bearer", _) => false,
            ("dpop", BindingPolicy::Possible | BindingPolicy::Required) => true,
            _ => {
                let problem = format!("unsupported token type {:?}", excerpt(&kind));
                return Err(failed(problem));
            }
        };
        let refresh = self.refresh_token.filter(|it| !it.is_empty());
        Ok(Tokens {
            access: self.access_token,
            bound,
            refresh: refresh.or_else(|| before.and_then(|it| it.refresh.clone())),
            // Zero is ignored: such a token would be renewed before each request.
            expires_at: self.expires_in.filter(|it| *it > 0).map(|it| now().saturating_add(it)),
            scope: self.scope.or_else(|| before.and_then(|it| it.scope.clone())),
        })
    }
}

/// Reads a number of seconds; some servers send a string or a fraction.
pub(super) fn lenient_seconds<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    let number = value.as_f64().or_else(|| value.as_str()?.trim().parse().ok());
    // Casts saturate.
    Ok(number.map(|it| it as u64))
}
