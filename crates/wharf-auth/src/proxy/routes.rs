//! Where all requests of the proxy's own arrive.

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
    Settings, clients::Documents, consent_page, consent_page::Answer, cookie::Cookies, form::Form,
    idp::Idp, metadata::Site, store::Shelf,
};

/// How long a registration is kept after its last use.
pub(super) const YEAR_QUARTER: Duration = Duration::from_secs(90 * 24 * 3600);

/// How often one address may register clients, and look at pages.
const REGISTRATIONS: Rate = Rate { per_second: 1.0, burst: 60.0 };
const VISITS: Rate = Rate { per_second: 10.0, burst: 200.0 };

/// All that serving a request needs.
pub(super) struct Desk {
    pub(super) site: Site,
    pub(super) settings: Settings,
    pub(super) idp: Idp,
    pub(super) shelf: Shelf,
    pub(super) seal: Arc<dyn StateCipher>,
    pub(super) nonces: Arc<dyn NonceStore>,
    pub(super) rates: Arc<dyn RateStore>,
    /// None if clients cannot publish who they are.
    pub(super) documents: Option<Documents>,
    pub(super) cookies: Cookies,
}

/// Who sees what went wrong.
#[derive(Clone, Copy)]
enum Reader {
    Person,
    Program,
}

impl Desk {
    pub(super) fn new(
        site: Site,
        settings: Settings,
        stores: &Stores,
        seal: Arc<dyn StateCipher>,
    ) -> Self {
        let (provider, fetch) = (settings.provider.clone(), settings.fetch.clone());
        Desk {
            idp: Idp::new(provider, fetch, site.url("/callback")),
            shelf: Shelf::new(stores.grants.clone(), seal.clone()),
            nonces: stores.nonces.clone(),
            rates: stores.rates.clone(),
            documents: settings.documents.clone().map(Documents::new),
            cookies: Cookies { secure: site.is_secure() },
            seal,
            site,
            settings,
        }
    }

    /// Answers a request to one of the proxy's paths.
    pub(super) async fn serve(self: Arc<Self>, request: Request<Bytes>) -> Answer {
        let (parts, body) = request.into_parts();
        let Some(path) = self.site.path(parts.uri.path()) else {
            return self.site.metadata(&parts, &self.settings, self.documents.is_some());
        };
        let (verb, reader) = match path {
            "/authorize" | "/callback" => (Method::GET, Reader::Person),
            "/consent" => (Method::POST, Reader::Person),
            _ => (Method::POST, Reader::Program),
        };
        let is_for_programs = matches!(reader, Reader::Program);
        if is_for_programs && parts.method == Method::OPTIONS {
            return for_pages(consent_page::json(StatusCode::OK, &serde_json::json!({})));
        }
        if parts.method != verb {
            return not_allowed(&verb);
        }
        if self.is_too_much(path, &parts).await {
            return failed(reader, &Error::overloaded(Duration::from_secs(5)));
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
            tracing::warn!(%error, path, "the OAuth proxy cannot reach what it keeps");
            failed(reader, &error)
        });
        if is_for_programs { for_pages(answer) } else { answer }
    }

    /// Whether an address asks too often. Tokens cannot be guessed, so who asks for them may go on.
    async fn is_too_much(&self, path: &str, parts: &Parts) -> bool {
        let rate = match path {
            "/register" => REGISTRATIONS,
            "/token" | "/revoke" => return false,
            _ => VISITS,
        };
        let Some(address) = address(parts) else { return false };
        let kind = if path == "/register" { "register" } else { "visit" };
        self.rates.take(&format!("oauth {kind} {address}"), rate).taken().await.is_err()
    }
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("site", &self.site).finish_non_exhaustive()
    }
}

/// Where a request comes from, if that tells people apart. Behind a reverse proxy on this machine all come from there,
/// and whoever has one IPv6 address has all those that begin alike.
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

/// The form in a body; if there is none, why.
pub(super) fn form(parts: &Parts, body: &Bytes) -> Result<Form, &'static str> {
    let kind = parts.headers.get(header::CONTENT_TYPE).and_then(|it| it.to_str().ok());
    let kind = kind.and_then(|it| it.split(';').next()).unwrap_or_default().trim();
    if !kind.eq_ignore_ascii_case("application/x-www-form-urlencoded") {
        return Err("the body must be application/x-www-form-urlencoded");
    }
    Form::parse(body)
}

fn failed(reader: Reader, error: &Error) -> Answer {
    let too_much = error.kind.is_overloaded() || error.kind.is_rate_limited();
    let what = match too_much {
        true => "Too much is going on here. Please try again in a moment.",
        false => "This does not work at the moment. Please try again later.",
    };
    let status = match too_much {
        true => StatusCode::TOO_MANY_REQUESTS,
        false => StatusCode::SERVICE_UNAVAILABLE,
    };
    let mut answer = match reader {
        Reader::Person => consent_page::problem(status, what, None),
        Reader::Program => consent_page::oauth_error(status, "temporarily_unavailable", what),
    };
    answer.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from_static("5"));
    answer
}

/// Lets clients read the answer that are web pages. No cookie counts there, so nobody is harmed; whose
/// pages may ask was decided before.
fn for_pages(mut answer: Answer) -> Answer {
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

fn not_allowed(verb: &Method) -> Answer {
    let what = format!("Use {verb} here.");
    let mut answer = consent_page::problem(StatusCode::METHOD_NOT_ALLOWED, &what, None);
    if let Ok(allow) = HeaderValue::from_str(verb.as_str()) {
        answer.headers_mut().insert(header::ALLOW, allow);
    }
    answer
}
