//! Server cards: descriptions of servers for discovery (`io.modelcontextprotocol/server-card`).
//!
//! A card names a server, its version, and the URLs at which clients reach it. It never lists tools, resources or
//! prompts. [`ServerCard`] builds and reads one; [`AiCatalog`] lists the cards of a domain. A card is not a proof of
//! anything: where it [differs](ServerCard::differences) from what the server says, the server is right.

mod card;
mod card_remote;
mod catalog;
mod differences;
mod rules;

pub use card::{CardRepository, ServerCard};
pub use card_remote::{CardInput, CardRemote};
pub use catalog::{AiCatalog, CatalogEntry};
pub use differences::CardDifference;
pub use rules::{name_problem, version_problem};

/// Media type of a server card.
pub const CARD_MEDIA_TYPE: &str = "application/mcp-server-card+json";
/// Media type of a catalog.
pub const CATALOG_MEDIA_TYPE: &str = "application/ai-catalog+json";
/// Last part of the path of a card, after that of the endpoint.
pub const CARD_SUFFIX: &str = "/server-card";
/// Path of the catalog of a domain.
pub const CATALOG_PATH: &str = "/.well-known/ai-catalog.json";
/// Path at which scanners look for a card, which the specification does not define.
pub const SCANNER_PATH: &str = "/.well-known/mcp/server-card.json";
