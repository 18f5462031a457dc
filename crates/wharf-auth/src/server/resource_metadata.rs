//! Protected resource metadata (RFC 9728) and the challenges that refer to it.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use serde_json::{Value, json};
use url::Url;
use wharf_model::{AuthRejection, Error, Principal};

use crate::server::{
    challenge::ChallengeBuilder, credentials::AuthScheme, dpop::Dpop,
    principal_from_claims::ClaimsMapping,
};

/// Well-known path of the metadata.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// Metadata and requirements that all verifiers share.
#[derive(Clone, Debug, Default)]
pub(crate) struct ResourceMetadata {
    /// Resource identifier: the server's URL.
    pub(crate) resource: Option<String>,
    pub(crate) issuers: Vec<String>,
    /// Scopes that every request requires.
    pub(crate) scopes: Vec<String>,
    /// Additional scopes to publish.
    pub(crate) extra_scopes: Vec<String>,
    pub(crate) name: Option<String>,
    pub(crate) documentation: Option<String>,
    pub(crate) mapping: ClaimsMapping,
    pub(crate) dpop: Dpop,
    /// Announces DPoP support.
    pub(crate) announces_dpop: bool,
    pub(crate) binds_certificates: bool,
}

impl ResourceMetadata {
    /// The resource identifier, if it is an HTTP URL.
    pub(crate) fn url(&self) -> Option<Url> {
        let url = Url::parse(self.resource.as_deref()?).ok()?;
        matches!(url.scheme(), "http" | "https").then_some(url)
    }

    /// Paths of the metadata: for the resource's path, and at the root for clients that look there.
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

    /// The metadata document.
    fn metadata(&self) -> Value {
        let mut metadata = json!({
            "resource": self.resource,
            "authorization_servers": self.issuers,
            "bearer_methods_supported": ["header"],
        });
        let mut scopes: Vec<&String> = Vec::new();
        for scope in self.scopes.iter().chain(&self.extra_scopes) {
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
        if self.announces_dpop {
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

    /// Serves the metadata document.
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
        // Public for all origins (CORS): the document does not depend on the caller.
        let any_origin = HeaderValue::from_static("*");
        let headers = response.headers_mut();
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, any_origin.clone());
        headers.insert(header::ACCESS_CONTROL_ALLOW_HEADERS, any_origin);
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET, HEAD"));
        response
    }

    /// Rejection of a request without a token.
    pub(crate) fn missing_token(&self) -> AuthRejection {
        let denied = AuthRejection::new(401, "Authorization is required: see WWW-Authenticate");
        self.schemes(None).into_iter().fold(denied, |denied, scheme| {
            let challenge =
                self.new_challenge(scheme).scopes(self.scopes.iter().map(String::as_str));
            denied.challenge(self.finish_challenge(challenge, scheme))
        })
    }

    /// Rejection of a malformed request.
    pub(crate) fn malformed(&self, problem: &'static str) -> AuthRejection {
        let challenge = self.new_challenge(AuthScheme::Bearer).with("error", "invalid_request");
        let challenge =
            self.finish_challenge(challenge.with("error_description", problem), AuthScheme::Bearer);
        AuthRejection::new(400, problem).challenge(challenge)
    }

    /// Rejection of an invalid token or proof.
    pub(crate) fn invalid(
        &self,
        scheme: AuthScheme,
        error: &str,
        problem: &'static str,
    ) -> AuthRejection {
        let challenge = self.new_challenge(scheme).with("error", error);
        let challenge = challenge.scopes(self.scopes.iter().map(String::as_str));
        let challenge = self.finish_challenge(challenge.with("error_description", problem), scheme);
        AuthRejection::new(401, problem).challenge(challenge)
    }

    /// Rejection because tokens cannot be verified at the moment.
    pub(crate) fn unavailable(&self) -> AuthRejection {
        let mut denied = AuthRejection::new(503, "Tokens cannot be verified now; try again later");
        denied.headers.insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
        denied
    }

    /// Rejection of a principal that lacks a required scope.
    pub(crate) fn missing_scopes(
        &self,
        principal: &Principal,
        scheme: AuthScheme,
    ) -> Option<AuthRejection> {
        if self.scopes.iter().all(|scope| principal.has_scope(scope)) {
            return None;
        }
        let error = Error::insufficient_scope(&self.scopes);
        let denied = AuthRejection::new(403, error.message.clone());
        Some(denied.challenge(self.insufficient(&error, scheme, principal)))
    }

    /// Challenges for a call that failed because of missing permissions.
    pub(crate) fn denied(
        &self,
        error: &Error,
        headers: &HeaderMap,
        principal: &Principal,
    ) -> Vec<HeaderValue> {
        let scheme = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        let scheme = match scheme.and_then(|it| it.get(..5)) {
            Some(name) if name.eq_ignore_ascii_case(b"dpop ") => AuthScheme::Dpop,
            _ => AuthScheme::Bearer,
        };
        if error.kind.is_insufficient_scope() {
            return vec![self.insufficient(error, scheme, principal)];
        }
        vec![self.finish_challenge(self.new_challenge(scheme), scheme)]
    }

    /// Lists the required scopes together with the caller's own, so that step-up authorization does not
    /// lose existing ones.
    fn insufficient(
        &self,
        error: &Error,
        scheme: AuthScheme,
        principal: &Principal,
    ) -> HeaderValue {
        let needed = error.required_scopes();
        let own = principal.scopes().filter(|scope| !self.is_implied(scope, principal));
        let all = own.chain(self.scopes.iter().map(String::as_str)).chain(needed);
        let challenge = self.new_challenge(scheme).with("error", "insufficient_scope").scopes(all);
        self.finish_challenge(challenge.with("error_description", &error.message), scheme)
    }

    /// Returns true if the caller has the scope only because a broader one includes it.
    fn is_implied(&self, scope: &str, principal: &Principal) -> bool {
        let implied = &self.mapping.implied;
        implied.iter().any(|(broad, narrow)| narrow == scope && principal.has_scope(broad))
    }

    fn new_challenge(&self, scheme: AuthScheme) -> ChallengeBuilder {
        ChallengeBuilder::new(match scheme {
            AuthScheme::Bearer => "Bearer",
            AuthScheme::Dpop => "DPoP",
        })
    }

    fn finish_challenge(&self, challenge: ChallengeBuilder, scheme: AuthScheme) -> HeaderValue {
        let challenge =
            challenge.with_optional("resource_metadata", self.metadata_url().as_deref());
        match scheme {
            AuthScheme::Bearer => challenge.header(),
            AuthScheme::Dpop => {
                challenge.with("algs", &self.dpop.algorithm_names().join(" ")).header()
            }
        }
    }

    /// Schemes to challenge with, the more common one first.
    fn schemes(&self, sent: Option<AuthScheme>) -> Vec<AuthScheme> {
        match (sent, self.dpop.is_required(), self.announces_dpop) {
            (Some(scheme), ..) => vec![scheme],
            (None, true, _) => vec![AuthScheme::Dpop],
            (None, false, true) => vec![AuthScheme::Bearer, AuthScheme::Dpop],
            (None, false, false) => vec![AuthScheme::Bearer],
        }
    }

    /// Returns the configuration errors.
    pub(crate) fn problems(&self) -> Vec<String> {
        let mut problems: Vec<String> = self.dpop.problem().into_iter().collect();
        for issuer in &self.issuers {
            if !is_issuer(issuer) {
                problems.push(format!(
                    "the issuer {issuer:?} must be an https URL without query and fragment, exactly as in the `iss` of tokens"
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

/// Returns true for a valid issuer URL: `https`, or `http` on loopback.
fn is_issuer(issuer: &str) -> bool {
    let Ok(url) = Url::parse(issuer) else { return false };
    let near = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"));
    let secure = url.scheme() == "https" || url.scheme() == "http" && near;
    let plain = url.query().is_none() && url.fragment().is_none();
    secure && plain && !issuer.bytes().any(|byte| byte.is_ascii_whitespace())
}
