//! HTTP requests to URLs that a remote party chose, with protection against SSRF: private addresses are
//! rejected, and time, size and redirects are bounded.

mod allowed_addresses;
mod error;
mod request;
mod target_url;

use std::{fmt, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request,
    header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::Full;
use tokio::time::timeout;
use url::form_urlencoded;
pub use wharf_connect::{AddressClass, Resolve, address_class};
use wharf_connect::{HostConnector, ProxySettings, TlsIdentity};

use crate::fetch::target_url::TargetUrl;
pub use crate::fetch::{error::FetchError, request::FetchResponse};

/// Default limit of a response body, in bytes.
const MAX_BODY_BYTES: usize = 1 << 20;
/// Default time limit of a request, including DNS lookup and TLS handshake.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// HTTP client for URLs that cannot be trusted (SSRF protection).
///
/// Only `https` is allowed, and `http` to loopback. A name is resolved once. If any of its addresses is not
/// public (private, link-local, shared, or an encoding of one of these), nothing is sent; otherwise the
/// connection goes to the checked address, which prevents DNS rebinding. Loopback is allowed only if the
/// URL names it literally (`localhost`, `127.0.0.1`, `[::1]`). Redirects are not followed but returned as
/// responses. A response is limited to 1 MiB and 10 seconds.
///
/// The proxies of the environment are used (`HTTPS_PROXY`, `NO_PROXY`). A proxy gets the checked address and no
/// name, so it does not weaken the protection.
///
/// ```no_run
/// # async fn look() -> Result<(), wharf_auth::fetch::FetchError> {
/// use http::HeaderMap;
/// use wharf_auth::fetch::Fetch;
///
/// let answer = Fetch::new().get("https://id.example/jwks.json", HeaderMap::new()).await?;
/// let keys: serde_json::Value = answer.json()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Fetch {
    connector: HostConnector,
    limits: FetchLimits,
}

/// Limits of one request.
#[derive(Clone, Copy, Debug)]
struct FetchLimits {
    body: usize,
    timeout: Duration,
}

impl Default for Fetch {
    fn default() -> Self {
        Fetch::new()
    }
}

impl Fetch {
    /// Allows public addresses, and loopback where a URL names it.
    #[must_use]
    pub fn new() -> Fetch {
        let limits = FetchLimits { body: MAX_BODY_BYTES, timeout: DEFAULT_TIMEOUT };
        let connector = HostConnector::new()
            .addresses(allowed_addresses::default_policy())
            .protocols(&[b"http/1.1"])
            .timeout(limits.timeout);
        Fetch { connector, limits }
    }

    /// Trusts the certificates in `pem` in addition to the system's.
    ///
    /// # Errors
    /// If `pem` contains no certificate, or an invalid one.
    pub fn trust_pem(mut self, pem: &str) -> Result<Fetch, FetchError> {
        self.connector = self.connector.trust_pem(pem)?;
        Ok(self)
    }

    /// Presents a client certificate to the server at `origin`, if it requests one (mutual TLS). No other
    /// server receives it, whatever a URL or metadata names. If an authorization server has a separate host
    /// for mutual TLS (RFC 8705), add that origin too.
    ///
    /// # Errors
    /// If a certificate or key is missing, or the origin is not `https`.
    pub fn identity_pem(
        mut self,
        origin: &str,
        certificates: &str,
        key: &str,
    ) -> Result<Fetch, FetchError> {
        let target = TargetUrl::parse(origin)?;
        if !target.origin.is_encrypted() {
            let problem =
                format!("{target} cannot get a client certificate: it must begin with https://");
            return Err(FetchError::url(problem));
        }
        let identity = TlsIdentity::from_pem(certificates, key)?;
        self.connector = self.connector.identity(&target.origin, identity);
        Ok(self)
    }

    /// Sends requests through the HTTP proxy at `url`, except those to loopback, instead of the proxies of the
    /// environment: `http://[USER:PASSWORD@]HOST:PORT`.
    ///
    /// # Errors
    /// If the URL is not that of an HTTP proxy.
    pub fn proxy(mut self, url: &str) -> Result<Fetch, FetchError> {
        self.connector = self.connector.proxy(ProxySettings::url(url)?);
        Ok(self)
    }

    /// Uses no proxy, whatever the environment names.
    #[must_use]
    pub fn no_proxy(mut self) -> Fetch {
        self.connector = self.connector.proxy(ProxySettings::none());
        self
    }

    /// Resolves names with `resolver` instead of the system's resolver.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve) -> Fetch {
        self.connector = self.connector.resolver(resolver);
        self
    }

    /// Sets the time limit of a request: 10 seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Fetch {
        self.limits.timeout = timeout;
        self.connector = self.connector.timeout(timeout);
        self
    }

    /// Sets the limit of a response body: 1 MiB by default.
    #[must_use]
    pub fn limit(mut self, bytes: usize) -> Fetch {
        self.limits.body = bytes;
        self
    }

    /// Sends a GET request to `url`.
    ///
    /// # Errors
    /// If the address is not allowed, or no response arrives within the limits. Every HTTP status is a
    /// response.
    pub async fn get(&self, url: &str, headers: HeaderMap) -> Result<FetchResponse, FetchError> {
        self.send(Method::GET, url, headers, Bytes::new()).await
    }

    /// Posts `body` to `url`. Set its `Content-Type` in `headers`.
    ///
    /// # Errors
    /// See [`Fetch::get`].
    pub async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<FetchResponse, FetchError> {
        self.send(Method::POST, url, headers, body).await
    }

    /// Posts a form to `url`.
    ///
    /// # Errors
    /// See [`Fetch::get`].
    pub async fn post_form(
        &self,
        url: &str,
        mut headers: HeaderMap,
        fields: &[(&str, &str)],
    ) -> Result<FetchResponse, FetchError> {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, kind);
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send(Method::POST, url, headers, form.into()).await
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<FetchResponse, FetchError> {
        let target = TargetUrl::parse(url)?;
        let limit = self.limits.timeout;
        let late = || FetchError::TimedOut {
            message: format!("the request to {target} timed out after {limit:?}"),
        };
        let exchange = self.exchange(&target, request(method, &target, headers, body)?);
        timeout(limit, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(
        &self,
        target: &TargetUrl,
        request: Request<Full<Bytes>>,
    ) -> Result<FetchResponse, FetchError> {
        let stream = self.connector.connect(&target.origin).await?;
        request::exchange(target, stream, request, self.limits.body).await
    }
}

/// Returns true if a URL names a loopback host.
#[cfg(feature = "server")]
pub(crate) fn is_loopback(url: &str) -> bool {
    TargetUrl::parse(url).is_ok_and(|target| target.origin.is_loopback())
}

fn request(
    method: Method,
    target: &TargetUrl,
    mut headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, FetchError> {
    let bad = |what: &dyn fmt::Display| {
        FetchError::url(format!("cannot build the request to {target}: {what}"))
    };
    let host = HeaderValue::from_str(&target.authority()).map_err(|error| bad(&error))?;
    headers.insert(HOST, host);
    let agent = HeaderValue::from_static(concat!("wharf/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(agent);
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = target.path_and_query().parse().map_err(|error| bad(&error))?;
    *request.headers_mut() = headers;
    Ok(request)
}
