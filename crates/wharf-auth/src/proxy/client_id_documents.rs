//! Client ID metadata documents: fetched from the URL that is the client id, checked and cached.

use std::{collections::BTreeMap, fmt, time::Duration};

use http::{HeaderMap, StatusCode, header, request::Parts};
use tokio::time::Instant;
use url::Url;
use wharf_model::{Error, Lock, Rate};

use crate::fetch::Fetch;
use crate::proxy::{
    records::ClientRecord,
    routes::{ProxyState, address},
};

use crate::proxy::{
    clients::KnownClient,
    registration::{ClientMetadata, MAX_DOCUMENT_BYTES},
};

/// Limit of cached documents.
const MAX_CACHED_DOCUMENTS: usize = 256;

/// Cache lifetime of a document: default, minimum and maximum.
const CACHE_LIFETIMES: [Duration; 3] =
    [Duration::from_secs(300), Duration::from_secs(60), Duration::from_secs(3600)];

/// Rate limit of document fetches for all clients together.
const FETCH_RATE: Rate = Rate { per_second: 5.0, burst: 50.0 };

/// Rate limit of document fetches for one address.
const FETCH_RATE_PER_ADDRESS: Rate = Rate { per_second: 0.2, burst: 10.0 };

impl ProxyState {
    /// Loads the document of a client, whose id is its URL.
    pub(super) async fn document(
        &self,
        id: &str,
        parts: &Parts,
    ) -> Result<Option<KnownClient>, Error> {
        let Some(documents) = self.documents.as_ref().filter(|_| is_valid_document_url(id)) else {
            return Ok(None);
        };
        if let Some(known) = documents.cached(id) {
            return Ok(known);
        }
        // One address cannot exhaust the common limit.
        if let Some(address) = address(parts) {
            let key = format!("oauth documents {address}");
            if self.rates.take(&key, FETCH_RATE_PER_ADDRESS).taken().await.is_err() {
                return Err(Error::overloaded(Duration::from_secs(5)));
            }
        }
        if self.rates.take("oauth documents", FETCH_RATE).taken().await.is_err() {
            return Err(Error::overloaded(Duration::from_secs(1)));
        }
        let (known, cache_lifetime) = documents.fetch(id, &self.settings.schemes).await;
        documents.cache(id, known.clone(), cache_lifetime);
        Ok(known)
    }
}

/// Returns true if a client id is the URL of a document.
pub(super) fn is_document_url(id: &str) -> bool {
    id.starts_with("https://")
}

/// Returns true if the URL is a valid client id.
fn is_valid_document_url(id: &str) -> bool {
    let Ok(url) = Url::parse(id) else { return false };
    let plain = url.username().is_empty() && url.password().is_none() && url.fragment().is_none();
    // The URL must be in its normal form; otherwise one client could have several ids.
    plain && url.as_str() == id && url.path().len() > 1 && id.len() <= 512
}

/// Cache of client ID metadata documents.
pub(super) struct ClientDocuments {
    fetch: Fetch,
    known: Lock<BTreeMap<String, (Instant, Option<KnownClient>)>>,
}

impl ClientDocuments {
    pub(super) fn new(fetch: Fetch) -> Self {
        ClientDocuments { fetch: fetch.limit(MAX_DOCUMENT_BYTES), known: Lock::default() }
    }

    fn cached(&self, id: &str) -> Option<Option<KnownClient>> {
        let known = self.known.lock();
        known.get(id).filter(|(until, _)| *until > Instant::now()).map(|(_, known)| known.clone())
    }

    fn cache(&self, id: &str, document: Option<KnownClient>, cache_lifetime: Duration) {
        let now = Instant::now();
        let mut known = self.known.lock();
        if known.len() >= MAX_CACHED_DOCUMENTS {
            known.retain(|_, (until, _)| *until > now);
        }
        if known.len() >= MAX_CACHED_DOCUMENTS {
            // Evicts missing documents first, then the one that expires first.
            let worth = |(_, (until, found)): &(&String, &(Instant, Option<KnownClient>))| {
                (found.is_some(), *until)
            };
            if let Some(least) = known.iter().min_by_key(worth).map(|(id, _)| id.clone()) {
                known.remove(&least);
            }
        }
        known.insert(id.to_owned(), (now + cache_lifetime, document));
    }

    async fn fetch(&self, id: &str, schemes: &[String]) -> (Option<KnownClient>, Duration) {
        // A missing document is cached briefly.
        let nothing = (None, CACHE_LIFETIMES[1] / 6);
        let Ok(fetched) = self.fetch.get(id, HeaderMap::new()).await else { return nothing };
        let Ok(document) = fetched.json::<ClientMetadata>() else { return nothing };
        let is_public =
            document.token_endpoint_auth_method.as_deref().is_none_or(|it| it == "none");
        let is_itself = document.client_id.as_deref() == Some(id) && document.client_name.is_some();
        let fits = document.check(schemes).is_ok() && is_public && document.client_secret.is_none();
        if fetched.status != StatusCode::OK || !is_itself || !fits {
            return nothing;
        }
        let client = ClientRecord::known(id.to_owned(), document.name(id), document.redirect_uris);
        let host = Url::parse(id).ok().and_then(|url| url.host_str().map(str::to_owned));
        (Some(KnownClient { client, publisher: host }), cache_lifetime(&fetched.headers))
    }
}

impl fmt::Debug for ClientDocuments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientDocuments").finish_non_exhaustive()
    }
}

/// Cache lifetime of a document: its `Cache-Control` within bounds.
fn cache_lifetime(headers: &HeaderMap) -> Duration {
    let [usual, least, most] = CACHE_LIFETIMES;
    let control = headers.get(header::CACHE_CONTROL).and_then(|it| it.to_str().ok());
    let words = || control.unwrap_or_default().split(',').map(str::trim);
    if words().any(|it| it.eq_ignore_ascii_case("no-store") || it.eq_ignore_ascii_case("no-cache"))
    {
        return least;
    }
    let age = words().find_map(|it| it.strip_prefix("max-age=")?.parse().ok());
    age.map_or(usual, |seconds| Duration::from_secs(seconds).clamp(least, most))
}
