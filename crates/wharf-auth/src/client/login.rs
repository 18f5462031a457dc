//! What there is to remember of having got in somewhere.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Which login it is: one server, through one authorization server.
///
/// Credentials of one issuer are never shown to another, so the issuer is part of the key.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoginKey {
    /// The server's URL, as [`server_key`](super::server_key) writes it.
    pub server: String,
    /// Who issued the credentials, to the letter.
    pub issuer: String,
}

impl LoginKey {
    /// The key of a login at `server` through `issuer`.
    pub fn new(server: impl Into<String>, issuer: impl Into<String>) -> LoginKey {
        LoginKey { server: server.into(), issuer: issuer.into() }
    }
}

/// What a client remembers of a server that it got into: who it is there, and its tokens.
///
/// It is serialized whole, secrets included, for a [`TokenStore`](super::Vault) to keep. `Debug` shows
/// none of them.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Login {
    /// Which server, through which authorization server.
    #[serde(flatten)]
    pub key: LoginKey,
    /// What the server calls itself, as it published it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// Where the server's metadata was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<String>,
    /// Who we are there, if the issuer was told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub registration: Option<Registration>,
    /// What lets us in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tokens: Option<Tokens>,
    /// How it was got, if nobody was asked: the name of the grant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<String>,
    /// Every scope that was asked for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub asked: Vec<String>,
    /// The private key that the tokens are bound to: PKCS#8 in base64url.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dpop_key: Option<String>,
    /// Whether private networks could be reached for it, because somebody allowed that.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_private: bool,
    /// When it was saved last, in seconds since 1970.
    #[serde(default)]
    pub saved_at: u64,
}

impl Login {
    /// A login of which nothing is known yet.
    #[must_use]
    pub fn new(key: LoginKey) -> Login {
        Login {
            key,
            resource: None,
            metadata: None,
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

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("key", &self.key)
            .field("registration", &self.registration)
            .field("tokens", &self.tokens)
            .finish_non_exhaustive()
    }
}

/// Who a client is to one authorization server.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Registration {
    /// The client's id there.
    pub client_id: String,
    /// Its secret, if it has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_secret: Option<String>,
    /// How it says who it is at the token endpoint, if the registration said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// Where people are sent back to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub redirect_uri: Option<String>,
    /// When the secret ends, in seconds since 1970.
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

/// What lets a client in.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Tokens {
    /// Shown with every request.
    pub access: String,
    /// Whether each request must prove that the token's key is ours (DPoP).
    #[serde(default)]
    pub bound: bool,
    /// Gets the next tokens without asking anybody.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refresh: Option<String>,
    /// When the access token ends, in seconds since 1970, if the issuer said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<u64>,
    /// What was granted, if the issuer said so.
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
