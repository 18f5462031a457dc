//! Finds the server cards of a domain or URL: the catalog, the card of an endpoint, or a card itself.

use http::{HeaderMap, HeaderValue, header};
use serde_json::Value;
use url::{Host, Url};
use wharf::{
    ErrorKind,
    auth::fetch::Fetch,
    server_card::{
        AiCatalog, CARD_MEDIA_TYPE, CARD_SUFFIX, CATALOG_MEDIA_TYPE, CATALOG_PATH, SCANNER_PATH,
        ServerCard,
    },
};

use crate::error::CliError;

/// Path of the catalog before the specification was final.
const OLD_CATALOG_PATH: &str = "/.well-known/mcp/catalog.json";
/// Largest number of cards that are read from one catalog.
const MAX_CARDS: usize = 16;
/// Largest card or catalog, in bytes.
const MAX_DOCUMENT: usize = 256 << 10;

/// Cards that were found.
#[derive(Debug, Default)]
pub(super) struct FoundCards {
    /// URL of the catalog, if there is one.
    pub(super) catalog: Option<String>,
    pub(super) cards: Vec<FoundCard>,
    /// Entries of the catalog that could not be read.
    pub(super) problems: Vec<String>,
}

/// Card, and the URL of the document that has it.
#[derive(Debug)]
pub(super) struct FoundCard {
    pub(super) url: Url,
    pub(super) card: ServerCard,
    /// True if the user named the origin of the document, and not a catalog.
    pub(super) is_at_named_origin: bool,
}

/// Document at a URL.
enum Document {
    Card(Box<ServerCard>),
    Catalog(AiCatalog),
}

/// Returns the cards of `word`: a domain, the URL of an endpoint, of a card or of a catalog.
pub(super) async fn discover(word: &str, fetch: &Fetch) -> Result<FoundCards, CliError> {
    let mut tried = Vec::new();
    for url in candidates(word)? {
        match read(&url, fetch).await? {
            Ok(Document::Card(card)) => {
                let cards = vec![FoundCard { url, card: *card, is_at_named_origin: true }];
                return Ok(FoundCards { cards, ..FoundCards::default() });
            }
            Ok(Document::Catalog(catalog)) => return Ok(read_cards(url, catalog, fetch).await),
            Err(problem) => tried.push(format!("{url} {problem}")),
        }
    }
    Err(CliError::card(format!("There is no server card: {}", tried.join("; ")))
        .hint("Give a domain (example.com), the URL of an endpoint, or that of a card.".to_owned()))
}

/// URLs at which a card or a catalog may be, best first.
fn candidates(word: &str) -> Result<Vec<Url>, CliError> {
    let wrong =
        |why: String| CliError::usage(format!("--card {word:?} is not a domain or URL: {why}"));
    let parse = |text: &str| Url::parse(text).map_err(|error| wrong(error.to_string()));
    let url = match word.contains("://") {
        true => parse(word)?,
        false => {
            let url = parse(&format!("https://{word}"))?;
            // Local servers have no certificate.
            if is_loopback(&url) { parse(&format!("http://{word}"))? } else { url }
        }
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Err(wrong("it must begin with https:// or http://".to_owned()));
    }
    let at = |path: &str| {
        let mut url = url.clone();
        url.set_path(path);
        url.set_query(None);
        url.set_fragment(None);
        url
    };
    Ok(match url.path() {
        "" | "/" => [CATALOG_PATH, OLD_CATALOG_PATH, CARD_SUFFIX, SCANNER_PATH].map(at).to_vec(),
        path if path.ends_with(CARD_SUFFIX) || path.ends_with(".json") => vec![url],
        path => vec![at(&format!("{}{CARD_SUFFIX}", path.trim_end_matches('/'))), url],
    })
}

/// Reads a document. The inner error is the reason why it is neither a card nor a catalog.
async fn read(url: &Url, fetch: &Fetch) -> Result<Result<Document, String>, CliError> {
    let mut headers = HeaderMap::new();
    let accept = format!("{CARD_MEDIA_TYPE}, {CATALOG_MEDIA_TYPE}, application/json;q=0.5");
    if let Ok(accept) = HeaderValue::from_str(&accept) {
        headers.insert(header::ACCEPT, accept);
    }
    let response = fetch.clone().limit(MAX_DOCUMENT).get(url.as_str(), headers).await;
    let response = response
        .map_err(|error| CliError::of_kind(ErrorKind::TransportError, error.to_string()))?;
    if let Some(location) = response.location() {
        return Ok(Err(format!("redirects to {location}: name that URL")));
    }
    if response.status.as_u16() != 200 {
        return Ok(Err(format!("answers {}", response.status)));
    }
    let Ok(value) = serde_json::from_slice::<Value>(&response.body) else {
        return Ok(Err("is not JSON".to_owned()));
    };
    let wrong = |error: serde_json::Error| error.to_string();
    Ok(match (value.get("entries"), value.get("name")) {
        (Some(_), _) => serde_json::from_value(value).map(Document::Catalog).map_err(wrong),
        (None, Some(_)) => serde_json::from_value(value).map(Document::Card).map_err(wrong),
        (None, None) => Err("has neither `name` nor `entries`".to_owned()),
    })
}

/// Reads the cards of a catalog.
async fn read_cards(url: Url, catalog: AiCatalog, fetch: &Fetch) -> FoundCards {
    let mut found = FoundCards { catalog: Some(url.to_string()), ..FoundCards::default() };
    let count = catalog.cards().count();
    if count == 0 {
        found.problems.push("the catalog has no entry of a server card".to_owned());
    }
    if count > MAX_CARDS {
        found.problems.push(format!("the catalog has {count} cards; only {MAX_CARDS} were read"));
    }
    for entry in catalog.cards().take(MAX_CARDS) {
        let card = match (&entry.data, &entry.url) {
            (Some(data), None) => {
                let card = serde_json::from_value(data.clone()).map_err(|it| it.to_string());
                card.map(|card| FoundCard { url: url.clone(), card, is_at_named_origin: true })
            }
            (None, Some(card_url)) => read_card(&url, card_url, fetch).await,
            _ => Err("it must have either `url` or `data`".to_owned()),
        };
        match card {
            Ok(card) => found.cards.push(card),
            Err(problem) => found.problems.push(format!("entry {:?}: {problem}", entry.identifier)),
        }
    }
    found
}

async fn read_card(catalog: &Url, card_url: &str, fetch: &Fetch) -> Result<FoundCard, String> {
    let url = Url::parse(card_url).map_err(|error| format!("{card_url:?}: {error}"))?;
    // A catalog elsewhere must not reach servers on this machine.
    if is_loopback(&url) && !is_loopback(catalog) {
        return Err(format!("{url} leads to this machine"));
    }
    match read(&url, fetch).await {
        Ok(Ok(Document::Card(card))) => {
            let is_at_named_origin = url.origin() == catalog.origin();
            Ok(FoundCard { url, card: *card, is_at_named_origin })
        }
        Ok(Ok(Document::Catalog(_))) => Err(format!("{url} is a catalog")),
        Ok(Err(problem)) => Err(format!("{url} {problem}")),
        Err(error) => Err(error.to_string()),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.to_canonical().is_loopback(),
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_leads_to_the_usual_urls() {
        for (word, first, count) in [
            ("example.com", "https://example.com/.well-known/ai-catalog.json", 4),
            ("localhost:8000", "http://localhost:8000/.well-known/ai-catalog.json", 4),
            ("https://a.example/mcp?x=1", "https://a.example/mcp/server-card", 2),
            ("https://a.example/mcp/", "https://a.example/mcp/server-card", 2),
            ("https://a.example/mcp/server-card", "https://a.example/mcp/server-card", 1),
            ("https://a.example/cards/one.json", "https://a.example/cards/one.json", 1),
        ] {
            let urls = candidates(word).unwrap();
            assert_eq!((urls[0].as_str(), urls.len()), (first, count), "{word}");
        }
        assert!(candidates("ftp://a.example").is_err() && candidates("a b").is_err());
    }
}
