//! Tokens whose worth only their issuer knows (RFC 7662).

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

use super::{cache::Recent, jwt::grant};
use crate::jose::Claims;
use crate::server::{
    authenticate::Gate,
    builder_macros::{common, downloads},
    fair_slots::Places,
    issuer_requests::Download,
    resource_metadata::Front,
    verified_token::{
        Checked, Checking, Reading, Rejected, Submitted, Verifier, check_times, is_for_access,
        is_meant, now,
    },
};

/// For how long an answer is kept, unless told otherwise.
const KEEP: Duration = Duration::from_secs(10);
/// How many questions are under way at once, unless told otherwise.
const AT_ONCE: usize = 128;
/// The longest that a token that is no good is remembered.
const KEEP_BAD: Duration = Duration::from_secs(5);
/// How long others wait until they can be asked.
const PATIENCE: Duration = Duration::from_secs(5);
/// How far the issuer's clock may be off.
const SKEW: Duration = Duration::from_secs(30);
/// For how long a token lets somebody in of which the issuer does not say when it ends, in seconds.
const UNSAID: u64 = 3600;
/// The longest that an answer is kept.
const KEEP_MOST: Duration = Duration::from_secs(3600);

/// Lets in whoever has a token of which its issuer says that it is good. The issuer is asked about each token, and
/// its answer is kept for a moment.
///
/// Tokens that were good before are asked about first, and each caller (the address, for tokens that are new) has a
/// share of the [questions at once](Introspection::concurrent): a flood of tokens that are no good does not keep
/// others waiting.
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
    pub(super) front: Front,
    endpoint: String,
    credentials: Option<(String, String)>,
    audiences: Vec<String>,
    issuer_checks: bool,
    keep: Duration,
    at_once: usize,
    download: Option<Arc<dyn Download>>,
    gate: OnceLock<Arc<Gate<Asker>>>,
}

impl Introspection {
    /// Asks at this URL.
    pub fn at(endpoint: impl Into<String>) -> Self {
        Introspection {
            front: Front::default(),
            endpoint: endpoint.into(),
            credentials: None,
            audiences: Vec::new(),
            issuer_checks: false,
            keep: KEEP,
            at_once: AT_ONCE,
            download: None,
            gate: OnceLock::new(),
        }
    }

    /// Who this server is to the issuer.
    pub fn client(mut self, id: impl Into<String>, secret: impl Into<String>) -> Self {
        self.credentials = Some((id.into(), secret.into()));
        self
    }

    /// Who issues the tokens: what clients are told, and what an answer's `iss` must be, if it has one.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.front.issuers = vec![issuer.into()];
        self
    }

    /// For whom tokens must be issued: what stands in the answer's `aud`. A URL is taken as this server's own.
    pub fn audience(mut self, audience: impl Into<String>) -> Self {
        let audience = audience.into();
        if self.front.resource.is_none() && audience.contains("://") {
            self.front.resource = Some(audience.clone());
        }
        self.audiences.push(audience);
        self
    }

    /// Takes answers without `aud`: only where the issuer itself sees to it that it calls no token good here that is
    /// meant for another server. One with another `aud` is still refused.
    pub fn audience_checked_by_issuer(mut self) -> Self {
        self.issuer_checks = true;
        self
    }

    /// How many questions the issuer is asked at once: 128 by default, and as many again about tokens that were good
    /// before. One caller alone gets half of them. Others wait up to five seconds, and are then told to come back (503).
    pub fn concurrent(mut self, most: usize) -> Self {
        self.at_once = most.max(2);
        self
    }

    /// For how long an answer is kept: ten seconds by default. What is revoked meanwhile is still taken. An hour
    /// is the most. That a token is no good is remembered for five seconds at most.
    pub fn keep(mut self, keep: Duration) -> Self {
        self.keep = keep.min(KEEP_MOST);
        self
    }

    downloads!();

    fn gate(&self) -> &Arc<Gate<Asker>> {
        self.gate.get_or_init(|| {
            let question = Question {
                endpoint: self.endpoint.clone(),
                credentials: self.credentials.as_ref().map(|(id, secret)| basic(id, secret)),
                issuer: self.front.issuers.first().cloned(),
                audiences: self.audiences.clone(),
                issuer_checks: self.issuer_checks,
                reading: self.front.reading.clone(),
                download: self.downloading(),
                new: Places::new(self.at_once),
                known: Places::new(self.at_once),
                good: Recent::default(),
                bad: Recent::default(),
                keep_bad: self.keep.min(KEEP_BAD),
                full_log: LogThrottle::every_seconds(60),
            };
            Gate::new(self.front.clone(), Asker { question: Arc::new(question), keep: self.keep })
        })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.front.problems();
        if self.front.issuers.is_empty() {
            problems.push(
                "there is no issuer: say with `.issuer(…)` whom clients ask for tokens".into(),
            );
        }
        if self.audiences.is_empty() && !self.issuer_checks {
            problems.push(
                "there is no audience: say with `.audience(…)` what stands in the `aud` of tokens for this \
                 server"
                    .into(),
            );
        }
        problems
    }
}

common!(Introspection);

impl fmt::Debug for Introspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Introspection").field("endpoint", &self.endpoint).finish_non_exhaustive()
    }
}

struct Asker {
    question: Arc<Question>,
    keep: Duration,
}

struct Question {
    endpoint: String,
    credentials: Option<HeaderValue>,
    issuer: Option<String>,
    audiences: Vec<String>,
    issuer_checks: bool,
    reading: Reading,
    download: Arc<dyn Download>,
    /// Places for tokens of which nothing is known: each address has a share.
    new: Arc<Places>,
    /// Places for tokens that were good before: each principal has a share.
    known: Arc<Places>,
    /// Whose tokens were good before.
    good: Recent<Arc<str>>,
    /// Why tokens were no good, and until when that is believed.
    bad: Recent<(&'static str, Instant)>,
    keep_bad: Duration,
    /// Rate limit of the log line about requests that find no place.
    full_log: LogThrottle,
}

impl Verifier for Asker {
    fn verify(&self, submitted: &Submitted<'_>) -> Checking {
        let (question, digest) = (self.question.clone(), submitted.digest);
        if let Some((problem, until)) = question.bad.get(&digest)
            && until > Instant::now()
        {
            return Checking::Now(Err(Rejected::Invalid(problem)));
        }
        let (token, caller) = (submitted.token.to_owned(), Caller::of(submitted.scope));
        Checking::Later(Box::pin(async move { question.settle(&token, digest, caller).await }))
    }

    fn keep(&self) -> Duration {
        self.keep
    }
}

impl Question {
    /// Asks about a token when its turn comes, and remembers the answer.
    async fn settle(&self, token: &str, digest: [u8; 32], caller: Caller) -> Checked {
        let (places, caller) = match self.good.get(&digest) {
            Some(principal) => (&self.known, Caller::Principal(principal)),
            None => (&self.new, caller),
        };
        let Ok(Some(_place)) = timeout(PATIENCE, places.take(&caller)).await else {
            self.log_full();
            return Err(Rejected::Unknown);
        };
        let checked = self.ask(token).await;
        match &checked {
            Ok(grant) => self.good.put(digest, grant.pass.principal.id().into()),
            Err(Rejected::Invalid(problem)) => {
                self.good.remove(&digest);
                self.bad.put(digest, (problem, Instant::now() + self.keep_bad));
            }
            Err(Rejected::Unknown) => {}
        }
        checked
    }

    /// Tells the operator, once in a while.
    fn log_full(&self) {
        if self.full_log.is_due() {
            tracing::warn!(
                endpoint = self.endpoint,
                "requests are answered with 503: the issuer is slower than tokens come in"
            );
        }
    }

    async fn ask(&self, token: &str) -> Checked {
        let answer = self.download.send(self.request(token)?).await;
        let answer = answer.ok().filter(|it| it.status().as_u16() == 200);
        let body = answer.ok_or(Rejected::Unknown)?.into_body();
        let claims: Map<String, Value> =
            serde_json::from_slice(&body).map_err(|_| Rejected::Unknown)?;
        if claims.get("active") != Some(&Value::Bool(true)) {
            return Err(Rejected::Invalid("The token is not active"));
        }
        self.judge(claims.into())
    }

    fn request(&self, token: &str) -> Result<Request<Bytes>, Rejected> {
        let mut form = form_urlencoded::Serializer::new(String::new());
        form.append_pair("token", token).append_pair("token_type_hint", "access_token");
        let mut request = Request::new(Bytes::from(form.finish()));
        *request.method_mut() = Method::POST;
        *request.uri_mut() = self.endpoint.parse().map_err(|_| Rejected::Unknown)?;
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        request.headers_mut().insert(header::CONTENT_TYPE, kind);
        let json = HeaderValue::from_static("application/json");
        request.headers_mut().insert(header::ACCEPT, json);
        if let Some(credentials) = &self.credentials {
            request.headers_mut().insert(header::AUTHORIZATION, credentials.clone());
        }
        Ok(request)
    }

    fn judge(&self, claims: Claims) -> Checked {
        let expires = check_times(&claims, SKEW, false)?;
        let expires = expires.unwrap_or_else(|| now().saturating_add(UNSAID));
        let kinds = ["token_type", "typ"].iter().all(|name| is_access(claims.get(name)));
        if !kinds || !is_for_access(&claims) {
            return Err(Rejected::Invalid("The token is no access token"));
        }
        let issuer = self.issuer.as_deref().unwrap_or(&self.endpoint);
        if claims.text("iss").is_some_and(|named| named != issuer) {
            return Err(Rejected::Invalid("The token is of another issuer"));
        }
        let unsaid = claims.get("aud").is_none() && self.issuer_checks;
        if !unsaid && !is_meant(&self.audiences, &claims) {
            return Err(Rejected::Invalid("The token is for another audience"));
        }
        grant(&self.reading, issuer, claims, Some(expires))
    }
}

/// Whether a token of this type is for showing to servers, as far as anything is said.
fn is_access(kind: Option<&Value>) -> bool {
    let known = ["bearer", "dpop", "at+jwt", "application/at+jwt"];
    match kind {
        None | Some(Value::Null) => true,
        Some(Value::String(kind)) => known.iter().any(|it| it.eq_ignore_ascii_case(kind)),
        Some(_) => false,
    }
}

/// Credentials as RFC 6749 has them sent: each encoded like a form, then both in Base64.
fn basic(id: &str, secret: &str) -> HeaderValue {
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let both = STANDARD.encode(format!("{}:{}", encoded(id), encoded(secret)));
    let mut value = HeaderValue::try_from(format!("Basic {both}"))
        .unwrap_or_else(|_| HeaderValue::from_static("Basic"));
    value.set_sensitive(true);
    value
}
