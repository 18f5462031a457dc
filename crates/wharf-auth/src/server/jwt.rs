//! Tokens that say themselves what they are worth (RFC 9068).

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use wharf_model::Authenticated;

use super::keys::{Found, Keys};
use crate::jose::{Algorithm, Claims, JoseError, Jwk, Unverified};
use crate::server::{
    authenticate::Gate,
    builder_macros::{common, downloads},
    issuer_requests::Download,
    resource_metadata::Front,
    verified_token::{
        Bound, Checked, Checking, Grant, Reading, Rejected, Submitted, Verifier, check_times,
        is_for_access, is_meant,
    },
};

/// The longest that clocks may differ.
const MOST_SKEW: Duration = Duration::from_secs(300);
/// For how long a token that was good is taken for good.
const KEEP: Duration = Duration::from_secs(60);

/// Lets in whoever has a token that this issuer signed for this server: JSON Web Tokens, checked with the keys that
/// the issuer publishes.
///
/// The keys are found by the issuer's metadata, kept, and fetched again when a token is signed with one that nobody
/// knows. Issuer and audience are compared exactly, and every token must expire.
///
/// ```
/// use wharf_auth::server::Jwt;
///
/// let authority = Jwt::issuer("https://id.example.com")
///     .audience("https://mcp.example.com/mcp")
///     .scope("mcp")
///     .implies("files:write", "files:read");
/// # let _ = authority;
/// ```
#[must_use]
pub struct Jwt {
    pub(super) front: Front,
    issuers: Vec<Issuer>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    skew: Duration,
    download: Option<Arc<dyn Download>>,
    gate: OnceLock<Arc<Gate<Tokens>>>,
}

#[derive(Clone)]
struct Issuer {
    name: String,
    address: Option<String>,
}

/// An issuer of tokens, for an audience that is yet to be named.
#[derive(Debug)]
#[must_use]
pub struct Issued(String);

impl Issued {
    /// For whom tokens must be issued: what stands in their `aud`. A URL is taken as this server's own, under which
    /// its metadata is published; see [`Jwt::resource`] for others.
    pub fn audience(self, audience: impl Into<String>) -> Jwt {
        let audience = audience.into();
        let mut front = Front { issuers: vec![self.0.clone()], ..Front::default() };
        if audience.starts_with("https://") || audience.starts_with("http://") {
            front.resource = Some(audience.clone());
        }
        Jwt {
            front,
            issuers: vec![Issuer { name: self.0, address: None }],
            audiences: vec![audience],
            algorithms: Algorithm::ALL.to_vec(),
            skew: Duration::from_secs(30),
            download: None,
            gate: OnceLock::new(),
        }
    }
}

impl Jwt {
    /// Who signs the tokens: exactly what stands in their `iss`.
    pub fn issuer(issuer: impl Into<String>) -> Issued {
        Issued(issuer.into())
    }

    /// Takes the tokens of this issuer too. Its callers are others, whatever they are called.
    pub fn and_issuer(mut self, issuer: impl Into<String>) -> Self {
        let name = issuer.into();
        self.front.issuers.push(name.clone());
        self.issuers.push(Issuer { name, address: None });
        self
    }

    /// Takes tokens for this audience too.
    pub fn and_audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Where the keys of the issuer that was named last are, instead of asking it.
    pub fn keys_at(mut self, url: impl Into<String>) -> Self {
        if let Some(issuer) = self.issuers.last_mut() {
            issuer.address = Some(url.into());
        }
        self
    }

    /// How tokens may be signed: by default in every way that needs a private key.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// How far clocks may differ: half a minute by default, and five minutes at most.
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew.min(MOST_SKEW);
        self
    }

    downloads!();

    fn gate(&self) -> &Arc<Gate<Tokens>> {
        self.gate.get_or_init(|| {
            let download = self.downloading();
            let keys =
                |issuer: &Issuer| Keys::new(&issuer.name, issuer.address.clone(), download.clone());
            let issuers = self.issuers.iter().map(|it| (it.name.clone(), keys(it))).collect();
            let rules = Rules {
                issuers,
                audiences: self.audiences.clone(),
                algorithms: self.algorithms.clone(),
                skew: self.skew,
                reading: self.front.reading.clone(),
            };
            Gate::new(self.front.clone(), Tokens(Arc::new(rules)))
        })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.front.problems();
        if self.audiences.iter().any(String::is_empty) {
            problems.push("the audience is empty: name what stands in the `aud` of tokens".into());
        }
        if self.front.resource.is_none() {
            problems.push(
                "the audience is no URL: say with `.resource(…)` which URL clients know this server by"
                    .into(),
            );
        }
        problems
    }
}

common!(Jwt);

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("issuers", &self.front.issuers).finish_non_exhaustive()
    }
}

struct Tokens(Arc<Rules>);

struct Rules {
    issuers: Vec<(String, Arc<Keys>)>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    skew: Duration,
    reading: Reading,
}

impl Verifier for Tokens {
    fn verify(&self, submitted: &Submitted<'_>) -> Checking {
        let token = submitted.token;
        let (parsed, issuer, keys) = match self.0.read(token) {
            Ok(read) => read,
            Err(rejected) => return Checking::Now(Err(rejected)),
        };
        match keys.find(&parsed.header, false) {
            Found::Keys(keys) => Checking::Now(self.0.judge(&parsed, issuer, &keys)),
            Found::None => Checking::Now(Err(UNKNOWN_KEY)),
            Found::Unknown => Checking::Now(Err(Rejected::Unknown)),
            Found::ClientRequest(mut asking) => {
                let (rules, token) = (self.0.clone(), token.to_owned());
                Checking::Later(Box::pin(async move {
                    // Ends when whoever asked has the answer, or none.
                    while asking.changed().await.is_ok() {}
                    let (parsed, issuer, keys) = rules.read(&token)?;
                    match keys.find(&parsed.header, true) {
                        Found::Keys(keys) => rules.judge(&parsed, issuer, &keys),
                        Found::None => Err(UNKNOWN_KEY),
                        Found::Unknown | Found::ClientRequest(_) => Err(Rejected::Unknown),
                    }
                }))
            }
        }
    }

    fn keep(&self) -> Duration {
        KEEP
    }
}

const UNKNOWN_KEY: Rejected = Rejected::Invalid("The token is signed with an unknown key");

type Read<'a, 't> = (Unverified<'t>, &'a str, &'a Arc<Keys>);

impl Rules {
    /// What can be told without its signature.
    fn read<'t>(&self, token: &'t str) -> Result<Read<'_, 't>, Rejected> {
        let parsed = Unverified::parse(token).map_err(|error| {
            Rejected::Invalid(match error {
                JoseError::UnknownAlgorithm => "The token's algorithm is not supported",
                JoseError::Critical => "The token needs extensions that are not supported",
                _ => "The token is malformed",
            })
        })?;
        if !self.algorithms.contains(&parsed.header.algorithm) {
            return Err(Rejected::Invalid("The token's algorithm is not allowed"));
        }
        if !is_access_token(&parsed) {
            return Err(Rejected::Invalid("The token is no access token"));
        }
        let issuer = parsed.claims.text("iss").unwrap_or_default();
        let known = self.issuers.iter().find(|(name, _)| name == issuer);
        let (name, keys) = known.ok_or(Rejected::Invalid("The token is of another issuer"))?;
        Ok((parsed, name, keys))
    }

    fn judge(&self, parsed: &Unverified<'_>, issuer: &str, keys: &[Jwk]) -> Checked {
        let mut verified = keys.iter().filter_map(|key| parsed.verify(key, &self.algorithms).ok());
        let claims = verified.next().ok_or(Rejected::Invalid("The token's signature is wrong"))?;
        let expires = check_times(&claims, self.skew, true)?;
        if !is_meant(&self.audiences, &claims) {
            return Err(Rejected::Invalid("The token is for another audience"));
        }
        grant(&self.reading, issuer, claims, expires)
    }
}

/// What claims are worth that were found good.
pub(super) fn grant(
    reading: &Reading,
    issuer: &str,
    claims: Claims,
    expires: Option<u64>,
) -> Checked {
    let principal = reading.principal(issuer, &claims);
    let principal = principal.ok_or(Rejected::Invalid("The token does not say whose it is"))?;
    let bound = Bound::of(&claims);
    let mut pass = Authenticated::new(principal);
    pass.extensions.insert(claims);
    Ok(Grant { pass, expires, bound })
}

/// Whether a token may be one that lets somebody in, and not one that only tells who somebody is.
fn is_access_token(token: &Unverified<'_>) -> bool {
    let (header, claims) = (&token.header, &token.claims);
    // Whatever its header says: some issuers call their refresh tokens by the same type.
    if !is_for_access(claims) {
        return false;
    }
    if header.is_type("at+jwt") {
        return true;
    }
    if header.typ.is_some() && !header.is_type("jwt") {
        return false;
    }
    // Some issuers say it in a claim.
    if let Some(kind) = claims.text("typ") {
        return kind.eq_ignore_ascii_case("bearer") || kind.eq_ignore_ascii_case("dpop");
    }
    let has = |name: &str| claims.get(name).is_some();
    let tells_who = has("at_hash") || has("c_hash") || has("s_hash");
    !tells_who && (!has("nonce") || has("scope") || has("scp"))
}
