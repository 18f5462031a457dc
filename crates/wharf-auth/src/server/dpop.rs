//! Verification of DPoP proofs (RFC 9449).

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use http::HeaderValue;
use ring::hmac;
use tokio::time::Instant;
use url::Url;
use wharf_model::{Error, Lock, NonceStore, Stored, Stores};

use super::credentials::{ProofHeader, RequestEvidence};
use crate::jose::{
    Algorithm, Claims, Jwk, UnverifiedToken, b64, constant_time_eq, random_token, sha256, unb64,
};
use crate::server::verified_token::now;

/// Longest accepted proof.
const MAX_PROOF_BYTES: usize = 8 << 10;
/// Shortest accepted key for nonces.
const MIN_NONCE_KEY_BYTES: usize = 32;
/// Lifetime of a nonce.
const NONCE_LIFETIME_SECS: u64 = 300;
/// Tolerated clock difference of a client.
const MAX_CLOCK_SKEW_SECS: u64 = 30;
/// Bounds of the accepted age of a proof.
const WINDOW_BOUNDS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(3600)];
/// Proofs of one key that are accepted while one proof is remembered, so that one client cannot fill the
/// store.
const MAX_PROOFS_PER_KEY: u32 = 10_000;
/// Limit of keys that are counted at the same time.
const MAX_TRACKED_KEYS: usize = 64 << 10;
/// Number of counted keys from which unused ones are removed, and the shortest interval between such
/// cleanups.
const CLEANUP_THRESHOLD: usize = 4096;
const CLEANUP_INTERVAL: Duration = Duration::from_secs(1);

/// DPoP settings (RFC 9449). By default, bound tokens are accepted with a proof and other tokens without.
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
    /// Length of the nonce key, if it is too short.
    short_key_len: Option<usize>,
}

impl Default for Dpop {
    fn default() -> Self {
        Dpop::accepted()
    }
}

impl Dpop {
    /// Accepts tokens that are bound to a key, and others.
    pub fn accepted() -> Self {
        let algorithms = vec![
            Algorithm::ES256,
            Algorithm::ES384,
            Algorithm::EdDSA,
            Algorithm::PS256,
            Algorithm::RS256,
        ];
        let window = Duration::from_secs(60);
        Dpop { required: false, nonces: None, window, algorithms, store: None, short_key_len: None }
    }

    /// Accepts only tokens that are bound to a key.
    pub fn required() -> Self {
        Dpop { required: true, ..Dpop::accepted() }
    }

    /// Requires a nonce issued by this process in each proof, so that proofs cannot be precomputed. Several
    /// processes behind one address must share a [key](Dpop::nonce_key).
    pub fn nonces(self) -> Self {
        self.nonce_key(random_token(32).as_bytes())
    }

    /// Requires nonces that all processes derive from the same key: at least 32 random bytes. With a
    /// shorter key the server fails to build.
    pub fn nonce_key(mut self, key: &[u8]) -> Self {
        self.short_key_len = (key.len() < MIN_NONCE_KEY_BYTES).then_some(key.len());
        if self.short_key_len.is_some() {
            // Until the problem is reported, use a random key that cannot be guessed.
            return Dpop { short_key_len: self.short_key_len, ..self.nonces() };
        }
        self.nonces = Some(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, key)));
        self
    }

    /// Sets the accepted age of a proof: one minute by default, from one second to one hour.
    pub fn window(mut self, window: Duration) -> Self {
        self.window = window.clamp(WINDOW_BOUNDS[0], WINDOW_BOUNDS[1]);
        self
    }

    /// Sets the accepted signature algorithms of proofs.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Stores used proofs in `store` instead of the server's own store (or memory, if it has none).
    pub fn store(mut self, store: impl NonceStore) -> Self {
        self.store = Some(Arc::new(store));
        self
    }

    pub(crate) fn is_required(&self) -> bool {
        self.required
    }

    /// Returns the configuration error, if there is one.
    pub(crate) fn problem(&self) -> Option<String> {
        let length = self.short_key_len?;
        Some(format!(
            "the key for DPoP nonces has {length} bytes: use at least {MIN_NONCE_KEY_BYTES} random bytes (`openssl rand 32`)"
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

/// Rejection of a proof.
#[derive(Debug)]
pub(crate) enum ProofRejection {
    /// The proof is invalid.
    Invalid(&'static str),
    /// The proof lacks a valid nonce; this is a new one.
    NonceRequired(HeaderValue),
    /// The store did not report if the proof was used before.
    Unavailable,
}

/// Verifies proofs.
pub(crate) struct ProofVerifier {
    dpop: Dpop,
    resource: Option<Url>,
    used: RwLock<Arc<dyn NonceStore>>,
    counts: Lock<ProofCounts>,
}

/// Recent proofs of each key.
#[derive(Default)]
struct ProofCounts {
    by_key: HashMap<String, (Instant, u32)>,
    cleaned_at: Option<Instant>,
}

impl ProofCounts {
    /// Counts a proof; returns false if the key has sent too many.
    fn take(&mut self, key: &str, ttl: Duration) -> bool {
        let now = Instant::now();
        if self.by_key.len() >= CLEANUP_THRESHOLD
            && self.cleaned_at.is_none_or(|at| now - at >= CLEANUP_INTERVAL)
        {
            self.cleaned_at = Some(now);
            self.by_key.retain(|_, (since, _)| now - *since < ttl);
        }
        let is_full = self.by_key.len() >= MAX_TRACKED_KEYS;
        let (since, count) = match self.by_key.get_mut(key) {
            Some(known) => known,
            // A client with that many keys is stopped by the limit on remembered proofs.
            None if is_full => return true,
            None => self.by_key.entry(key.to_owned()).or_insert((now, 0)),
        };
        if now - *since >= ttl {
            (*since, *count) = (now, 0);
        }
        *count = count.saturating_add(1);
        *count <= MAX_PROOFS_PER_KEY
    }
}

impl ProofVerifier {
    pub(crate) fn new(dpop: Dpop, resource: Option<Url>) -> Self {
        let used = dpop.store.clone().unwrap_or_else(|| Arc::new(UsedProofs::default()));
        ProofVerifier { dpop, resource, used: RwLock::new(used), counts: Lock::default() }
    }

    pub(crate) fn use_stores(&self, stores: &Stores) {
        if self.dpop.store.is_none() {
            *self.used.write().unwrap_or_else(PoisonError::into_inner) = stores.nonces.clone();
        }
    }

    /// Verifies the proof of a token that is bound to the key with this thumbprint. Returns a nonce for the
    /// next proof if the current one is old.
    pub(crate) async fn check(
        &self,
        key: &str,
        evidence: &RequestEvidence,
    ) -> Result<Option<HeaderValue>, ProofRejection> {
        let (jti, fresh) = self.read(key, evidence)?;
        // The key is part of the name, so that clients cannot block each other's `jti` values.
        let name = format!("dpop:{}", b64(sha256(format!("{key}:{jti}").as_bytes())));
        let used = self.used.read().unwrap_or_else(PoisonError::into_inner).clone();
        // As long as the proof could be replayed.
        let ttl = self.dpop.window + Duration::from_secs(2 * MAX_CLOCK_SKEW_SECS);
        let may = self.counts.lock().take(key, ttl);
        if !may {
            return Err(ProofRejection::Unavailable);
        }
        match used.claim(&name, ttl).await {
            Ok(true) => Ok(fresh),
            Ok(false) => Err(ProofRejection::Invalid("The proof was used before")),
            Err(_) => Err(ProofRejection::Unavailable),
        }
    }

    /// Checks everything except replay. Returns the `jti` and possibly a fresh nonce.
    fn read(
        &self,
        key: &str,
        evidence: &RequestEvidence,
    ) -> Result<(String, Option<HeaderValue>), ProofRejection> {
        let refuse = |problem| Err(ProofRejection::Invalid(problem));
        let proof = match &evidence.proof {
            ProofHeader::One(proof) if proof.len() <= MAX_PROOF_BYTES => proof,
            ProofHeader::One(_) => return refuse("The proof is too long"),
            ProofHeader::None => return refuse("There is no proof: send one in the DPoP header"),
            ProofHeader::Malformed => return refuse("There must be one DPoP header"),
        };
        let Ok(parsed) = UnverifiedToken::parse(proof) else {
            return refuse("The proof is malformed");
        };
        if !parsed.header.is_type("dpop+jwt") {
            return refuse("The proof's typ must be dpop+jwt");
        }
        let jwk = match parsed.header.jwk.as_ref().map(Jwk::from_json) {
            Some(Ok(jwk)) if jwk.had_private_parts() => {
                return refuse(
                    "The proof contains a private key: generate a new key, and send only its public part",
                );
            }
            Some(Ok(jwk)) => jwk,
            _ => return refuse("The proof contains no supported public key"),
        };
        let Ok(claims) = parsed.verify(&jwk, &self.dpop.algorithms) else {
            return refuse("The proof's signature or algorithm is invalid");
        };
        if !constant_time_eq(jwk.thumbprint().as_bytes(), key.as_bytes()) {
            return refuse("The proof is signed with another key than the token's");
        }
        self.matches(&claims, evidence)?;
        let fresh = self.nonce(claims.text("nonce"))?;
        match claims.text("jti") {
            Some(jti) if !jti.is_empty() && jti.len() <= 512 => Ok((jti.to_owned(), fresh)),
            _ => refuse("The proof has no jti"),
        }
    }

    /// Checks that a proof is for this request and this token, and recent.
    fn matches(&self, claims: &Claims, evidence: &RequestEvidence) -> Result<(), ProofRejection> {
        let refuse = |problem| Err(ProofRejection::Invalid(problem));
        if claims.text("htm") != Some(evidence.method.as_str()) {
            return refuse("The proof is for another method (htm)");
        }
        if !claims.text("htu").is_some_and(|htu| self.matches_url(htu, evidence)) {
            return refuse("The proof is for another URL (htu)");
        }
        let token = b64(evidence.token);
        if !claims.text("ath").is_some_and(|ath| constant_time_eq(ath.as_bytes(), token.as_bytes()))
        {
            return refuse("The proof is for another token (ath)");
        }
        let (now, window) = (now(), self.dpop.window.as_secs());
        match claims.time("iat") {
            Some(iat) if iat <= now + MAX_CLOCK_SKEW_SECS && iat + window >= now => Ok(()),
            _ => refuse("The proof is too old or from the future (iat)"),
        }
    }

    /// Returns true if `htu` is the URL of the request, as clients see it.
    fn matches_url(&self, htu: &str, evidence: &RequestEvidence) -> bool {
        let Ok(mut htu) = Url::parse(htu) else { return false };
        // A WebSocket is opened by an HTTP request.
        let _ = match htu.scheme() {
            "wss" => htu.set_scheme("https"),
            "ws" => htu.set_scheme("http"),
            _ => Ok(()),
        };
        let Some(resource) = &self.resource else {
            // Without a resource, only the host is known.
            let here = evidence.host.as_deref().and_then(|host| {
                Url::parse(&format!("{}://{host}{}", htu.scheme(), evidence.path)).ok()
            });
            return here.is_some_and(|here| {
                here.origin() == htu.origin() && here.path() == htu.path() && here.has_host()
            });
        };
        let mut here = resource.clone();
        here.set_path(&evidence.path);
        // A server mounted under a prefix does not see the prefix.
        let mounted = htu.path() == resource.path() && resource.path().ends_with(&evidence.path);
        htu.origin() == resource.origin() && (htu.path() == here.path() || mounted)
    }

    /// Checks a nonce: the time and an HMAC tag. Returns a fresh one if it is old.
    fn nonce(&self, sent: Option<&str>) -> Result<Option<HeaderValue>, ProofRejection> {
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
            HeaderValue::try_from(nonce).map_err(|_| ProofRejection::Unavailable)
        };
        match made.map(|made| now.saturating_sub(made)) {
            Some(age) if age <= NONCE_LIFETIME_SECS / 2 => Ok(None),
            Some(age) if age <= NONCE_LIFETIME_SECS => fresh().map(Some),
            _ => Err(ProofRejection::NonceRequired(fresh()?)),
        }
    }
}

/// Used proofs, in the memory of this process.
#[derive(Default)]
struct UsedProofs(Lock<UsedProofTable>);

#[derive(Default)]
struct UsedProofTable {
    until: HashMap<String, Instant>,
    cleaned_at: Option<Instant>,
}

/// Limit of proofs that are remembered in memory.
const MAX_USED_PROOFS: usize = 256 << 10;

impl NonceStore for UsedProofs {
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool> {
        let now = Instant::now();
        let mut table = self.0.lock();
        let UsedProofTable { until: used, cleaned_at } = &mut *table;
        // Not for each call: the cost grows with the table.
        if used.len() >= MAX_USED_PROOFS && cleaned_at.is_none_or(|at| now - at >= CLEANUP_INTERVAL)
        {
            *cleaned_at = Some(now);
            used.retain(|_, until| *until > now);
        }
        let verdict = match used.get(nonce) {
            Some(until) if *until > now => Ok(false),
            // If the table is full, reject the request: accepting it would allow a replay.
            None if used.len() >= MAX_USED_PROOFS => Err(Error::overloaded(Duration::from_secs(1))),
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
    async fn proofs_are_limited_per_key() {
        let (mut counts, ttl) = (ProofCounts::default(), Duration::from_secs(60));
        let taken = (0..MAX_PROOFS_PER_KEY * 2).filter(|_| counts.take("one", ttl)).count();
        assert_eq!(taken, MAX_PROOFS_PER_KEY as usize);
        assert!(counts.take("another", ttl));
        tokio::time::advance(ttl).await;
        assert!(counts.take("one", ttl));
        // Unused keys are removed.
        for number in 0..CLEANUP_THRESHOLD {
            counts.take(&number.to_string(), ttl);
        }
        tokio::time::advance(ttl).await;
        assert!(counts.take("one", ttl));
        assert_eq!(counts.by_key.len(), 1);
        // The table is bounded.
        for number in 0..MAX_TRACKED_KEYS + 10 {
            assert!(counts.take(&number.to_string(), ttl));
        }
        assert_eq!(counts.by_key.len(), MAX_TRACKED_KEYS);
    }
}
