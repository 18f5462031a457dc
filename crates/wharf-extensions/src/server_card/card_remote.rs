//! Remote endpoint of a server card: URL, headers, variables.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Endpoint of a server.
///
/// ```
/// # mod wharf { pub mod server_card { pub use wharf_extensions::server_card::*; } }
/// use wharf::server_card::{CardInput, CardRemote};
///
/// let remote = CardRemote::new("https://{tenant}.example.com/mcp")
///     .variable("tenant", CardInput::new("Your organization").required())
///     .header("X-Api-Key", CardInput::new("Key of the account").required().secret());
/// # let _ = remote;
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CardRemote {
    /// Transport: `streamable-http` or `sse`.
    #[serde(rename = "type", default)]
    pub transport: String,
    /// URL, in which `{name}` is a variable.
    #[serde(default)]
    pub url: String,
    /// Headers that a client has to send, or may send.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<CardInput>,
    /// Variables of the URL.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub variables: BTreeMap<String, CardInput>,
    /// Protocol versions of the endpoint, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub supported_protocol_versions: Vec<String>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl CardRemote {
    /// Creates an endpoint of Streamable HTTP.
    pub fn new(url: impl Into<String>) -> Self {
        let transport = "streamable-http".to_owned();
        CardRemote { transport, url: url.into(), ..CardRemote::default() }
    }

    /// Sets the transport to HTTP+SSE, that of the oldest clients.
    #[must_use]
    pub fn sse(mut self) -> Self {
        "sse".clone_into(&mut self.transport);
        self
    }

    /// Adds a header that clients send.
    #[must_use]
    pub fn header(mut self, name: impl Into<String>, input: CardInput) -> Self {
        self.headers.push(CardInput { name: Some(name.into()), ..input });
        self
    }

    /// Describes a variable of the URL.
    #[must_use]
    pub fn variable(mut self, name: impl Into<String>, input: CardInput) -> Self {
        self.variables.insert(name.into(), input);
        self
    }

    /// Sets the protocol versions, if they are others than those of the server.
    #[must_use]
    pub fn versions<I>(mut self, versions: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.supported_protocol_versions = versions.into_iter().map(Into::into).collect();
        self
    }

    /// Returns true if a client needs values to connect: variables of the URL, or headers that are required.
    #[must_use]
    pub fn needs_input(&self) -> bool {
        self.url.contains('{') || self.headers.iter().any(|it| it.is_required && it.value.is_none())
    }
}

impl From<&str> for CardRemote {
    fn from(url: &str) -> Self {
        CardRemote::new(url)
    }
}

impl From<String> for CardRemote {
    fn from(url: String) -> Self {
        CardRemote::new(url)
    }
}

/// Value that a client supplies: a header, or a variable of a URL.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CardInput {
    /// Name of the header; variables are named by their key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Description for the user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// True if the connection fails without it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_required: bool,
    /// True if the value is a secret.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_secret: bool,
    /// Value that the user need not give.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// Fixed value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<String>,
    /// Allowed values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl CardInput {
    /// Creates an input with a description for the user.
    pub fn new(description: impl Into<String>) -> Self {
        CardInput { description: Some(description.into()), ..CardInput::default() }
    }

    /// Marks the input as required.
    #[must_use]
    pub fn required(mut self) -> Self {
        self.is_required = true;
        self
    }

    /// Marks the value as a secret.
    #[must_use]
    pub fn secret(mut self) -> Self {
        self.is_secret = true;
        self
    }

    /// Sets the value that the user need not give.
    #[must_use]
    pub fn default_value(mut self, value: impl Into<String>) -> Self {
        self.default = Some(value.into());
        self
    }

    /// Sets the allowed values.
    #[must_use]
    pub fn choices<I>(mut self, choices: I) -> Self
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        self.choices = choices.into_iter().map(Into::into).collect();
        self
    }
}
