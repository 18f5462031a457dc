//! An issuer's keys: found, kept, and looked for again when they change.

use std::{
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use serde::Deserialize;
use tokio::{sync::watch, time::Instant};
use url::Url;
use wharf_model::{Error, ErrorKind};

use crate::server::issuer_requests::Download;
use crate::{
    fetch::is_this_machine,
    jose::{Header, Jwk, JwkSet},
};

/// For how long keys are taken as they are, unless the issuer says so within bounds.
const FRESH: Duration = Duration::from_secs(300);
const FRESH_LEAST: Duration = Duration::from_secs(60);
const FRESH_MOST: Duration = Duration::from_secs(3600);
/// For how long they are used after that, while the issuer does not answer.
const STALE: Duration = Duration::from_secs(3600);
/// How often the issuer is asked at most: so many times at once, and then once in so long.
const BURST: f64 = 5.0;
const REFILL: Duration = Duration::from_secs(10);
/// How many keys are tried for a token that does not say which is its own.
const TRIED: usize = 8;

/// One issuer's keys.
pub(crate) struct Keys {
    issuer: String,
    /// Where they are, if somebody said so: then nobody is asked where they are.
    address: Option<String>,
    download: Arc<dyn Download>,
    state: Mutex<State>,
}

struct State {
    keys: Option<Known>,
    /// Where they are, as the issuer says.
    address: Option<String>,
    bucket: f64,
    filled: Instant,
    /// Ends when the request that is under way ends.
    asking: Option<watch::Receiver<()>>,
}

struct Known {
    set: Arc<JwkSet>,
    since: Instant,
    fresh: Duration,
}

/// What is known of a token's key.
pub(crate) enum Found {
    /// One of these it must be.
    Keys(Vec<Jwk>),
    /// The issuer has no such key.
    None,
    /// The issuer must be asked first.
    ClientRequest(watch::Receiver<()>),
    /// The issuer does not answer.
    Unknown,
}

impl Keys {
    pub(crate) fn new(
        issuer: &str,
        address: Option<String>,
        download: Arc<dyn Download>,
    ) -> Arc<Self> {
        let state = State {
            keys: None,
            address: None,
            bucket: BURST,
            filled: Instant::now(),
            asking: None,
        };
        let (issuer, state) = (issuer.to_owned(), Mutex::new(state));
        Arc::new(Keys { issuer, address, download, state })
    }

    /// The keys that may have signed a token with this header. `asked` if the issuer was asked for its sake already.
    pub(crate) fn find(self: &Arc<Self>, header: &Header, asked: bool) -> Found {
        let mut state = self.lock();
        let age = state.keys.as_ref().map(|known| known.since.elapsed());
        let usable = match (&state.keys, age) {
            (Some(known), Some(age)) if age < known.fresh + STALE => Some(known),
            _ => None,
        };
        let Some(known) = usable else {
            return match (!asked).then(|| self.ask(&mut state)).flatten() {
                Some(asking) => Found::ClientRequest(asking),
                None => Found::Unknown,
            };
        };
        let (set, fresh) = (known.set.clone(), age.is_some_and(|age| age < known.fresh));
        let keys = matching(&set, header);
        if !keys.is_empty() {
            // Old keys do while nobody knows better.
            if !fresh {
                self.ask(&mut state);
            }
            return Found::Keys(keys);
        }
        if asked {
            return Found::None;
        }
        match self.ask(&mut state) {
            Some(asking) => Found::ClientRequest(asking),
            // It may be a new key: nobody knows before the issuer may be asked again.
            None => Found::Unknown,
        }
    }

    /// Asks the issuer, or joins those who wait for its answer already. None if it was asked too often.
    fn ask(self: &Arc<Self>, state: &mut State) -> Option<watch::Receiver<()>> {
        if let Some(asking) = state.asking.as_ref().filter(|it| it.has_changed().is_ok()) {
            return Some(asking.clone());
        }
        if !state.take() {
            return None;
        }
        let (ended, asking) = watch::channel(());
        state.asking = Some(asking.clone());
        let (keys, known) = (self.clone(), state.address.clone());
        // On its own: whoever asked first may go away, and others wait for the same.
        tokio::spawn(async move {
            let fetched = keys.fetch(known).await;
            let mut state = keys.lock();
            match fetched {
                Ok((address, known)) => (state.address, state.keys) = (address, Some(known)),
                // The issuer may have moved them.
                Err(_) => state.address = None,
            }
            state.asking = None;
            drop(ended);
        });
        Some(asking)
    }

    async fn fetch(&self, known: Option<String>) -> Result<(Option<String>, Known), Error> {
        let address = match (&self.address, known) {
            (Some(address), _) => address.clone(),
            (None, Some(address)) => address,
            (None, None) => self.discover().await?,
        };
        let (headers, body) = self.get(&address).await?;
        let set: JwkSet = serde_json::from_slice(&body)?;
        let fresh = max_age(&headers).unwrap_or(FRESH).clamp(FRESH_LEAST, FRESH_MOST);
        let known = Known { set: Arc::new(set), since: Instant::now(), fresh };
        Ok((Some(address), known))
    }

    /// Where the issuer says its keys are: its metadata, wherever it keeps it.
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
                // Somebody else's would be anybody's.
                // And nobody elsewhere says what is on this machine.
                Ok(Metadata { issuer, jwks_uri: Some(address) })
                    if issuer == self.issuer
                        && (is_this_machine(&issuer) || !is_this_machine(&address)) =>
                {
                    return Ok(address);
                }
                Ok(_) => {}
                Err(error) => last = error.into(),
            }
        }
        Err(last)
    }

    async fn get(&self, url: &str) -> Result<(HeaderMap, Bytes), Error> {
        let mut request = Request::new(Bytes::new());
        *request.uri_mut() = url.parse().map_err(Error::from_std)?;
        let json = header::HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json);
        let (parts, body) = self.download.send(request).await?.into_parts();
        match parts.status.as_u16() {
            200 => Ok((parts.headers, body)),
            _ => Err(Error::new(ErrorKind::TransportError)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes one of the requests that there may be. They come back slowly.
    fn take(&mut self) -> bool {
        let now = Instant::now();
        let came = now.duration_since(self.filled).as_secs_f64() / REFILL.as_secs_f64();
        (self.bucket, self.filled) = ((self.bucket + came).min(BURST), now);
        let may = self.bucket >= 1.0;
        if may {
            self.bucket -= 1.0;
        }
        may
    }
}

/// The keys that could have made a signature.
fn matching(set: &JwkSet, header: &Header) -> Vec<Jwk> {
    let fits = |key: &&Jwk| match &header.kid {
        Some(kid) => key.kid() == Some(kid) && key.fits(header.algorithm),
        None => key.fits(header.algorithm),
    };
    set.keys.iter().filter(fits).take(TRIED).cloned().collect()
}

/// Where an issuer's metadata may be, in the order in which to look (RFC 8414, OpenID Connect Discovery).
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
