//! Token introspection (RFC 7662): the issuer validates opaque tokens.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{HeaderValue, Method, Request, header};
use serde_json::{Map, Value};
use tokio::time::{Instant, timeout};
use url::form_urlencoded;
use wharf_model::{Caller, LogThrottle};

use super::{jwt::into_verified, token_cache::RecentTokens};
use crate::jose::Claims;
use crate::server::{
    authenticate::TokenAuthenticator,
    builder_macros::{download_setter, verifier_builder},
    claim_checks::{has_audience, is_access_token_use, validate_times},
    fair_slots::FairSlots,
    issuer_requests::Download,
    principal_from_claims::ClaimsMapping,
    resource_metadata::ResourceMetadata,
    verified_token::{
        SubmittedToken, TokenRejection, TokenVerification, TokenVerifier, VerificationResult, now,
    },
};

/// Default time for which a response is cached.
const CACHE_TTL: Duration = Duration::from_secs(10);
/// Default limit of concurrent introspection requests.
const MAX_CONCURRENT: usize = 128;
/// Longest time for which a rejection is cached.
const MAX_REJECTION_TTL: Duration = Duration::from_secs(5);
/// Longest time that a request waits for a slot.
const QUEUE_TIMEOUT: Duration = Duration::from_secs(5);
/// Tolerated clock difference of the issuer.
const CLOCK_SKEW: Duration = Duration::from_secs(30);
/// Lifetime of a token without `exp` in the response, in seconds.
const DEFAULT_LIFETIME_SECS: u64 = 3600;
/// Longest time for which a response is cached.
const MAX_CACHE_TTL: Duration = Duration::from_secs(3600);

/// Authenticates tokens by introspection (RFC 7662): the issuer is asked about each token, and its response
/// is cached for a short time.
///
/// Tokens that were active before have slots of their own, and each caller (the address, for new tokens)
/// has a share of the [concurrent requests](Introspection::concurrent). A flood of invalid tokens does not
/// delay other callers.
///
/// ```
/// use wharf_auth::server::Introspection;
///
/// let authority = Introspection::at("https://id.example.com/introspect")
///     .client("mcp-server", "a secret")
///     .issuer("https://id.example.com")
///     .audience("https://mcp.example.com/mcp");
/// # let _ = authority;
/// ```
#[must_use]
pub struct Introspection {
    pub(super) metadata: ResourceMetadata,
    endpoint: String,
    credentials: Option<(String, String)>,
    audiences: Vec<String>,
    issuer_checks_audience: bool,
    cache_ttl: Duration,
    max_concurrent: usize,
    download: Option<Arc<dyn Download>>,
    authenticator: OnceLock<Arc<TokenAuthenticator<IntrospectionVerifier>>>,
}

impl Introspection {
    /// Uses the introspection endpoint at this URL.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Introspection {
            metadata: ResourceMetadata::default(),
            endpoint: endpoint.into(),
            credentials: None,
            audiences: Vec::new(),
            issuer_checks_audience: false,
            cache_ttl: CACHE_TTL,
            max_concurrent: MAX_CONCURRENT,
            download: None,
            authenticator: OnceLock::new(),
        }
    }

    /// Sets this server's client credentials at the issuer.
    pub fn client(mut self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        self.credentials = Some((id.into(), secret.into()));
        self
    }

    /// Sets the issuer: it is published to clients, and a response's `iss` must equal it if present.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.metadata.issuers = vec![issuer.into()];
        self
    }

    /// Adds an accepted audience: the value of `aud` in the response. A URL also becomes the resource
    /// identifier.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        let audience = audience.into();
        if self.metadata.resource.is_none() && audience.contains("://") {
            self.metadata.resource = Some(audience.clone());
        }
        self.audiences.push(audience);
        self
    }

    /// Accepts responses without `aud`. Use this only if the issuer itself reports tokens for other servers
    /// as inactive. A response with a different `aud` is still rejected.
    pub fn audience_checked_by_issuer(mut self) -> Self {
        self.issuer_checks_audience = true;
        self
    }

    /// Sets the limit of concurrent introspection requests: 128 by default, and the same again for tokens
    /// that were active before. One caller alone gets half of them. Other requests wait up to five seconds,
    /// then fail with 503.
    pub fn concurrent(mut self, most: usize) -> Self {
        self.max_concurrent = most.max(2);
        self
    }

    /// Sets how long a response is cached: ten seconds by default, at most one hour. A token revoked in the
    /// meantime is still accepted. Rejections are cached for five seconds at most.
    pub fn cache_ttl(mut self, cache_ttl: Duration) -> Self {
        self.cache_ttl = cache_ttl.min(MAX_CACHE_TTL);
        self
    }

    download_setter!();

    fn authenticator(&self) -> &Arc<TokenAuthenticator<IntrospectionVerifier>> {
        self.authenticator.get_or_init(|| {
            let client = IntrospectionClient {
                endpoint: self.endpoint.clone(),
                credentials: self.credentials.as_ref().map(|(id, secret)| basic(id, secret)),
                issuer: self.metadata.issuers.first().cloned(),
                audiences: self.audiences.clone(),
                issuer_checks_audience: self.issuer_checks_audience,
                mapping: self.metadata.mapping.clone(),
                download: self.downloader(),
                new_token_slots: FairSlots::new(self.max_concurrent),
                known_token_slots: FairSlots::new(self.max_concurrent),
                accepted: RecentTokens::default(),
                rejected: RecentTokens::default(),
                rejection_ttl: self.cache_ttl.min(MAX_REJECTION_TTL),
                full_log: LogThrottle::every_seconds(60),
            };
            TokenAuthenticator::new(
                self.metadata.clone(),
                IntrospectionVerifier { client: Arc::new(client), cache_ttl: self.cache_ttl },
            )
        })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.metadata.problems();
        if self.metadata.issuers.is_empty() {
            problems
                .push("there is no issuer: name the authorization server with `.issuer(…)`".into());
        }
        if self.audiences.is_empty() && !self.issuer_checks_audience {
            problems.push(
                "there is no audience: set the `aud` of tokens for this server with `.audience(…)`"
                    .into(),
            );
        }
        problems
    }
}

verifier_builder!(Introspection);

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

struct IntrospectionVerifier {
    client: Arc<IntrospectionClient>,
    cache_ttl: Duration,
}

struct IntrospectionClient {
    endpoint: String,
    credentials: Option<HeaderValue>,
    issuer: Option<String>,
    audiences: Vec<String>,
    issuer_checks_audience: bool,
    mapping: ClaimsMapping,
    download: Arc<dyn Download>,
    /// Slots for new tokens: each address has a share.
    new_token_slots: Arc<FairSlots>,
    /// Slots for tokens that were active before: each principal has a share.
    known_token_slots: Arc<FairSlots>,
    /// Principals of tokens that were active before.
    accepted: RecentTokens<Arc<str>>,
    /// Reasons of rejected tokens, and the time until which they are cached.
    rejected: RecentTokens<(&'static str, Instant)>,
    rejection_ttl: Duration,
    /// Rate limit of the log line about requests that find no slot.
    full_log: LogThrottle,
}

impl TokenVerifier for IntrospectionVerifier {
    fn verify(&self, submitted: &SubmittedToken<'_>) -> TokenVerification {
        let (client, digest) = (self.client.clone(), submitted.digest);
        if let Some((problem, until)) = client.rejected.get(&digest)
            && until > Instant::now()
        {
            return TokenVerification::Now(Err(TokenRejection::Invalid(problem)));
        }
        let (token, caller) = (submitted.token.to_owned(), Caller::of(submitted.scope));
        TokenVerification::Later(Box::pin(async move {
            client.introspect_in_turn(&token, digest, caller).await
        }))
    }

    fn cache_ttl(&self) -> Duration {
        self.cache_ttl
    }
}

impl IntrospectionClient {
    /// Waits for a slot, introspects the token and caches the response.
    async fn introspect_in_turn(
        &self,
        token: &str,
        digest: [u8; 32],
        caller: Caller,
    ) -> VerificationResult {
        let (slots, caller) = match self.accepted.get(&digest) {
            Some(principal) => (&self.known_token_slots, Caller::Principal(principal)),
            None => (&self.new_token_slots, caller),
        };
        let Ok(Some(_slot)) = timeout(QUEUE_TIMEOUT, slots.take(&caller)).await else {
            self.log_full();
            return Err(TokenRejection::Unavailable);
        };
        let checked = self.introspect(token).await;
        match &checked {
            Ok(verified) => self.accepted.put(digest, verified.pass.principal.id().into()),
            Err(TokenRejection::Invalid(problem)) => {
                self.accepted.remove(&digest);
                self.rejected.put(digest, (problem, Instant::now() + self.rejection_ttl));
            }
            Err(TokenRejection::Unavailable) => {}
        }
        checked
    }

    /// Logs that the slots are exhausted, at a limited rate.
    fn log_full(&self) {
        if let Some(suppressed) = self.full_log.due() {
            tracing::warn!(
                endpoint = self.endpoint,
                suppressed,
                "rejecting requests with 503: the introspection endpoint is too slow"
            );
        }
    }

    async fn introspect(&self, token: &str) -> VerificationResult {
        let answer = self.download.send(self.request(token)?).await;
        let answer = answer.ok().filter(|it| it.status().as_u16() == 200);
        let body = answer.ok_or(TokenRejection::Unavailable)?.into_body();
        let claims: Map<String, Value> =
            serde_json::from_slice(&body).map_err(|_| TokenRejection::Unavailable)?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(TokenRejection::Invalid("The token is not active"));
        }
        self.validate(claims.into())
    }

    fn request(&self, token: &str) -> Result<Request<Bytes>, TokenRejection> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token).append_pair("token_type_hint", "access_token");
        let mut request = Request::new(Bytes::from(form.finish()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.parse().map_err(|_| TokenRejection::Unavailable)?;
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json);
        if let Some(credentials) = &self.credentials {
            request.headers_mut().insert(header::AUTHORIZATION, credentials.clone());
        }
        Ok(request)
    }

    fn validate(&self, claims: Claims) -> VerificationResult {
        let expires = validate_times(&claims, CLOCK_SKEW, false)?;
        let expires = expires.unwrap_or_else(|| now().saturating_add(DEFAULT_LIFETIME_SECS));
        let kinds = ["token_type", "typ"].iter().all(|name| is_access_type(claims.get(name)));
        if !kinds || !is_access_token_use(&claims) {
            return Err(TokenRejection::Invalid("The token is not an access token"));
        }
        let issuer = self.issuer.as_deref().unwrap_or(&self.endpoint);
        if claims.text("iss").is_some_and(|named| named != issuer) {
            return Err(TokenRejection::Invalid("The token is from another issuer"));
        }
        let is_trusted = claims.get("aud").is_none() && self.issuer_checks_audience;
        if !is_trusted && !has_audience(&self.audiences, &claims) {
            return Err(TokenRejection::Invalid("The token is for another audience"));
        }
        into_verified(&self.mapping, issuer, claims, Some(expires))
    }
}

/// Returns true if a token of this type is an access token, or the type is not given.
fn is_access_type(kind: Option<&Value>) -> bool {
    let known = ["bearer", "dpop", "at+jwt", "application/at+jwt"];
    match kind {
        None | Some(Value::Null) => true,
        Some(Value::String(kind)) => known.iter().any(|it| it.eq_ignore_ascii_case(kind)),
        Some(_) => false,
    }
}

/// HTTP Basic credentials as RFC 6749 defines them: both parts form-encoded, then base64.
fn basic(id: &str, secret: &str) -> HeaderValue {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let both = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    let mut value = HeaderValue::try_from(format!("Basic {both}"))
        .unwrap_or_else(|_| HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}
