//! Server cards: descriptions of servers for discovery (extension `io.modelcontextprotocol/server-card`).

pub use wharf_extensions::server_card::{
    AiCatalog, CARD_MEDIA_TYPE, CARD_SUFFIX, CATALOG_MEDIA_TYPE, CATALOG_PATH, CardDifference,
    CardInput, CardRemote, CardRepository, CatalogEntry, SCANNER_PATH, ServerCard, name_problem,
    version_problem,
};
