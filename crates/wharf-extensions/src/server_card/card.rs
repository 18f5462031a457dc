//! Server card: name, version and description of a server, and its remote endpoints.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wharf_model::{Icon, Implementation, Meta};

use crate::server_card::{CardRemote, rules};

/// URL of the schema that a card names.
pub(crate) const SCHEMA: &str =
    "https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json";

/// Public description of a server, for clients that look for one.
///
/// Name, version, title, description, website and icons that are not set are those of the server. A URL of the
/// endpoint as clients reach it is required: [`remote`](ServerCard::remote), unless the server has an authenticator
/// that has it.
///
/// ```
/// # mod wharf { pub mod server_card { pub use wharf_extensions::server_card::*; } }
/// use wharf::server_card::ServerCard;
///
/// let card = ServerCard::new("com.example/weather")
///     .version("1.0.2")
///     .description("Forecasts for every harbour.")
///     .repository("https://github.com/example/weather")
///     .remote("https://mcp.example.com/mcp");
/// assert!(card.problems().is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct ServerCard {
    /// URL of the schema.
    #[serde(default, rename = "$schema")]
    pub schema: String,
    /// Name in reverse DNS form, such as `com.example/weather`.
    pub name: String,
    /// Version of the server.
    #[serde(default)]
    pub version: String,
    /// Description in at most 100 characters.
    #[serde(default)]
    pub description: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// URL of the website.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub website_url: Option<String>,
    /// Repository of the source code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<CardRepository>,
    /// Icons for display.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub icons: Vec<Icon>,
    /// Endpoints of the server.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remotes: Vec<CardRemote>,
    /// Metadata.
    #[serde(default, rename = "_meta", skip_serializing_if = "Option::is_none")]
    pub meta: Option<Meta>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
    #[serde(skip)]
    options: CardOptions,
}

/// Choices about how a server serves its card.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct CardOptions {
    needs_authentication: bool,
    has_scanner_alias: bool,
}

impl ServerCard {
    /// Creates a card with a name in reverse DNS form: `com.example/weather` for `example.com`.
    pub fn new(name: impl Into<String>) -> Self {
        ServerCard { schema: SCHEMA.into(), name: name.into(), ..ServerCard::default() }
    }

    /// Sets the version, if it is another than that of the server.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Self {
        self.version = version.into();
        self
    }

    /// Sets the description, if it is another than that of the server.
    #[must_use]
    pub fn description(mut self, description: impl Into<String>) -> Self {
        self.description = description.into();
        self
    }

    /// Sets the display name, if it is another than that of the server.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.title = Some(title.into());
        self
    }

    /// Sets the URL of the website, if it is another than that of the server.
    #[must_use]
    pub fn website(mut self, url: impl Into<String>) -> Self {
        self.website_url = Some(url.into());
        self
    }

    /// Sets the repository of the source code.
    #[must_use]
    pub fn repository(mut self, repository: impl Into<CardRepository>) -> Self {
        self.repository = Some(repository.into());
        self
    }

    /// Adds an endpoint: its URL as clients reach it, such as `https://mcp.example.com/mcp`. The first one is that of
    /// the server that serves the card.
    #[must_use]
    pub fn remote(mut self, remote: impl Into<CardRemote>) -> Self {
        self.remotes.push(remote.into());
        self
    }

    /// Serves card and catalog only to requests that the authenticator accepts. They are public otherwise, because a
    /// client reads them before it logs in.
    #[must_use]
    pub fn authenticated(mut self) -> Self {
        self.options.needs_authentication = true;
        self
    }

    /// Serves the card at `/.well-known/mcp/server-card.json`, too. The specification does not define this path, but
    /// scanners request it.
    #[must_use]
    pub fn scanner_alias(mut self) -> Self {
        self.options.has_scanner_alias = true;
        self
    }

    /// Returns true if only authenticated requests may read the card.
    #[must_use]
    pub fn needs_authentication(&self) -> bool {
        self.options.needs_authentication
    }

    /// Returns true if the card is served at the path of scanners, too.
    #[must_use]
    pub fn has_scanner_alias(&self) -> bool {
        self.options.has_scanner_alias
    }

    /// Fills what is not set from the server: its identity, the URL of its endpoint if it is known, and the protocol
    /// versions that it supports.
    #[must_use]
    pub fn complete(
        mut self,
        about: &Implementation,
        url: Option<&str>,
        versions: &[&str],
    ) -> Self {
        let fill = |field: &mut String, value: &str| {
            if field.is_empty() {
                value.clone_into(field);
            }
        };
        fill(&mut self.version, &about.version);
        fill(&mut self.description, about.description.as_deref().unwrap_or_default());
        self.title = self.title.or_else(|| about.title.clone());
        self.website_url = self.website_url.or_else(|| about.website_url.clone());
        if self.icons.is_empty() {
            self.icons.clone_from(&about.icons);
        }
        if self.remotes.is_empty() {
            self.remotes.extend(url.map(CardRemote::from));
        }
        if let Some(own) = self.remotes.first_mut()
            && own.supported_protocol_versions.is_empty()
        {
            own.supported_protocol_versions = versions.iter().map(|it| (*it).to_owned()).collect();
        }
        self
    }

    /// Returns the violations of the specification, each with the value and the rule.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        rules::card_problems(self)
    }

    /// Returns the card as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

impl From<&str> for ServerCard {
    fn from(name: &str) -> Self {
        ServerCard::new(name)
    }
}

impl From<String> for ServerCard {
    fn from(name: String) -> Self {
        ServerCard::new(name)
    }
}

/// Repository of a server's source code.
///
/// ```
/// # mod wharf { pub mod server_card { pub use wharf_extensions::server_card::*; } }
/// use wharf::server_card::CardRepository;
///
/// let repository = CardRepository::from("https://gitlab.com/example/weather").subfolder("server");
/// assert_eq!(repository.source, "gitlab");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CardRepository {
    /// URL for people and for `git clone`.
    pub url: String,
    /// Hosting service, such as `github`.
    #[serde(default)]
    pub source: String,
    /// Path of the server in the repository.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subfolder: Option<String>,
    /// Identifier of the repository at the service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl CardRepository {
    /// Creates a repository at a hosting service, such as `github`.
    pub fn new(url: impl Into<String>, source: impl Into<String>) -> Self {
        CardRepository { url: url.into(), source: source.into(), ..CardRepository::default() }
    }

    /// Sets the path of the server in the repository.
    #[must_use]
    pub fn subfolder(mut self, path: impl Into<String>) -> Self {
        self.subfolder = Some(path.into());
        self
    }

    /// Sets the identifier of the repository at the service, which a new repository of the same name does not have.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// Repository at a URL; the hosting service is named after its host: `github` for `github.com`.
impl From<&str> for CardRepository {
    fn from(url: &str) -> Self {
        let host = rules::host(url).unwrap_or_default();
        let name = host.strip_prefix("www.").unwrap_or(host).split('.').next();
        CardRepository::new(url, name.unwrap_or_default())
    }
}
