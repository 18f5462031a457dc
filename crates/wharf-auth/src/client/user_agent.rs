//! User agent: opens the authorization page and receives the redirect.

use std::{fmt, sync::Arc};

use url::{Url, form_urlencoded};
use wharf_model::{BoxFuture, Error};

/// Opens authorization pages for the user.
pub trait UserAgent: Send + Sync + 'static {
    /// Prepares one authorization: the [redirect URI](UserAgentSession::redirect_uri) must be served from
    /// now on. `last` is the redirect URI of the previous authorization, which may be registered: reuse it
    /// if possible.
    fn prepare(&self, last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>>;
}

impl<V: UserAgent + ?Sized> UserAgent for Arc<V> {
    fn prepare(&self, last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        (**self).prepare(last)
    }
}

/// One authorization in a user agent.
pub trait UserAgentSession: Send {
    /// Redirect URI of the authorization request.
    fn redirect_uri(&self) -> &str;

    /// Opens the page and waits for the redirect. Must time out by itself, with an error that names what to
    /// do.
    fn visit(self: Box<Self>, to: AuthorizationRequest)
    -> BoxFuture<Result<RedirectParams, Error>>;
}

/// Authorization request, as the user agent opens it.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// URL to open: `https`, or `http` on loopback.
    pub url: Url,
    /// CSRF `state` of the request. A redirect with a different one may be rejected, and waiting continues.
    /// The library checks it again.
    pub state: String,
    /// Issuer, for display.
    pub issuer: String,
    /// URL of the server that access is for, for display.
    pub server: String,
}

/// Omits URL and state.
impl fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRequest")
            .field("issuer", &self.issuer)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// Parameters of the redirect, not validated yet.
///
/// ```
/// use wharf_auth::client::RedirectParams;
///
/// let callback = RedirectParams::from_query("code=7&state=abc");
/// assert_eq!(callback.get("code"), Some("7"));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct RedirectParams(Vec<(String, String)>);

impl RedirectParams {
    /// Parses the query of the redirect, with or without its `?`.
    #[must_use]
    pub fn from_query(query: &str) -> RedirectParams {
        let query = query.strip_prefix('?').unwrap_or(query);
        RedirectParams(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// Parses the query of the redirect's URL.
    #[must_use]
    pub fn from_url(url: &str) -> RedirectParams {
        let url = url.split('#').next().unwrap_or_default();
        RedirectParams::from_query(url.split_once('?').map_or("", |(_, query)| query))
    }

    /// Value of a parameter; none if it is missing or duplicated.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(it, _)| it == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    /// Returns true if the parameter is present.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|(it, _)| it == name)
    }
}

/// Shows names only: a code is a secret.
impl fmt::Debug for RedirectParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}
