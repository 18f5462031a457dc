//! Key set (JWKS) of an issuer: discovered, cached and refreshed on key rotation.

use std::{
    sync::{Arc, MutexGuard},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use serde::Deserialize;
use tokio::{sync::watch, time::Instant};
use url::Url;
use wharf_model::{Error, ErrorKind, Lock};

use crate::server::issuer_requests::Download;
use crate::{
    fetch::is_loopback,
    jose::{Jwk, JwkSet, TokenHeader},
};

/// Time for which keys are fresh: the default, and the bounds of the issuer's `max-age`.
const DEFAULT_FRESHNESS: Duration = Duration::from_secs(300);
const MIN_FRESHNESS: Duration = Duration::from_secs(60);
const MAX_FRESHNESS: Duration = Duration::from_secs(3600);
/// Time for which expired keys are used while the issuer does not respond.
const MAX_STALENESS: Duration = Duration::from_secs(3600);
/// Rate limit of fetches (token bucket): burst size and refill interval.
const FETCH_BURST: f64 = 5.0;
const FETCH_INTERVAL: Duration = Duration::from_secs(10);
/// Limit of keys that are tried for a token without `kid`.
const MAX_CANDIDATES: usize = 8;

/// The keys of one issuer.
pub(crate) struct IssuerKeys {
    issuer: String,
    /// Configured JWKS URL; without it, the URL is discovered.
    address: Option<String>,
    download: Arc<dyn Download>,
    state: Lock<KeyState>,
}

struct KeyState {
    keys: Option<CachedKeys>,
    /// Discovered JWKS URL.
    address: Option<String>,
    bucket: f64,
    filled: Instant,
    /// Closes when the fetch in flight ends. Not a `SingleFlight`: the fetch is a task that outlives the request that
    /// started it, and requests with known keys do not wait for it.
    fetching: Option<watch::Receiver<()>>,
}

struct CachedKeys {
    set: Arc<JwkSet>,
    since: Instant,
    fresh: Duration,
}

/// Result of a key lookup.
pub(crate) enum KeyLookup {
    /// Keys that may have signed the token.
    Candidates(Vec<Jwk>),
    /// The issuer has no such key.
    None,
    /// The keys are being fetched.
    Fetching(watch::Receiver<()>),
    /// The issuer does not respond.
    Unavailable,
}

impl IssuerKeys {
    pub(crate) fn new(
        issuer: &str,
        address: Option<String>,
        download: Arc<dyn Download>,
    ) -> Arc<Self> {
        let state = KeyState {
            keys: None,
            address: None,
            bucket: FETCH_BURST,
            filled: Instant::now(),
            fetching: None,
        };
        let (issuer, state) = (issuer.to_owned(), Lock::new(state));
        Arc::new(IssuerKeys { issuer, address, download, state })
    }

    /// Returns the keys that may have signed a token with this header. `was_fetched` is true after a fetch
    /// for this token.
    pub(crate) fn find(self: &Arc<Self>, header: &TokenHeader, was_fetched: bool) -> KeyLookup {
        let mut state = self.lock();
        let age = state.keys.as_ref().map(|known| known.since.elapsed());
        let usable = match (&state.keys, age) {
            (Some(known), Some(age)) if age < known.fresh + MAX_STALENESS => Some(known),
            _ => None,
        };
        let Some(known) = usable else {
            return match (!was_fetched).then(|| self.start_fetch(&mut state)).flatten() {
                Some(fetching) => KeyLookup::Fetching(fetching),
                None => KeyLookup::Unavailable,
            };
        };
        let (set, fresh) = (known.set.clone(), age.is_some_and(|age| age < known.fresh));
        let keys = candidates(&set, header);
        if !keys.is_empty() {
            // Stale keys are used until a refresh succeeds.
            if !fresh {
                self.start_fetch(&mut state);
            }
            return KeyLookup::Candidates(keys);
        }
        if was_fetched {
            return KeyLookup::None;
        }
        match self.start_fetch(&mut state) {
            Some(fetching) => KeyLookup::Fetching(fetching),
            // It may be a new key, but the rate limit allows no fetch now.
            None => KeyLookup::Unavailable,
        }
    }

    /// Starts a fetch or joins the one in flight. Returns none if the rate limit is exhausted.
    fn start_fetch(self: &Arc<Self>, state: &mut KeyState) -> Option<watch::Receiver<()>> {
        if let Some(fetching) = state.fetching.as_ref().filter(|it| it.has_changed().is_ok()) {
            return Some(fetching.clone());
        }
        if !state.take() {
            return None;
        }
        let (ended, fetching) = watch::channel(());
        state.fetching = Some(fetching.clone());
        let (keys, known) = (self.clone(), state.address.clone());
        // In a task of its own: the first caller may go away while others wait.
        tokio::spawn(async move {
            let fetched = keys.fetch(known).await;
            let mut state = keys.lock();
            match fetched {
                Ok((address, known)) => (state.address, state.keys) = (address, Some(known)),
                // The issuer may have moved its keys.
                Err(_) => state.address = None,
            }
            state.fetching = None;
            drop(ended);
        });
        Some(fetching)
    }

    async fn fetch(&self, known: Option<String>) -> Result<(Option<String>, CachedKeys), Error> {
        let address = match (&self.address, known) {
            (Some(address), _) => address.clone(),
            (None, Some(address)) => address,
            (None, None) => self.discover().await?,
        };
        let (headers, body) = self.get(&address).await?;
        let set: JwkSet =
            serde_json::from_slice(&body).map_err(|error| malformed("JWK set", error))?;
        let fresh =
            max_age(&headers).unwrap_or(DEFAULT_FRESHNESS).clamp(MIN_FRESHNESS, MAX_FRESHNESS);
        let known = CachedKeys { set: Arc::new(set), since: Instant::now(), fresh };
        Ok((Some(address), known))
    }

    /// Discovers the JWKS URL in the issuer's metadata.
    async fn discover(&self) -> Result<String, Error> {
        #[derive(Deserialize)]
        struct Metadata {
            issuer: String,
            jwks_uri: Option<String>,
        }
        let mut last = Error::new(ErrorKind::TransportError);
        for url in well_known(&self.issuer) {
            let metadata = match self.get(&url).await {
                Ok((_, body)) => serde_json::from_slice::<Metadata>(&body),
                Err(error) => {
                    last = error;
                    continue;
                }
            };
            match metadata {
                // Metadata of another issuer is not trusted. A remote issuer must not point to loopback
                // (SSRF).
                Ok(Metadata { issuer, jwks_uri: Some(address) })
                    if issuer == self.issuer
                        && (is_loopback(&issuer) || !is_loopback(&address)) =>
                {
                    return Ok(address);
                }
                Ok(_) => {}
                Err(error) => last = malformed("metadata", error),
            }
        }
        Err(last)
    }

    async fn get(&self, url: &str) -> Result<(HeaderMap, Bytes), Error> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.parse().map_err(Error::internal)?;
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json);
        let (parts, body) = self.download.send(request).await?.into_parts();
        match parts.status.as_u16() {
            200 => Ok((parts.headers, body)),
            _ => Err(Error::new(ErrorKind::TransportError)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, KeyState> {
        self.state.lock()
    }
}

impl KeyState {
    /// Takes a token from the bucket.
    fn take(&mut self) -> bool {
        let now = Instant::now();
        let refilled = now.duration_since(self.filled).as_secs_f64() / FETCH_INTERVAL.as_secs_f64();
        (self.bucket, self.filled) = ((self.bucket + refilled).min(FETCH_BURST), now);
        let may = self.bucket >= 1.0;
        if may {
            self.bucket -= 1.0;
        }
        may
    }
}

/// Returns the keys that may have created a signature.
fn candidates(set: &JwkSet, header: &TokenHeader) -> Vec<Jwk> {
    let fits = |key: &&Jwk| match &header.kid {
        Some(kid) => key.kid() == Some(kid) && key.supports(header.algorithm),
        None => key.supports(header.algorithm),
    };
    set.keys.iter().filter(fits).take(MAX_CANDIDATES).cloned().collect()
}

/// Metadata URLs of an issuer in lookup order (RFC 8414, OpenID Connect Discovery).
pub(crate) fn well_known(issuer: &str) -> Vec<String> {
    let Ok(url) = Url::parse(issuer) else { return Vec::new() };
    let (origin, path) = (url.origin().ascii_serialization(), url.path().trim_end_matches('/'));
    let mut all = vec![
        format!("{origin}/.well-known/oauth-authorization-server{path}"),
        format!("{origin}/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        all.push(format!("{origin}{path}/.well-known/openid-configuration"));
    }
    all
}

fn max_age(headers: &HeaderMap) -> Option<Duration> {
    let control = headers.get(header::CACHE_CONTROL)?.to_str().ok()?;
    let ages = control.split(',').filter_map(|it| it.trim().strip_prefix("max-age="));
    ages.filter_map(|age| age.parse().ok()).map(Duration::from_secs).next()
}

fn malformed(document: &str, error: serde_json::Error) -> Error {
    let text = format!("The issuer's {document} is malformed: {error}");
    Error::new(ErrorKind::TransportError).with_message(text).with_source(error)
}
