//! URLs and metadata documents of the proxy (RFC 8414, RFC 9728).

use bytes::Bytes;
use http::{HeaderValue, Method, Response, StatusCode, header, request::Parts};
use serde_json::{Value, json};
use url::Url;

use crate::proxy::{ProxySettings, consent_page::ProxyResponse, redirect_uri};

const RESOURCE: &str = "/.well-known/oauth-protected-resource";
const SERVER: &str = "/.well-known/oauth-authorization-server";
/// Endpoints below the public URL.
const PATHS: [&str; 6] = ["/authorize", "/consent", "/callback", "/register", "/token", "/revoke"];

/// Public URLs of the proxy.
#[derive(Clone, Debug)]
pub(super) struct ProxyUrls {
    /// Public URL and issuer, without trailing slash.
    pub(super) issuer: String,
    /// Resource identifier of the tokens.
    pub(super) resource: String,
    /// Origin: scheme, host and port.
    pub(super) origin: String,
    /// Path of the public URL; empty for none.
    base: String,
    /// Path of the endpoint; empty for none.
    endpoint: String,
}

impl ProxyUrls {
    /// Parses both URLs; returns the reason if they are invalid.
    pub(super) fn new(public_response: &str, resource: &str) -> Result<Self, String> {
        let (issuer, issuer_url) = parse("the public URL", public_response)?;
        let (resource, resource_url) = parse("the resource", resource)?;
        if issuer_url.origin() != resource_url.origin() {
            return Err(format!("the resource {resource} is not at the public URL {issuer}"));
        }
        let path = |url: &Url| url.path().trim_end_matches('/').to_owned();
        Ok(ProxyUrls {
            origin: issuer_url.origin().ascii_serialization(),
            base: path(&issuer_url),
            endpoint: path(&resource_url),
            issuer,
            resource,
        })
    }

    pub(super) fn is_secure(&self) -> bool {
        self.issuer.starts_with("https:")
    }

    /// Absolute URL of an endpoint.
    pub(super) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.issuer)
    }

    /// Path of an endpoint, for forms.
    pub(super) fn local(&self, path: &str) -> String {
        format!("{}{path}", self.base)
    }

    /// URL of the protected resource metadata.
    pub(super) fn resource_metadata(&self) -> String {
        format!("{}{RESOURCE}{}", self.origin, self.endpoint)
    }

    /// All paths that are served.
    pub(super) fn paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = PATHS.iter().map(|path| self.local(path)).collect();
        paths.push(format!("{SERVER}{}", self.base));
        paths.push(format!("{RESOURCE}{}", self.endpoint));
        if !self.endpoint.is_empty() {
            // For clients that look at the root only.
            paths.push(RESOURCE.to_owned());
        }
        paths
    }

    /// Returns the endpoint with this path; none for metadata documents.
    pub(super) fn path(&self, path: &str) -> Option<&'static str> {
        let path = path.strip_prefix(&*self.base)?;
        PATHS.into_iter().find(|own| *own == path)
    }

    /// Returns true if a `resource` parameter names this server.
    pub(super) fn is_resource(&self, asked: &str) -> bool {
        asked == self.resource || asked.strip_suffix('/') == Some(&*self.resource)
    }

    /// Serves the metadata documents.
    pub(super) fn metadata(
        &self,
        parts: &Parts,
        settings: &ProxySettings,
        documents: bool,
    ) -> ProxyResponse {
        let path = parts.uri.path();
        let value = match path.strip_prefix(SERVER) {
            Some(rest) if rest == self.base => self.server_document(settings, documents),
            None if path == RESOURCE || path.strip_prefix(RESOURCE) == Some(&*self.endpoint) => {
                self.resource_document(settings)
            }
            _ => return public_response(StatusCode::NOT_FOUND, Bytes::new()),
        };
        match parts.method {
            Method::GET | Method::HEAD => public_response(StatusCode::OK, value.to_string().into()),
            Method::OPTIONS => public_response(StatusCode::NO_CONTENT, Bytes::new()),
            _ => {
                let mut answer = public_response(StatusCode::METHOD_NOT_ALLOWED, Bytes::new());
                answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
                answer
            }
        }
    }

    /// Protected resource metadata (RFC 9728).
    fn resource_document(&self, settings: &ProxySettings) -> Value {
        let mut document = json!({
            "resource": self.resource,
            "authorization_servers": [self.issuer],
            "bearer_methods_supported": ["header"],
        });
        if !settings.scopes.is_empty() {
            document["scopes_supported"] = json!(settings.first_scopes());
        }
        document
    }

    /// Authorization server metadata (RFC 8414).
    fn server_document(&self, settings: &ProxySettings, documents: bool) -> Value {
        let mut document = json!({
            "issuer": self.issuer,
            "authorization_endpoint": self.url("/authorize"),
            "token_endpoint": self.url("/token"),
            "registration_endpoint": self.url("/register"),
            "revocation_endpoint": self.url("/revoke"),
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token"],
            "token_endpoint_auth_methods_supported":
                ["none", "client_secret_basic", "client_secret_post"],
            "revocation_endpoint_auth_methods_supported":
                ["none", "client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": true,
            "client_id_metadata_document_supported": documents,
        });
        if !settings.scopes.is_empty() {
            document["scopes_supported"] = json!(settings.scopes);
        }
        document
    }
}

/// Parses a URL as an identifier, without trailing slash.
fn parse(what: &str, text: &str) -> Result<(String, Url), String> {
    let text = text.strip_suffix('/').unwrap_or(text);
    let url = Url::parse(text).map_err(|error| format!("{what} {text:?}: {error}"))?;
    let local = url.scheme() == "http" && redirect_uri::is_local(text);
    if url.scheme() != "https" && !local {
        return Err(format!("{what} {text:?} must be https (or http on loopback)"));
    }
    if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() {
        return Err(format!("{what} {text:?} must consist of scheme, host and path only"));
    }
    if url.as_str().trim_end_matches('/') != text {
        let normal = url.as_str().trim_end_matches('/');
        return Err(format!("{what} {text:?} is not in its normal form: write {normal:?}"));
    }
    Ok((text.to_owned(), url))
}

/// Response that all origins may read (CORS).
fn public_response(status: StatusCode, body: Bytes) -> ProxyResponse {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    let pairs = [
        (header::CONTENT_TYPE, "application/json"),
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "*"),
        (header::CACHE_CONTROL, "public, max-age=300"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    ];
    for (name, value) in pairs {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}
