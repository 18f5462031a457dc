//! Whatever an application knows by itself.

use std::{fmt, sync::Arc};

use http::{HeaderMap, Method, Uri};
use wharf_model::{
    AuthDecision, AuthRejection, AuthRequest, AuthResult, Authenticated, Authenticator,
    RequestExtensions,
};

use crate::server::{
    builder_macros::{pages, published},
    credentials::{Scheme, presented},
    resource_metadata::Front,
};

/// A request that wants to come in: all of it but its body.
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestHead {
    /// The verb.
    pub method: Method,
    /// What is asked for, as it stood in the request.
    pub uri: Uri,
    /// The headers. They may hold secrets.
    pub headers: HeaderMap,
    /// What outer layers put there.
    pub scope: RequestExtensions,
}

impl RequestHead {
    /// The token in the `Authorization` header, if it is a Bearer's.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        let knock = AuthRequest::new(&self.method, &self.uri, &self.headers, &self.scope);
        let presented = presented(&knock).ok().flatten();
        presented.filter(|it| it.scheme == Scheme::Bearer).map(|it| it.token)
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Lets a function decide who comes in. See [`by`] and [`from_async_fn`].
#[must_use]
pub struct FnAuthenticator {
    front: Front,
    decide: Box<dyn Fn(&AuthRequest<'_>) -> AuthDecision + Send + Sync>,
}

/// Lets in whomever a function lets in, which decides at once.
///
/// ```
/// use wharf_auth::server::by;
/// use wharf_model::{AuthRejection, AuthRequest, Principal};
///
/// // Some middleware of the application's has found out who it is.
/// let authority = by(|knock: &AuthRequest<'_>| {
///     knock.scope.get::<Principal>().cloned().ok_or(AuthRejection::new(401, "Log in first"))
/// });
/// # let _ = authority;
/// ```
pub fn by<F, P>(decide: F) -> FnAuthenticator
where
    F: Fn(&AuthRequest<'_>) -> Result<P, AuthRejection> + Send + Sync + 'static,
    P: Into<Authenticated>,
{
    let decide = move |knock: &AuthRequest<'_>| AuthDecision::Now(decide(knock).map(Into::into));
    FnAuthenticator { front: Front::default(), decide: Box::new(decide) }
}

/// Lets in whomever an async function lets in.
///
/// ```
/// use wharf_auth::server::{RequestHead, from_async_fn};
/// use wharf_model::{AuthRejection, Principal};
///
/// async fn look_up(token: &str) -> Option<Principal> {
///     (token == "for-alice").then(|| Principal::new("alice"))
/// }
///
/// let authority = from_async_fn(async |head: RequestHead| {
///     let token = head.bearer().ok_or(AuthRejection::new(401, "Send a token"))?;
///     look_up(token).await.ok_or(AuthRejection::new(401, "The token is unknown"))
/// });
/// # let _ = authority;
/// ```
pub fn from_async_fn<F, Fut, P>(decide: F) -> FnAuthenticator
where
    F: Fn(RequestHead) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<P, AuthRejection>> + Send + 'static,
    P: Into<Authenticated>,
{
    let decide = Arc::new(decide);
    let decide = move |knock: &AuthRequest<'_>| {
        let head = RequestHead {
            method: knock.method.clone(),
            uri: knock.uri.clone(),
            headers: knock.headers.clone(),
            scope: knock.scope.clone(),
        };
        let deciding = decide(head);
        AuthDecision::Later(Box::pin(async move { deciding.await.map(Into::into) }))
    };
    FnAuthenticator { front: Front::default(), decide: Box::new(decide) }
}

impl FnAuthenticator {
    published!();

    /// Whom clients ask for tokens. May be called several times.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.front.issuers.push(issuer.into());
        self
    }
}

/// A refusal without a challenge gets the usual one: every 401 has one.
fn challenged(front: &Front, verdict: AuthResult) -> AuthResult {
    verdict.map_err(|denied| {
        if denied.status != 401 || denied.headers.contains_key(http::header::WWW_AUTHENTICATE) {
            return denied;
        }
        let usual = front.nobody();
        let mut headers = usual.headers;
        headers.extend((*denied.headers).clone());
        let mut with = AuthRejection::new(denied.status, denied.message.clone());
        with.headers = headers;
        with
    })
}

impl Authenticator for FnAuthenticator {
    fn admit(&self, knock: &AuthRequest<'_>) -> AuthDecision {
        match (self.decide)(knock) {
            AuthDecision::Now(verdict) => AuthDecision::Now(challenged(&self.front, verdict)),
            AuthDecision::Later(verdict) => {
                let front = self.front.clone();
                AuthDecision::Later(Box::pin(async move { challenged(&front, verdict.await) }))
            }
        }
    }

    pages!();

    fn problems(&self) -> Vec<String> {
        self.front.problems()
    }
}

impl fmt::Debug for FnAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("By").finish_non_exhaustive()
    }
}
