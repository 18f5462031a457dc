//! How a person is sent to an authorization server, and comes back.

use std::{fmt, sync::Arc};

use url::{Url, form_urlencoded};
use wharf_model::{BoxFuture, Error};

/// Sends people to authorization servers.
pub trait UserAgent: Send + Sync + 'static {
    /// Gets ready for one visit: from now on, somebody may come back to the
    /// [redirect URI](Visitor::redirect_uri). `last` is the one of the last visit, which the
    /// authorization server may know: where it can be used again, it should be.
    fn prepare(&self, last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>>;
}

impl<V: UserAgent + ?Sized> UserAgent for Arc<V> {
    fn prepare(&self, last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        (**self).prepare(last)
    }
}

/// One visit that is about to happen.
pub trait UserAgentSession: Send {
    /// Where the authorization server is to send the person back to.
    fn redirect_uri(&self) -> &str;

    /// Sends the person there, and waits until they come back. It must give up by itself some day,
    /// and say what to do then.
    fn visit(self: Box<Self>, to: AuthorizationRequest)
    -> BoxFuture<Result<RedirectParams, Error>>;
}

/// Where a person is sent.
#[derive(Clone)]
#[non_exhaustive]
pub struct AuthorizationRequest {
    /// What to open: always `https`, or `http` on this machine.
    pub url: Url,
    /// The `state` that whoever comes back must bring. Others are not who was sent: they may be
    /// turned away, and waiting goes on. It is checked again by the library.
    pub state: String,
    /// Who asks the person, for display.
    pub issuer: String,
    /// What it is for, for display: the server's URL.
    pub server: String,
}

/// Shows neither the URL nor the state.
impl fmt::Debug for AuthorizationRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Destination")
            .field("issuer", &self.issuer)
            .field("server", &self.server)
            .finish_non_exhaustive()
    }
}

/// What somebody brought back: not checked yet.
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
    /// What the query of the redirect says, with or without its `?`.
    #[must_use]
    pub fn from_query(query: &str) -> RedirectParams {
        let query = query.strip_prefix('?').unwrap_or(query);
        RedirectParams(form_urlencoded::parse(query.as_bytes()).into_owned().collect())
    }

    /// What the query of a URL says that somebody was sent to.
    #[must_use]
    pub fn from_url(url: &str) -> RedirectParams {
        let url = url.split('#').next().unwrap_or_default();
        RedirectParams::from_query(url.split_once('?').map_or("", |(_, query)| query))
    }

    /// The value of a parameter; none if it is not there, or there more than once.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let mut found = self.0.iter().filter(|(it, _)| it == name);
        match (found.next(), found.next()) {
            (Some((_, value)), None) => Some(value),
            _ => None,
        }
    }

    /// Whether a parameter is there at all.
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
