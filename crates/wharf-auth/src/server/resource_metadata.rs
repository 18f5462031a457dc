//! What every way to check tokens has in common: what is published, what is demanded, how it is said.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use url::Url;
use wharf_model::{AuthRejection, Error, Principal};

use crate::server::{
    challenge::Challenge, credentials::Scheme, dpop::Dpop, verified_token::Reading,
};

/// Where the description of a protected resource is found (RFC 9728).
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What is published and demanded, whatever tokens look like.
#[derive(Clone, Debug, Default)]
pub(crate) struct Front {
    /// What this server is called by whoever issues tokens for it: its URL.
    pub(crate) resource: Option<String>,
    pub(crate) issuers: Vec<String>,
    /// What every request needs.
    pub(crate) scopes: Vec<String>,
    /// What else may be asked for, as far as it is published.
    pub(crate) published: Vec<String>,
    pub(crate) name: Option<String>,
    pub(crate) documentation: Option<String>,
    pub(crate) reading: Reading,
    pub(crate) dpop: Dpop,
    /// Whether clients are told that proofs are welcome.
    pub(crate) tells_dpop: bool,
    pub(crate) binds_certificates: bool,
}

impl Front {
    /// The resource's URL, if it is one.
    pub(crate) fn url(&self) -> Option<Url> {
        let url = Url::parse(self.resource.as_deref()?).ok()?;
        matches!(url.scheme(), "http" | "https").then_some(url)
    }

    /// Where this resource is described: at its own path, and at the root for clients that look there.
    pub(crate) fn paths(&self) -> Vec<String> {
        let Some(url) = self.url() else { return Vec::new() };
        match url.path() {
            "/" => vec![WELL_KNOWN.to_owned()],
            path => vec![format!("{WELL_KNOWN}{path}"), WELL_KNOWN.to_owned()],
        }
    }

    fn metadata_url(&self) -> Option<String> {
        let origin = self.url()?.origin().ascii_serialization();
        Some(format!("{origin}{}", self.paths().first()?))
    }

    /// The description of the resource.
    fn metadata(&self) -> Value {
        let mut metadata = json!({
            "resource": self.resource,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
        });
        let mut scopes: Vec<&String> = Vec::new();
        for scope in self.scopes.iter().chain(&self.published) {
            if !scopes.contains(&scope) {
                scopes.push(scope);
            }
        }
        if !scopes.is_empty() {
            metadata["scopes_supported"] = json!(scopes);
        }
        for (name, value) in
            [("resource_name", &self.name), ("resource_documentation", &self.documentation)]
        {
            if let Some(value) = value {
                metadata[name] = json!(value);
            }
        }
        if self.tells_dpop {
            metadata["dpop_signing_alg_values_supported"] = json!(self.dpop.algorithm_names());
        }
        if self.dpop.is_required() {
            metadata["dpop_bound_access_tokens_required"] = json!(true);
        }
        if self.binds_certificates {
            metadata["tls_client_certificate_bound_access_tokens"] = json!(true);
        }
        metadata
    }

    /// Answers whoever wants to know how to come in.
    pub(crate) fn page(&self, request: &Request<Bytes>) -> Response<Bytes> {
        let mut response = Response::new(Bytes::new());
        match *request.method() {
            Method::GET | Method::HEAD => {
                let body = self.metadata().to_string();
                *response.body_mut() = body.into();
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
                headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=300"));
            }
            Method::OPTIONS => *response.status_mut() = StatusCode::NO_CONTENT,
            _ => {
                *response.status_mut() = StatusCode::METHOD_NOT_ALLOWED;
                let allowed = HeaderValue::from_static("GET, HEAD, OPTIONS");
                response.headers_mut().insert(header::ALLOW, allowed);
            }
        }
        // Anybody may read it, from anywhere: nothing in it depends on who asks.
        let anybody = HeaderValue::from_static("*");
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, anybody.clone());
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, anybody);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
        response
    }

    /// The challenges for somebody who showed nothing.
    pub(crate) fn nobody(&self) -> AuthRejection {
        let denied = AuthRejection::new(401, "Authorization is required: see WWW-Authenticate");
        self.schemes(None).into_iter().fold(denied, |denied, scheme| {
            let challenge = self.begin(scheme).scopes(self.scopes.iter().map(String::as_str));
            denied.challenge(self.finish(challenge, scheme))
        })
    }

    /// The challenge for a request that is malformed.
    pub(crate) fn malformed(&self, problem: &'static str) -> AuthRejection {
        let challenge = self.begin(Scheme::Bearer).with("error", "invalid_request");
        let challenge = self.finish(challenge.with("error_description", problem), Scheme::Bearer);
        AuthRejection::new(400, problem).challenge(challenge)
    }

    /// The challenge for a token, or a proof, that is no good.
    pub(crate) fn invalid(
        &self,
        scheme: Scheme,
        error: &str,
        problem: &'static str,
    ) -> AuthRejection {
        let challenge = self.begin(scheme).with("error", error);
        let challenge = challenge.scopes(self.scopes.iter().map(String::as_str));
        let challenge = self.finish(challenge.with("error_description", problem), scheme);
        AuthRejection::new(401, problem).challenge(challenge)
    }

    /// Nobody can tell now.
    pub(crate) fn unknown(&self) -> AuthRejection {
        let mut denied = AuthRejection::new(503, "Tokens cannot be checked now; try again later");
        denied.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        denied
    }

    /// What every request needs and this caller lacks, if anything.
    pub(crate) fn lacks(&self, principal: &Principal, scheme: Scheme) -> Option<AuthRejection> {
        if self.scopes.iter().all(|scope| principal.has_scope(scope)) {
            return None;
        }
        let error = Error::insufficient_scope(&self.scopes);
        let denied = AuthRejection::new(403, error.message.clone());
        Some(denied.challenge(self.insufficient(&error, scheme, principal)))
    }

    /// The challenges for a call that failed for want of rights.
    pub(crate) fn denied(
        &self,
        error: &Error,
        headers: &HeaderMap,
        principal: &Principal,
    ) -> Vec<HeaderValue> {
        let scheme = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let scheme = match scheme.and_then(|it| it.get(..5)) {
            Some(name) if name.eq_ignore_ascii_case(b"dpop ") => Scheme::Dpop,
            _ => Scheme::Bearer,
        };
        if error.kind.is_insufficient_scope() {
            return vec![self.insufficient(error, scheme, principal)];
        }
        vec![self.finish(self.begin(scheme), scheme)]
    }

    /// All that is needed, with what the caller has already: whoever asks for new rights must not lose old ones.
    fn insufficient(&self, error: &Error, scheme: Scheme, principal: &Principal) -> HeaderValue {
        let needed = error.required_scopes();
        let own = principal.scopes().filter(|scope| !self.is_implied(scope, principal));
        let all = own.chain(self.scopes.iter().map(String::as_str)).chain(needed);
        let challenge = self.begin(scheme).with("error", "insufficient_scope").scopes(all);
        self.finish(challenge.with("error_description", &error.message), scheme)
    }

    /// Whether a caller has a scope only because another stands for it.
    fn is_implied(&self, scope: &str, principal: &Principal) -> bool {
        let implied = &self.reading.implied;
        implied.iter().any(|(broad, narrow)| narrow == scope && principal.has_scope(broad))
    }

    fn begin(&self, scheme: Scheme) -> Challenge {
        Challenge::new(match scheme {
            Scheme::Bearer => "Bearer",
            Scheme::Dpop => "DPoP",
        })
    }

    fn finish(&self, challenge: Challenge, scheme: Scheme) -> HeaderValue {
        let challenge = challenge.maybe("resource_metadata", self.metadata_url().as_deref());
        match scheme {
            Scheme::Bearer => challenge.header(),
            Scheme::Dpop => challenge.with("algs", &self.dpop.algorithm_names().join(" ")).header(),
        }
    }

    /// How a token may be sent, the commoner way first.
    fn schemes(&self, sent: Option<Scheme>) -> Vec<Scheme> {
        match (sent, self.dpop.is_required(), self.tells_dpop) {
            (Some(scheme), ..) => vec![scheme],
            (None, true, _) => vec![Scheme::Dpop],
            (None, false, true) => vec![Scheme::Bearer, Scheme::Dpop],
            (None, false, false) => vec![Scheme::Bearer],
        }
    }

    /// What is wrong with how it was put together.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.dpop.problem().into_iter().collect();
        for issuer in &self.issuers {
            if !is_issuer(issuer) {
                problems.push(format!(
                    "the issuer {issuer:?} must be an https URL without query and fragment, exactly as it \
                     stands in tokens"
                ));
            }
        }
        if let Some(resource) = &self.resource {
            match Url::parse(resource) {
                Ok(url)
                    if matches!(url.scheme(), "http" | "https")
                        && url.fragment().is_none()
                        && url.query().is_none() => {}
                _ => problems.push(format!(
                    "the resource {resource:?} must be this server's own URL without query and fragment, such as \
                     https://mcp.example.com/mcp"
                )),
            }
        }
        problems
    }
}

/// Whether this can be an issuer: over `https`, or on this machine.
fn is_issuer(issuer: &str) -> bool {
    let Ok(url) = Url::parse(issuer) else { return false };
    let near = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let secure = url.scheme() == "https" || url.scheme() == "http" && near;
    let plain = url.query().is_none() && url.fragment().is_none();
    secure && plain && !issuer.bytes().any(|byte| byte.is_ascii_whitespace())
}
