//! JWT access tokens (RFC 9068).

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use wharf_model::Authenticated;

use super::jwks::{IssuerKeys, KeyLookup};
use crate::jose::{Algorithm, Claims, JoseError, Jwk, UnverifiedToken};
use crate::server::{
    authenticate::TokenAuthenticator,
    builder_macros::{download_setter, verifier_builder},
    claim_checks::{has_audience, is_access_token_use, validate_times},
    issuer_requests::Download,
    principal_from_claims::ClaimsMapping,
    resource_metadata::ResourceMetadata,
    verified_token::{
        SubmittedToken, TokenBinding, TokenRejection, TokenVerification, TokenVerifier,
        VerificationResult, VerifiedToken,
    },
};

/// Largest tolerated clock difference.
const MAX_CLOCK_SKEW: Duration = Duration::from_secs(300);
/// Time for which a verified token is cached.
const CACHE_TTL: Duration = Duration::from_secs(60);

/// Authenticates JWT access tokens with the keys that the issuer publishes.
///
/// The key set is found by the issuer's metadata, cached, and fetched again when a token names an unknown
/// key. Issuer and audience are compared exactly, and every token must expire.
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
    pub(super) metadata: ResourceMetadata,
    issuers: Vec<IssuerConfig>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    skew: Duration,
    download: Option<Arc<dyn Download>>,
    authenticator: OnceLock<Arc<TokenAuthenticator<JwtVerifier>>>,
}

#[derive(Clone)]
struct IssuerConfig {
    name: String,
    address: Option<String>,
}

/// An issuer whose audience has not been set yet.
#[derive(Debug)]
#[must_use]
pub struct JwtIssuer(String);

impl JwtIssuer {
    /// Sets the accepted audience: the value of `aud`. A URL also becomes the resource identifier, under
    /// which the metadata is published; for others see [`Jwt::resource`].
    pub fn audience(self, audience: impl Into<String>) -> Jwt {
        let audience = audience.into();
        let mut metadata =
            ResourceMetadata { issuers: vec![self.0.clone()], ..ResourceMetadata::default() };
        if audience.starts_with("https://") || audience.starts_with("http://") {
            metadata.resource = Some(audience.clone());
        }
        Jwt {
            metadata,
            issuers: vec![IssuerConfig { name: self.0, address: None }],
            audiences: vec![audience],
            algorithms: Algorithm::ALL.to_vec(),
            skew: Duration::from_secs(30),
            download: None,
            authenticator: OnceLock::new(),
        }
    }
}

impl Jwt {
    /// Sets the issuer: exactly the value of `iss`.
    pub fn issuer(issuer: impl Into<String>) -> JwtIssuer {
        JwtIssuer(issuer.into())
    }

    /// Accepts tokens of this issuer too. Its subjects are different principals, even if they have the same
    /// name.
    pub fn and_issuer(mut self, issuer: impl Into<String>) -> Self {
        let name = issuer.into();
        self.metadata.issuers.push(name.clone());
        self.issuers.push(IssuerConfig { name, address: None });
        self
    }

    /// Accepts tokens for this audience too.
    pub fn and_audience(mut self, audience: impl Into<String>) -> Self {
        self.audiences.push(audience.into());
        self
    }

    /// Sets the JWKS URL of the last named issuer, instead of discovering it.
    pub fn keys_at(mut self, url: impl Into<String>) -> Self {
        if let Some(issuer) = self.issuers.last_mut() {
            issuer.address = Some(url.into());
        }
        self
    }

    /// Sets the accepted signature algorithms: all asymmetric ones by default.
    pub fn algorithms(mut self, algorithms: impl IntoIterator<Item = Algorithm>) -> Self {
        self.algorithms = algorithms.into_iter().collect();
        self
    }

    /// Sets the tolerated clock difference: half a minute by default, at most five minutes.
    pub fn skew(mut self, skew: Duration) -> Self {
        self.skew = skew.min(MAX_CLOCK_SKEW);
        self
    }

    download_setter!();

    fn authenticator(&self) -> &Arc<TokenAuthenticator<JwtVerifier>> {
        self.authenticator.get_or_init(|| {
            let download = self.downloader();
            let keys = |issuer: &IssuerConfig| {
                IssuerKeys::new(&issuer.name, issuer.address.clone(), download.clone())
            };
            let issuers = self.issuers.iter().map(|it| (it.name.clone(), keys(it))).collect();
            let rules = JwtRules {
                issuers,
                audiences: self.audiences.clone(),
                algorithms: self.algorithms.clone(),
                skew: self.skew,
                mapping: self.metadata.mapping.clone(),
            };
            TokenAuthenticator::new(self.metadata.clone(), JwtVerifier(Arc::new(rules)))
        })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.metadata.problems();
        if self.audiences.iter().any(String::is_empty) {
            problems.push("the audience is empty: set the `aud` of tokens for this server".into());
        }
        if self.metadata.resource.is_none() {
            problems
                .push("the audience is not a URL: set the server's URL with `.resource(…)`".into());
        }
        problems
    }
}

verifier_builder!(Jwt);

impl fmt::Debug for Jwt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Jwt").field("issuers", &self.metadata.issuers).finish_non_exhaustive()
    }
}

struct JwtVerifier(Arc<JwtRules>);

struct JwtRules {
    issuers: Vec<(String, Arc<IssuerKeys>)>,
    audiences: Vec<String>,
    algorithms: Vec<Algorithm>,
    skew: Duration,
    mapping: ClaimsMapping,
}

impl TokenVerifier for JwtVerifier {
    fn verify(&self, submitted: &SubmittedToken<'_>) -> TokenVerification {
        let token = submitted.token;
        let (parsed, issuer, keys) = match self.0.read(token) {
            Ok(read) => read,
            Err(rejected) => return TokenVerification::Now(Err(rejected)),
        };
        match keys.find(&parsed.header, false) {
            KeyLookup::Candidates(keys) => {
                TokenVerification::Now(self.0.validate(&parsed, issuer, &keys))
            }
            KeyLookup::None => TokenVerification::Now(Err(UNKNOWN_KEY)),
            KeyLookup::Unavailable => TokenVerification::Now(Err(TokenRejection::Unavailable)),
            KeyLookup::Fetching(mut fetching) => {
                let (rules, token) = (self.0.clone(), token.to_owned());
                TokenVerification::Later(Box::pin(async move {
                    // Ends when the fetch has ended, successfully or not.
                    while fetching.changed().await.is_ok() {}
                    let (parsed, issuer, keys) = rules.read(&token)?;
                    match keys.find(&parsed.header, true) {
                        KeyLookup::Candidates(keys) => rules.validate(&parsed, issuer, &keys),
                        KeyLookup::None => Err(UNKNOWN_KEY),
                        KeyLookup::Unavailable | KeyLookup::Fetching(_) => {
                            Err(TokenRejection::Unavailable)
                        }
                    }
                }))
            }
        }
    }

    fn cache_ttl(&self) -> Duration {
        CACHE_TTL
    }
}

const UNKNOWN_KEY: TokenRejection =
    TokenRejection::Invalid("The token is signed with an unknown key");

type ParsedToken<'a, 't> = (UnverifiedToken<'t>, &'a str, &'a Arc<IssuerKeys>);

impl JwtRules {
    /// Checks everything that does not need the signature.
    fn read<'t>(&self, token: &'t str) -> Result<ParsedToken<'_, 't>, TokenRejection> {
        let parsed = UnverifiedToken::parse(token).map_err(|error| {
            TokenRejection::Invalid(match error {
                JoseError::UnknownAlgorithm => "The token's algorithm is not supported",
                JoseError::Critical => "The token needs extensions that are not supported",
                _ => "The token is malformed",
            })
        })?;
        if !self.algorithms.contains(&parsed.header.algorithm) {
            return Err(TokenRejection::Invalid("The token's algorithm is not allowed"));
        }
        if !is_access_token(&parsed) {
            return Err(TokenRejection::Invalid("The token is not an access token"));
        }
        let issuer = parsed.claims.text("iss").unwrap_or_default();
        let known = self.issuers.iter().find(|(name, _)| name == issuer);
        let (name, keys) =
            known.ok_or(TokenRejection::Invalid("The token is from another issuer"))?;
        Ok((parsed, name, keys))
    }

    fn validate(
        &self,
        parsed: &UnverifiedToken<'_>,
        issuer: &str,
        keys: &[Jwk],
    ) -> VerificationResult {
        let mut verified = keys.iter().filter_map(|key| parsed.verify(key, &self.algorithms).ok());
        let claims =
            verified.next().ok_or(TokenRejection::Invalid("The token's signature is wrong"))?;
        let expires = validate_times(&claims, self.skew, true)?;
        if !has_audience(&self.audiences, &claims) {
            return Err(TokenRejection::Invalid("The token is for another audience"));
        }
        into_verified(&self.mapping, issuer, claims, expires)
    }
}

/// Builds the verified token from claims that passed validation.
pub(super) fn into_verified(
    mapping: &ClaimsMapping,
    issuer: &str,
    claims: Claims,
    expires: Option<u64>,
) -> VerificationResult {
    let principal = mapping.principal(issuer, &claims);
    let principal = principal.ok_or(TokenRejection::Invalid("The token has no subject"))?;
    let bound = TokenBinding::of(&claims);
    let mut pass = Authenticated::new(principal);
    pass.extensions.insert(claims);
    Ok(VerifiedToken { pass, expires, bound })
}

/// Returns true if the token may be an access token, and not an ID token.
fn is_access_token(token: &UnverifiedToken<'_>) -> bool {
    let (header, claims) = (&token.header, &token.claims);
    // Checked whatever the header states: some issuers use the same type for refresh tokens.
    if !is_access_token_use(claims) {
        return false;
    }
    if header.is_type("at+jwt") {
        return true;
    }
    if header.typ.is_some() && !header.is_type("jwt") {
        return false;
    }
    // Some issuers name the type in a claim.
    if let Some(kind) = claims.text("typ") {
        return kind.eq_ignore_ascii_case("bearer") || kind.eq_ignore_ascii_case("dpop");
    }
    let has = |name: &str| claims.get(name).is_some();
    let tells_who = has("at_hash") || has("c_hash") || has("s_hash");
    !tells_who && (!has("nonce") || has("scope") || has("scp"))
}
