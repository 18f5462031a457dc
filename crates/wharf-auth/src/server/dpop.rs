//! Proofs that a client has the key that its token is bound to (RFC 9449).

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
    time::Duration,
};

use http::HeaderValue;
use ring::hmac;
use tokio::time::Instant;
use url::Url;
use wharf_model::{Error, NonceStore, Stored, Stores};

use super::credentials::{Proof, Shown};
use crate::jose::{Algorithm, Claims, Jwk, Unverified, b64, random_token, same, sha256, unb64};
use crate::server::verified_token::now;

/// The longest proof that is read.
const MAX_PROOF: usize = 8 << 10;
/// The least bytes of a key for nonces.
const NONCE_KEY: usize = 32;
/// How long a nonce of ours is good.
const NONCE_LIFE: u64 = 300;
/// How far ahead a client's clock may be.
const AHEAD: u64 = 30;
/// How old a proof may be, at least and at most.
const WINDOW: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];
/// How many proofs of one key are taken in the time for which one is remembered: one client does not fill the store.
const MOST_OF_ONE: u32 = 10_000;
/// How many keys are counted at the same time.
const MOST_KEYS: usize = 64 << 10;
/// From how many keys on those are forgotten that are not in use, and how often at most.
const MANY_KEYS: usize = 4096;
const OFTEN: Duration = Duration::from_secs(1);

/// How proofs of possession are treated (RFC 9449). Without a word, tokens that are bound to a key are taken with
/// a proof, and others without.
///
/// ```
/// use wharf_auth::server::{Dpop, Jwt};
///
/// let authority = Jwt::issuer("https://id.example.com")
///     .audience("https://mcp.example.com/mcp")
///     .dpop(Dpop::required().nonces());
/// # let _ = authority;
/// ```
#[derive(Clone)]
#[must_use]
pub struct Dpop {
    required: bool,
    nonces: Option<Arc<hmac::Key>>,
    window: Duration,
    algorithms: Vec<Algorithm>,
    store: Option<Arc<dyn NonceStore>>,
    /// How long the key for nonces is, if it is too short.
    short_key: Option<usize>,
}

impl Default for Dpop {
    fn default() -> Self {
        Dpop::accepted()
    }
}

impl Dpop {
    /// Takes tokens that are bound to a key, and others.
    pub fn accepted() -> Self {
        let algorithms = vec![
            Algorithm::ES256,
            Algorithm::ES384,
            Algorithm::EdDSA,
            Algorithm::PS256,
            Algorithm::RS256,
        ];
        let window = Duration::from_secs(60);
        Dpop { required: false, nonces: None, window, algorithms, store: None, short_key: None }
    }

    /// Takes only tokens that are bound to a key.
    pub fn required() -> Self {
        Dpop { required: true, ..Dpop::accepted() }
    }

    /// Demands that proofs hold a nonce that this process gave out, so that none can be made ahead of time. Several
    /// processes behind one address need one [key](Dpop::nonce_key) for them.
    pub fn nonces(self) -> Self {
        self.nonce_key(random_token(32).as_bytes())
    }

    /// The same, with a key from which all processes make them alike: at least 32 random bytes. A server with a shorter
    /// one is not built.
    pub fn nonce_key(mut self, key: &[u8]) -> Self {
        self.short_key = (key.len() < NONCE_KEY).then_some(key.len());
        if self.short_key.is_some() {
            // Wherever nobody asks what is wrong, nobody can guess it either.
            return Dpop { short_key: self.short_key, ..self.nonces() };
        }
        self.nonces = Some(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key)));
        self
    }

    /// How old a proof may be: a minute, unless told otherwise; from one second to an hour.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window.clamp(WINDOW[0], WINDOW[1]);
        self
    }

    /// How proofs may be signed.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Remembers in `store` which proofs were used, instead of in the server's own store or, without one, in memory.
    pub fn store(mut self, store: Arc<dyn NonceStore>) -> Self {
        self.store = Some(store);
        self
    }

    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    /// What is wrong with how it was put together.
    pub(crate) fn problem(&self) -> Option<String> {
        let length = self.short_key?;
        Some(format!(
            "the key for DPoP nonces has {length} bytes: it takes at least {NONCE_KEY} random ones \
             (`openssl rand 32` makes them)"
        ))
    }

    pub(crate) fn algorithm_names(&self) -> Vec<&'static str> {
        self.algorithms.iter().map(|it| it.name()).collect()
    }
}

impl fmt::Debug for Dpop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dpop").field("required", &self.required).finish_non_exhaustive()
    }
}

/// Why a proof is not taken.
#[derive(Debug)]
pub(crate) enum Refused {
    /// It is no good.
    Proof(&'static str),
    /// It lacks a nonce, which is this.
    Nonce(HeaderValue),
    /// Nobody can tell whether it was used before.
    Unknown,
}

/// Checks proofs.
pub(crate) struct Proofs {
    dpop: Dpop,
    resource: Option<Url>,
    used: RwLock<Arc<dyn NonceStore>>,
    counts: Mutex<Counts>,
}

/// How many proofs of each key came lately.
#[derive(Default)]
struct Counts {
    of: HashMap<String, (Instant, u32)>,
    tidied: Option<Instant>,
}

impl Counts {
    /// Whether one more of this key is taken.
    fn take(&mut self, key: &str, ttl: Duration) -> bool {
        let now = Instant::now();
        if self.of.len() >= MANY_KEYS && self.tidied.is_none_or(|at| now - at >= OFTEN) {
            self.tidied = Some(now);
            self.of.retain(|_, (since, _)| now - *since < ttl);
        }
        let is_full = self.of.len() >= MOST_KEYS;
        let (since, count) = match self.of.get_mut(key) {
            Some(known) => known,
            // Whoever has that many keys is stopped where proofs are remembered.
            None if is_full => return true,
            None => self.of.entry(key.to_owned()).or_insert((now, 0)),
        };
        if now - *since >= ttl {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= MOST_OF_ONE
    }
}

impl Proofs {
    pub(crate) fn new(dpop: Dpop, resource: Option<Url>) -> Self {
        let used = dpop.store.clone().unwrap_or_else(|| Arc::new(Used::default()));
        Proofs { dpop, resource, used: RwLock::new(used), counts: Mutex::default() }
    }

    pub(crate) fn join(&self, stores: &Stores) {
        if self.dpop.store.is_none() {
            *self.used.write().unwrap_or_else(PoisonError::into_inner) = stores.nonces.clone();
        }
    }

    /// Checks the proof that came with a token that is bound to the key of this thumbprint. A nonce for the next proof,
    /// if the one in use has become old.
    pub(crate) async fn check(
        &self,
        key: &str,
        shown: &Shown,
    ) -> Result<Option<HeaderValue>, Refused> {
        let (jti, fresh) = self.read(key, shown)?;
        // Of the key and its own number: what one client has used keeps no other from anything.
        let name = format!("dpop:{}", b64(sha256(format!("{key}:{jti}").as_bytes())));
        let used = self.used.read().unwrap_or_else(PoisonError::into_inner).clone();
        // As long as it could be sent again.
        let ttl = self.dpop.window + Duration::from_secs(2 * AHEAD);
        let may = self.counts.lock().unwrap_or_else(PoisonError::into_inner).take(key, ttl);
        if !may {
            return Err(Refused::Unknown);
        }
        match used.claim(&name, ttl).await {
            Ok(true) => Ok(fresh),
            Ok(false) => Err(Refused::Proof("The proof was used before")),
            Err(_) => Err(Refused::Unknown),
        }
    }

    /// All but whether it was used before: its own number, and perhaps a fresh nonce.
    fn read(&self, key: &str, shown: &Shown) -> Result<(String, Option<HeaderValue>), Refused> {
        let refuse = |problem| Err(Refused::Proof(problem));
        let proof = match &shown.proof {
            Proof::One(proof) if proof.len() <= MAX_PROOF => proof,
            Proof::One(_) => return refuse("The proof is too long"),
            Proof::None => return refuse("There is no proof: send one in the DPoP header"),
            Proof::Malformed => return refuse("There must be one DPoP header"),
        };
        let Ok(parsed) = Unverified::parse(proof) else { return refuse("The proof is malformed") };
        if !parsed.header.is_type("dpop+jwt") {
            return refuse("The proof's typ must be dpop+jwt");
        }
        let jwk = match parsed.header.jwk.as_ref().map(Jwk::from_json) {
            Some(Ok(jwk)) if jwk.had_private_parts() => {
                return refuse(
                    "The proof shows a private key: make a new one, and show its public half",
                );
            }
            Some(Ok(jwk)) => jwk,
            _ => return refuse("The proof holds no public key that is known here"),
        };
        let Ok(claims) = parsed.verify(&jwk, &self.dpop.algorithms) else {
            return refuse("The proof's signature or algorithm is not good");
        };
        if !same(jwk.thumbprint().as_bytes(), key.as_bytes()) {
            return refuse("The proof is of another key than the token's");
        }
        self.matches(&claims, shown)?;
        let fresh = self.nonce(claims.text("nonce"))?;
        match claims.text("jti") {
            Some(jti) if !jti.is_empty() && jti.len() <= 512 => Ok((jti.to_owned(), fresh)),
            _ => refuse("The proof has no jti"),
        }
    }

    /// Whether a proof is about this request and this token, and of now.
    fn matches(&self, claims: &Claims, shown: &Shown) -> Result<(), Refused> {
        let refuse = |problem| Err(Refused::Proof(problem));
        if claims.text("htm") != Some(shown.method.as_str()) {
            return refuse("The proof is for another method (htm)");
        }
        if !claims.text("htu").is_some_and(|htu| self.is_here(htu, shown)) {
            return refuse("The proof is for another URL (htu)");
        }
        let token = b64(shown.token);
        if !claims.text("ath").is_some_and(|ath| same(ath.as_bytes(), token.as_bytes())) {
            return refuse("The proof is for another token (ath)");
        }
        let (now, window) = (now(), self.dpop.window.as_secs());
        match claims.time("iat") {
            Some(iat) if iat <= now + AHEAD && iat + window >= now => Ok(()),
            _ => refuse("The proof is too old, or of the future (iat)"),
        }
    }

    /// Whether a URL is that of the request, as clients see it.
    fn is_here(&self, htu: &str, shown: &Shown) -> bool {
        let Ok(mut htu) = Url::parse(htu) else { return false };
        // A WebSocket is asked for by HTTP.
        let _ = match htu.scheme() {
            "wss" => htu.set_scheme("https"),
            "ws" => htu.set_scheme("http"),
            _ => Ok(()),
        };
        let Some(resource) = &self.resource else {
            // Only the host is known then.
            let here = shown.host.as_deref().and_then(|host| {
                Url::parse(&format!("{}://{host}{}", htu.scheme(), shown.path)).ok()
            });
            return here.is_some_and(|here| {
                here.origin() == htu.origin() && here.path() == htu.path() && here.has_host()
            });
        };
        let mut here = resource.clone();
        here.set_path(&shown.path);
        // Whoever is mounted under a prefix does not see it.
        let mounted = htu.path() == resource.path() && resource.path().ends_with(&shown.path);
        htu.origin() == resource.origin() && (htu.path() == here.path() || mounted)
    }

    /// A nonce of ours is the time, and a tag that only we can make. A fresh one, if the one in use is old.
    fn nonce(&self, sent: Option<&str>) -> Result<Option<HeaderValue>, Refused> {
        let Some(key) = &self.dpop.nonces else { return Ok(None) };
        let now = now();
        let made = sent.and_then(|sent| unb64(sent).ok()).and_then(|sent| {
            let (time, tag) = sent.split_first_chunk::<8>()?;
            hmac::verify(key, time, tag).ok()?;
            Some(u64::from_be_bytes(*time))
        });
        let fresh = || {
            let tag = hmac::sign(key, &now.to_be_bytes());
            let nonce = b64([&now.to_be_bytes(), tag.as_ref()].concat());
            HeaderValue::try_from(nonce).map_err(|_| Refused::Unknown)
        };
        match made.map(|made| now.saturating_sub(made)) {
            Some(age) if age <= NONCE_LIFE / 2 => Ok(None),
            Some(age) if age <= NONCE_LIFE => fresh().map(Some),
            _ => Err(Refused::Nonce(fresh()?)),
        }
    }
}

/// Which proofs were used, in this process alone.
#[derive(Default)]
struct Used(Mutex<Remembered>);

#[derive(Default)]
struct Remembered {
    until: HashMap<String, Instant>,
    tidied: Option<Instant>,
}

/// How many proofs are remembered in memory.
const MOST_USED: usize = 256 << 10;

impl NonceStore for Used {
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool> {
        let now = Instant::now();
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Remembered { until: used, tidied } = &mut *remembered;
        // Not for each: it takes as long as there are many.
        if used.len() >= MOST_USED && tidied.is_none_or(|at| now - at >= OFTEN) {
            *tidied = Some(now);
            used.retain(|_, until| *until > now);
        }
        let verdict = match used.get(nonce) {
            Some(until) if *until > now => Ok(false),
            // Rather nobody gets in than somebody twice.
            None if used.len() >= MOST_USED => Err(Error::overloaded(Duration::from_secs(1))),
            _ => {
                used.insert(nonce.to_owned(), now + ttl);
                Ok(true)
            }
        };
        Box::pin(async move { verdict })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_key_does_not_use_up_what_there_is_for_all() {
        let (mut counts, ttl) = (Counts::default(), Duration::from_secs(60));
        let taken = (0..MOST_OF_ONE * 2).filter(|_| counts.take("one", ttl)).count();
        assert_eq!(taken, MOST_OF_ONE as usize);
        assert!(counts.take("another", ttl));
        tokio::time::advance(ttl).await;
        assert!(counts.take("one", ttl));
        // Keys that are not in use are forgotten.
        for number in 0..MANY_KEYS {
            counts.take(&number.to_string(), ttl);
        }
        tokio::time::advance(ttl).await;
        assert!(counts.take("one", ttl));
        assert_eq!(counts.of.len(), 1);
        // Nor does anybody grow it without bound.
        for number in 0..MOST_KEYS + 10 {
            assert!(counts.take(&number.to_string(), ttl));
        }
        assert_eq!(counts.of.len(), MOST_KEYS);
    }
}
