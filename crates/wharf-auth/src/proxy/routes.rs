//! Routes of the proxy's endpoints, and its shared state.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, StatusCode, header, request::Parts};
use wharf_model::{Error, NonceStore, Rate, RateStore, StateCipher, Stores};

use crate::proxy::{
    ProxySettings, client_id_documents::ClientDocuments, consent_page, consent_page::ProxyResponse,
    cookie::BrowserCookies, form::FormParams, idp::IdpClient, metadata::ProxyUrls,
    store::EncryptedStore,
};

/// Rate limits of one address: registrations, and pages.
const REGISTRATION_RATE: Rate = Rate { per_second: 1.0, burst: 60.0 };
const PAGE_RATE: Rate = Rate { per_second: 10.0, burst: 200.0 };

/// Shared state of the endpoints.
pub(super) struct ProxyState {
    pub(super) urls: ProxyUrls,
    pub(super) settings: ProxySettings,
    pub(super) idp: IdpClient,
    pub(super) store: EncryptedStore,
    pub(super) seal: Arc<dyn StateCipher>,
    pub(super) nonces: Arc<dyn NonceStore>,
    pub(super) rates: Arc<dyn RateStore>,
    /// None if client ID metadata documents are disabled.
    pub(super) documents: Option<ClientDocuments>,
    pub(super) cookies: BrowserCookies,
}

/// Format of an error response: for users or for clients.
#[derive(Clone, Copy)]
enum ErrorFormat {
    Html,
    Json,
}

impl ProxyState {
    pub(super) fn new(
        urls: ProxyUrls,
        settings: ProxySettings,
        stores: &Stores,
        seal: Arc<dyn StateCipher>,
    ) -> Self {
        let (provider, fetch) = (settings.provider.clone(), settings.fetch.clone());
        ProxyState {
            idp: IdpClient::new(provider, fetch, urls.url("/callback")),
            store: EncryptedStore::new(stores.grants.clone(), seal.clone()),
            nonces: stores.nonces.clone(),
            rates: stores.rates.clone(),
            documents: settings.documents.clone().map(ClientDocuments::new),
            cookies: BrowserCookies { secure: urls.is_secure() },
            seal,
            urls,
            settings,
        }
    }

    /// Serves a request to one of the proxy's paths.
    pub(super) async fn serve(self: Arc<Self>, request: Request<Bytes>) -> ProxyResponse {
        let (parts, body) = request.into_parts();
        let Some(path) = self.urls.path(parts.uri.path()) else {
            return self.urls.metadata(&parts, &self.settings, self.documents.is_some());
        };
        let (verb, format) = match path {
            "/authorize" | "/callback" => (Method::GET, ErrorFormat::Html),
            "/consent" => (Method::POST, ErrorFormat::Html),
            _ => (Method::POST, ErrorFormat::Json),
        };
        let is_for_programs = matches!(format, ErrorFormat::Json);
        if is_for_programs && parts.method == Method::OPTIONS {
            return with_cors(consent_page::json(StatusCode::OK, &serde_json::json!({})));
        }
        if parts.method != verb {
            return not_allowed(&verb);
        }
        if self.is_over_limit(path, &parts).await {
            return error_response(format, &Error::overloaded(Duration::from_secs(5)));
        }
        let answered = match path {
            "/authorize" => self.authorize(&parts).await,
            "/consent" => self.consent(&parts, &body).await,
            "/callback" => self.callback(&parts).await,
            "/register" => self.register(&body).await,
            "/token" => self.token(&parts, &body).await,
            _ => self.revoke(&parts, &body).await,
        };
        let answer = answered.unwrap_or_else(|error| {
            tracing::debug!(%error, path, "cannot access the store of the OAuth proxy");
            error_response(format, &error)
        });
        if is_for_programs { with_cors(answer) } else { answer }
    }

    /// Returns true if an address exceeds its rate limit. Token requests are exempt: tokens cannot be
    /// guessed.
    async fn is_over_limit(&self, path: &str, parts: &Parts) -> bool {
        let rate = match path {
            "/register" => REGISTRATION_RATE,
            "/token" | "/revoke" => return false,
            _ => PAGE_RATE,
        };
        let Some(address) = address(parts) else { return false };
        let kind = if path == "/register" { "register" } else { "visit" };
        self.rates.take(&format!("oauth {kind} {address}"), rate).taken().await.is_err()
    }
}

impl fmt::Debug for ProxyState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyState").field("site", &self.urls).finish_non_exhaustive()
    }
}

/// Address of a request, if it distinguishes clients. Behind a reverse proxy on this machine all requests
/// come from loopback. IPv6 addresses are grouped by /64 network.
pub(super) fn address(parts: &Parts) -> Option<String> {
    let address = parts.extensions.get::<SocketAddr>()?.ip().to_canonical();
    match address {
        _ if address.is_loopback() => None,
        IpAddr::V4(address) => Some(address.to_string()),
        IpAddr::V6(address) => {
            let network = address.to_bits() & !u128::from(u64::MAX);
            Some(format!("{}/64", Ipv6Addr::from_bits(network)))
        }
    }
}

/// Parses the form in a body; returns the reason if that fails.
pub(super) fn form(parts: &Parts, body: &Bytes) -> Result<FormParams, &'static str> {
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.and_then(|it| it.split(';').next()).unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err("the body must be application/x-www-form-urlencoded");
    }
    FormParams::parse(body)
}

fn error_response(format: ErrorFormat, error: &Error) -> ProxyResponse {
    let too_much = error.kind.is_overloaded() || error.kind.is_rate_limited();
    let what = match too_much {
        true => "Too many requests. Please try again in a moment.",
        false => "The service is unavailable at the moment. Please try again later.",
    };
    let status = match too_much {
        true => StatusCode::TOO_MANY_REQUESTS,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut answer = match format {
        ErrorFormat::Html => consent_page::error_page(status, what, None),
        ErrorFormat::Json => consent_page::oauth_error(status, "temporarily_unavailable", what),
    };
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}

/// Allows web clients to read the response (CORS). That is safe, because these endpoints use no cookies;
/// the server's `Origin` check has passed before.
fn with_cors(mut answer: ProxyResponse) -> ProxyResponse {
    let pairs = [
        (header::ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (header::ACCESS_CONTROL_ALLOW_METHODS, "POST"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type, mcp-protocol-version"),
    ];
    for (name, value) in pairs {
        answer.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    answer
}

fn not_allowed(verb: &Method) -> ProxyResponse {
    let what = format!("Use {verb} here.");
    let mut answer = consent_page::error_page(StatusCode::METHOD_NOT_ALLOWED, &what, None);
    if let Ok(allow) = HeaderValue::from_str(verb.as_str()) {
        answer.headers_mut().insert(header::ALLOW, allow);
    }
    answer
}
