//! Catalog of a domain, which lists server cards.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::server_card::{CARD_MEDIA_TYPE, CARD_SUFFIX, ServerCard};

/// Version of the catalog's format.
const SPEC_VERSION: &str = "1.0";

/// Catalog of a domain (`/.well-known/ai-catalog.json`): its server cards, beside other things.
///
/// ```
/// # mod wharf { pub mod server_card { pub use wharf_extensions::server_card::*; } }
/// use wharf::server_card::{AiCatalog, ServerCard};
///
/// let card = ServerCard::new("com.example/weather").remote("https://mcp.example.com/mcp");
/// let catalog = AiCatalog::of(&card);
/// assert_eq!(catalog.entries[0].url.as_deref(), Some("https://mcp.example.com/mcp/server-card"));
/// assert_eq!(catalog.entries[0].identifier, "urn:air:example.com:mcp:weather");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct AiCatalog {
    /// Version of the format.
    #[serde(default)]
    pub spec_version: String,
    /// Entries.
    pub entries: Vec<CatalogEntry>,
}

/// Entry of a catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CatalogEntry {
    /// Identifier, such as `urn:air:example.com:mcp:weather`.
    #[serde(default)]
    pub identifier: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub display_name: Option<String>,
    /// Media type of the thing.
    #[serde(rename = "type", default)]
    pub media_type: String,
    /// URL of the thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The thing itself, instead of a URL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Value>,
    /// Unknown fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl AiCatalog {
    /// Creates a catalog of one card, which is beside its first endpoint. If the URL of that endpoint has variables, the
    /// card is part of the catalog.
    #[must_use]
    pub fn of(card: &ServerCard) -> AiCatalog {
        let url = card.remotes.first().map(|remote| remote.url.as_str());
        let url = url.filter(|url| !url.contains('{')).map(card_url);
        let data = if url.is_none() { serde_json::to_value(card).ok() } else { None };
        let entry = CatalogEntry {
            identifier: identifier(&card.name),
            display_name: Some(card.title.clone().unwrap_or_else(|| card.name.clone())),
            media_type: CARD_MEDIA_TYPE.to_owned(),
            url,
            data,
            extra: Map::new(),
        };
        AiCatalog { spec_version: SPEC_VERSION.to_owned(), entries: vec![entry] }
    }

    /// Returns the entries that are server cards.
    pub fn cards(&self) -> impl Iterator<Item = &CatalogEntry> {
        self.entries.iter().filter(|it| it.media_type == CARD_MEDIA_TYPE)
    }

    /// Returns the catalog as JSON.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}

/// Returns the URL of the card of an endpoint: its path and `/server-card`, without query.
fn card_url(endpoint: &str) -> String {
    let path = endpoint.split(['?', '#']).next().unwrap_or_default();
    format!("{}{CARD_SUFFIX}", path.trim_end_matches('/'))
}

/// Returns the identifier of a card: its domain in the usual order, and its name.
fn identifier(name: &str) -> String {
    let (namespace, name) = name.split_once('/').unwrap_or_default();
    let domain: Vec<&str> = namespace.rsplit('.').collect();
    format!("urn:air:{}:mcp:{name}", domain.join("."))
}
