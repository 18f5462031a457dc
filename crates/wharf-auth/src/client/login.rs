//! Logins: registration and tokens of a client at one server.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::client::resource_metadata::DiscoveredMetadata;

/// Key of a login: one server and one authorization server.
///
/// The issuer is part of the key, because credentials of one issuer are never sent to another.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoginKey {
    /// The server's URL, normalized by [`server_key`](super::server_key).
    pub server: String,
    /// The issuer, exactly as it identifies itself.
    pub issuer: String,
}

impl LoginKey {
    /// Creates the key for `server` and `issuer`.
    pub fn new(server: impl Into<String>, issuer: impl Into<String>) -> LoginKey {
        LoginKey { server: server.into(), issuer: issuer.into() }
    }
}

/// A login at a server: client registration and tokens.
///
/// Serialized as a whole, including secrets, by a [`TokenStore`](super::TokenStore). `Debug` omits them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Login {
    /// Server and authorization server.
    #[serde(flatten)]
    pub key: LoginKey,
    /// Resource identifier that the server publishes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// URL of the server's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// Metadata of the server and its authorization server, as of the last discovery.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "lenient_metadata"
    )]
    pub(super) discovered: Option<Box<DiscoveredMetadata>>,
    /// Client registration, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// Access and refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// Name of the grant, if it needed no user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// All scopes that were requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// Private DPoP key: PKCS#8 in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_key: Option<String>,
    /// Private networks were allowed for this login.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_private: bool,
    /// Time of the last save, in seconds since 1970.
    #[serde(default)]
    pub saved_at: u64,
}

impl Login {
    /// Creates an empty login.
    #[must_use]
    pub fn new(key: LoginKey) -> Login {
        Login {
            key,
            resource: None,
            metadata: None,
            discovered: None,
            registration: None,
            tokens: None,
            grant: None,
            asked: Vec::new(),
            dpop_key: None,
            allow_private: false,
            saved_at: 0,
        }
    }
}

/// Reads stored metadata; metadata of another version of this program is discovered again.
fn lenient_metadata<'de, D: Deserializer<'de>>(
    from: D,
) -> Result<Option<Box<DiscoveredMetadata>>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(serde_json::from_value(value).ok())
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("key", &self.key)
            .field("registration", &self.registration)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// Client registration at one authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Registration {
    /// Client id.
    pub client_id: String,
    /// Client secret, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// Authentication method at the token endpoint, if the registration response named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Registered redirect URI.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// Expiry of the secret, in seconds since 1970.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registration")
            .field("client_id", &self.client_id)
            .field("has_secret", &self.client_secret.is_some())
            .finish_non_exhaustive()
    }
}

/// Tokens of a login.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tokens {
    /// Access token.
    pub access: String,
    /// The token is bound to the DPoP key.
    #[serde(default)]
    pub bound: bool,
    /// Refresh token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
    /// Expiry of the access token, in seconds since 1970, if the issuer named it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// Granted scopes, if the issuer named them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scope: Option<String>,
}

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tokens")
            .field("bound", &self.bound)
            .field("has_refresh", &self.refresh.is_some())
            .field("expires_at", &self.expires_at)
            .field("scope", &self.scope)
            .finish_non_exhaustive()
    }
}
