//! Clients: dynamic registration (RFC 7591) and client ID metadata documents.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode, header, request::Parts};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use url::Url;
use wharf_model::{Error, Rate};

use super::redirect_uri;
use crate::proxy::{
    consent_page,
    consent_page::ProxyResponse,
    records::{ClientRecord, GrantRecord, UNUSED_CLIENT_TTL},
    routes::{CLIENT_TTL, ProxyState, address},
    store::{RecordOwner, VersionedRecord, digest},
};
use crate::{fetch::Fetch, jose::random_token};

/// Limit of registrations that were never used.
const MAX_UNUSED_CLIENTS: usize = 10_000;
/// Limit of registrations that a user was the first to use.
const MAX_CLIENTS_PER_USER: usize = 64;
/// Owner of used registrations in older versions, before each user had their own.
const LEGACY_OWNER: &str = "used";
/// Limits of a client: redirect URIs, and characters of its name.
const MAX_REDIRECTS: usize = 10;
const MAX_NAME_CHARS: usize = 200;
/// Limit of a registration or document.
const MAX_DOCUMENT_BYTES: usize = 16 * 1024;
/// Limit of cached documents.
const MAX_CACHED_DOCUMENTS: usize = 256;
/// Interval at which the use of a registration is recorded.
const TOUCH_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// Cache lifetime of a document: default, minimum and maximum.
const CACHE_LIFETIMES: [Duration; 3] =
    [Duration::from_secs(300), Duration::from_secs(60), Duration::from_secs(3600)];
/// Rate limit of document fetches for all clients together.
const FETCH_RATE: Rate = Rate { per_second: 5.0, burst: 50.0 };
/// Rate limit of document fetches for one address.
const FETCH_RATE_PER_ADDRESS: Rate = Rate { per_second: 0.2, burst: 10.0 };

/// A client and its publisher.
#[derive(Clone)]
pub(super) struct KnownClient {
    pub(super) client: ClientRecord,
    /// Host that publishes the client's document.
    pub(super) publisher: Option<String>,
}

/// Client metadata: in a registration (RFC 7591) or a document.
#[derive(Deserialize)]
struct ClientMetadata {
    client_id: Option<String>,
    client_name: Option<String>,
    #[serde(default)]
    redirect_uris: Vec<String>,
    token_endpoint_auth_method: Option<String>,
    grant_types: Option<Vec<String>>,
    response_types: Option<Vec<String>>,
    client_secret: Option<Value>,
}

/// Rejection of a registration: error code and description.
struct RegistrationError(&'static str, String);

impl ClientMetadata {
    fn check(&self, schemes: &[String]) -> Result<(), RegistrationError> {
        let no = |what: &str| Err(RegistrationError("invalid_client_metadata", what.to_owned()));
        if self.redirect_uris.is_empty() || self.redirect_uris.len() > MAX_REDIRECTS {
            return Err(RegistrationError(
                "invalid_redirect_uri",
                "give 1 to 10 redirect_uris".into(),
            ));
        }
        for uri in &self.redirect_uris {
            redirect_uri::check(uri, schemes).map_err(|why| {
                RegistrationError("invalid_redirect_uri", format!("redirect_uris: {why}"))
            })?;
        }
        if self.client_name.as_ref().is_some_and(|name| name.chars().count() > MAX_NAME_CHARS) {
            return no("client_name is longer than 200 characters");
        }
        let has = |all: &Option<Vec<String>>, one: &str| {
            all.as_ref().is_none_or(|all| all.iter().any(|it| it == one))
        };
        if !has(&self.grant_types, "authorization_code") || !has(&self.response_types, "code") {
            return no(
                "only the grant type authorization_code with response type code is supported",
            );
        }
        Ok(())
    }

    fn name(&self, id: &str) -> String {
        self.client_name.clone().unwrap_or_else(|| id.to_owned())
    }
}

impl ProxyState {
    /// Registers a client.
    pub(super) async fn register(&self, body: &Bytes) -> Result<ProxyResponse, Error> {
        let rejected =
            |error, what: &str| consent_page::oauth_error(StatusCode::BAD_REQUEST, error, what);
        if body.len() > MAX_DOCUMENT_BYTES {
            let status = StatusCode::PAYLOAD_TOO_LARGE;
            let what = "a registration is at most 16 KiB";
            return Ok(consent_page::oauth_error(status, "invalid_client_metadata", what));
        }
        let Ok(metadata) = serde_json::from_slice::<ClientMetadata>(body) else {
            return Ok(rejected("invalid_client_metadata", "the body must be a JSON object"));
        };
        if let Err(RegistrationError(error, what)) = metadata.check(&self.settings.schemes) {
            return Ok(rejected(error, &what));
        }
        // Default of RFC 7591.
        let method =
            metadata.token_endpoint_auth_method.as_deref().unwrap_or("client_secret_basic");
        let secret = match method {
            "none" => None,
            "client_secret_basic" | "client_secret_post" => Some(random_token(32)),
            _ => {
                let what = "token_endpoint_auth_method: none, client_secret_basic or \
                            client_secret_post";
                return Ok(rejected("invalid_client_metadata", what));
            }
        };
        let id = random_token(16);
        let known = ClientRecord::known(id.clone(), metadata.name(&id), metadata.redirect_uris);
        let client = ClientRecord { secret: secret.as_deref().map(digest), used: false, ..known };
        let owner = RecordOwner("unused", MAX_UNUSED_CLIENTS);
        // Evicts the oldest, so that a flood of registrations does not lock out other clients.
        self.store.put_evicting(&id, &client, owner, UNUSED_CLIENT_TTL).await?;
        let mut document = json!({
            "client_id": id,
            "client_id_issued_at": self.store.now().await? / 1000,
            "client_name": client.name,
            "redirect_uris": client.redirects,
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": method,
        });
        if let Some(secret) = secret {
            document["client_secret"] = secret.into();
            // Never expires by itself: it ends with the registration, which is removed after a long time
            // without use.
            document["client_secret_expires_at"] = 0.into();
        }
        Ok(consent_page::json(StatusCode::CREATED, &document))
    }

    /// Finds a client: configured, published or registered.
    pub(super) async fn client(
        &self,
        id: &str,
        parts: &Parts,
    ) -> Result<Option<KnownClient>, Error> {
        if let Some(client) = self.settings.clients.iter().find(|client| client.id == id) {
            return Ok(Some(KnownClient { client: client.clone(), publisher: None }));
        }
        if is_document_url(id) {
            return self.document(id, parts).await;
        }
        let kept = self.store.get::<ClientRecord>(id).await?;
        Ok(kept.map(|kept| KnownClient { client: kept.value, publisher: None }))
    }

    /// Records that a user signed in with a registration. The first user becomes its owner.
    pub(super) async fn record_sign_in(
        &self,
        id: &str,
        user: &str,
        grant: &str,
    ) -> Result<(), Error> {
        let Some(mut kept) = self.registered(id).await? else { return Ok(()) };
        if !kept.value.used || kept.is_owned_by(LEGACY_OWNER) {
            // A registration of an older version may belong to several users.
            kept.value.shared |= kept.is_owned_by(LEGACY_OWNER);
            self.evict_clients(user).await?;
            kept.set_owner(user);
        }
        kept.value.used = true;
        kept.value.shared |= !kept.is_owned_by(user);
        kept.value.grant = Some(grant.to_owned());
        // A lost race does not matter: the other update is equivalent.
        self.store.swap(kept, Some(CLIENT_TTL)).await?;
        Ok(())
    }

    /// Records that a registration is in use, at intervals.
    pub(super) async fn touch_client(&self, id: &str, grant: &str) -> Result<(), Error> {
        let Some(mut kept) = self.registered(id).await? else { return Ok(()) };
        if kept.expires_within(self.store.now().await?, CLIENT_TTL - TOUCH_INTERVAL) {
            kept.value.grant = Some(grant.to_owned());
            self.store.swap(kept, Some(CLIENT_TTL)).await?;
        }
        Ok(())
    }

    /// Makes room for one more registration of a user. Evicts first those that only this user uses, then
    /// those without a grant, then the least recently used.
    async fn evict_clients(&self, user: &str) -> Result<(), Error> {
        // Concurrent sign-ins may have exceeded the limit.
        let all = self.store.list::<ClientRecord>(user, 2 * MAX_CLIENTS_PER_USER).await?;
        let surplus = (all.len() + 1).saturating_sub(MAX_CLIENTS_PER_USER);
        if surplus == 0 {
            return Ok(());
        }
        let mut by_priority = Vec::with_capacity(all.len());
        for kept in &all {
            let client = &kept.value;
            let has_grant = match &client.grant {
                Some(grant) => self.store.get::<GrantRecord>(grant).await?.is_some(),
                None => false,
            };
            // A user cannot evict a client that others use.
            by_priority.push(((client.shared, has_grant, kept.expires_at()), &client.id));
        }
        by_priority.sort_unstable();
        for (_, id) in by_priority.into_iter().take(surplus) {
            self.store.remove::<ClientRecord>(id).await?;
        }
        Ok(())
    }

    async fn registered(&self, id: &str) -> Result<Option<VersionedRecord<ClientRecord>>, Error> {
        if is_document_url(id) {
            return Ok(None);
        }
        self.store.get::<ClientRecord>(id).await
    }

    /// Loads the document of a client, whose id is its URL.
    async fn document(&self, id: &str, parts: &Parts) -> Result<Option<KnownClient>, Error> {
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
    known: Mutex<BTreeMap<String, (Instant, Option<KnownClient>)>>,
}

impl ClientDocuments {
    pub(super) fn new(fetch: Fetch) -> Self {
        ClientDocuments { fetch: fetch.limit(MAX_DOCUMENT_BYTES), known: Mutex::default() }
    }

    fn cached(&self, id: &str) -> Option<Option<KnownClient>> {
        let known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        known.get(id).filter(|(until, _)| *until > Instant::now()).map(|(_, known)| known.clone())
    }

    fn cache(&self, id: &str, document: Option<KnownClient>, cache_lifetime: Duration) {
        let now = Instant::now();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
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
