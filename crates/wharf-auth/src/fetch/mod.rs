//! Requests to authorization servers, whose addresses other people chose: nothing that such an
//! address could be made to reach is reached by accident, and nothing that answers there is
//! waited for, read or followed without end.

mod address;
mod connect;
mod error;
mod request;
mod target_url;
mod tls;

use std::{fmt, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderValue, Method, Request,
    header::{ACCEPT, CONTENT_TYPE, HOST, USER_AGENT},
};
use http_body_util::Full;
use tokio::time::timeout;
use url::form_urlencoded;

pub use self::{
    address::{AddressClass, reach_of},
    error::FetchError,
};
use crate::fetch::{connect::Dialer, target_url::Place};
pub use crate::fetch::{connect::Resolve, request::Fetched};

/// The longest body of an answer, unless told otherwise.
const BODY: usize = 1 << 20;
/// How long a request may take in all, names and keys included, unless told otherwise.
const PATIENCE: Duration = Duration::from_secs(10);

/// Sends requests to URLs that cannot be trusted.
///
/// Only `https` is spoken, and `http` with this very machine. A name is looked up once: if any of
/// its addresses is not public (private, link-local, shared, or one of those in disguise), nothing
/// is sent, and otherwise the address that was looked at is the one that is dialled. This machine is
/// reached only if the URL says so literally (`localhost`, `127.0.0.1`, `[::1]`). Redirects are not
/// followed: they are answers. An answer is at most 1 MiB and takes at most 10 seconds.
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
    dialer: Dialer,
    limits: Limits,
}

/// What an answer may take.
#[derive(Clone, Copy, Debug)]
struct Limits {
    body: usize,
    patience: Duration,
}

impl Default for Fetch {
    fn default() -> Self {
        Fetch::new()
    }
}

impl Fetch {
    /// Reaches public addresses, and this machine where a URL names it.
    #[must_use]
    pub fn new() -> Fetch {
        let limits = Limits { body: BODY, patience: PATIENCE };
        Fetch { dialer: Dialer::default(), limits }
    }

    /// The same, but never this machine, whatever a URL says: for URLs that somebody else gave us.
    #[must_use]
    pub fn public_only(&self) -> Fetch {
        let mut fetch = self.clone();
        fetch.dialer.loopback = false;
        fetch
    }

    /// Reaches private addresses too, by names that have them: for an identity provider that only
    /// exists inside a company's network.
    #[must_use]
    pub fn allow_private(mut self) -> Fetch {
        self.dialer.private = true;
        self
    }

    /// Whether private addresses are reached.
    #[cfg(feature = "client")]
    pub(crate) fn allows_private(&self) -> bool {
        self.dialer.private
    }

    /// Trusts the certificates in `pem` as well as the system's.
    ///
    /// # Errors
    /// If there is no certificate in it.
    pub fn trust_pem(mut self, pem: &str) -> Result<Fetch, FetchError> {
        self.dialer.trust_too(pem)?;
        Ok(self)
    }

    /// Shows the certificate in `certificates` to the server at `origin`, if it asks for one, with its
    /// private key. Nobody else gets to see it, whatever a URL or anybody's metadata says: if an
    /// authorization server has a host of its own for certificates (RFC 8705), name that one too.
    ///
    /// # Errors
    /// If either is missing, or the origin is none of `https`.
    pub fn identity_pem(
        mut self,
        origin: &str,
        certificates: &str,
        key: &str,
    ) -> Result<Fetch, FetchError> {
        let place = Place::parse(origin)?;
        if !place.encrypted {
            let problem = format!("{place} gets no certificate: it must begin with https://");
            return Err(FetchError::Url(problem));
        }
        self.dialer.identify(place.origin(), certificates, key)?;
        Ok(self)
    }

    /// Looks names up with `resolver` instead of the system's.
    #[must_use]
    pub fn resolver(mut self, resolver: impl Resolve) -> Fetch {
        self.dialer.resolver = Arc::new(resolver);
        self
    }

    /// How long a request may take in all: 10 seconds if nothing is said.
    #[must_use]
    pub fn patience(mut self, patience: Duration) -> Fetch {
        self.limits.patience = patience;
        self
    }

    /// How long the body of an answer may be: 1 MiB if nothing is said.
    #[must_use]
    pub fn limit(mut self, bytes: usize) -> Fetch {
        self.limits.body = bytes;
        self
    }

    /// Gets `url`.
    ///
    /// # Errors
    /// If the URL may not be reached, or nobody answers there within the limits. Every status is an
    /// answer.
    pub async fn get(&self, url: &str, headers: HeaderMap) -> Result<Fetched, FetchError> {
        self.send(Method::GET, url, headers, Bytes::new()).await
    }

    /// Posts `body` to `url`. Its type is for `headers` to say.
    ///
    /// # Errors
    /// See [`Fetch::get`].
    pub async fn post(
        &self,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, FetchError> {
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
    ) -> Result<Fetched, FetchError> {
        let kind = HeaderValue::from_static("application/x-www-form-urlencoded");
        headers.insert(CONTENT_TYPE, kind);
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        self.send(Method::POST, url, headers, form.into()).await
    }

    /// Whether `url` would be reached: for pages that somebody else opens.
    #[cfg(feature = "client")]
    pub(crate) async fn vet(&self, url: &str) -> Result<(), FetchError> {
        let place = Place::parse(url)?;
        let patience = self.limits.patience;
        match timeout(patience, self.dialer.addresses(&place)).await {
            Ok(found) => found.map(drop),
            Err(_) => Err(FetchError::TimedOut(format!("{place} took longer than {patience:?}"))),
        }
    }

    async fn send(
        &self,
        method: Method,
        url: &str,
        headers: HeaderMap,
        body: Bytes,
    ) -> Result<Fetched, FetchError> {
        let place = Place::parse(url)?;
        let patience = self.limits.patience;
        let late = || FetchError::TimedOut(format!("{place} took longer than {patience:?}"));
        let exchange = self.exchange(&place, request(method, &place, headers, body)?);
        timeout(patience, exchange).await.unwrap_or_else(|_| Err(late()))
    }

    async fn exchange(
        &self,
        place: &Place,
        request: Request<Full<Bytes>>,
    ) -> Result<Fetched, FetchError> {
        let stream = self.dialer.dial(place).await?;
        request::exchange(place, stream, request, self.limits.body).await
    }
}

/// Whether a URL names this machine.
#[cfg(feature = "server")]
pub(crate) fn is_this_machine(url: &str) -> bool {
    Place::parse(url).is_ok_and(|place| place.host.is_this_machine())
}

fn request(
    method: Method,
    place: &Place,
    mut headers: HeaderMap,
    body: Bytes,
) -> Result<Request<Full<Bytes>>, FetchError> {
    let bad = |what: &dyn fmt::Display| FetchError::Url(format!("{place} cannot be sent: {what}"));
    let host = HeaderValue::from_str(&place.authority()).map_err(|error| bad(&error))?;
    headers.insert(HOST, host);
    let agent = HeaderValue::from_static(concat!("wharf/", env!("CARGO_PKG_VERSION")));
    headers.entry(USER_AGENT).or_insert(agent);
    headers.entry(ACCEPT).or_insert(HeaderValue::from_static("application/json"));
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    *request.uri_mut() = place.target().parse().map_err(|error| bad(&error))?;
    *request.headers_mut() = headers;
    Ok(request)
}
