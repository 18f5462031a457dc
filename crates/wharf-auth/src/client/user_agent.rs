//! User agent: opens the authorization page and receives the redirect.

use std::{fmt, sync::Arc};

use url::Url;
use wharf_model::{BoxFuture, Error};

use crate::client::redirect_params::RedirectParams;

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
