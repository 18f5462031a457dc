//! Authenticators made from a function of the application.

use std::{fmt, sync::Arc};

use http::{HeaderMap, Method, Uri};
use wharf_model::{
    AuthDecision, AuthRejection, AuthRequest, AuthResult, Authenticated, Authenticator,
    RequestExtensions,
};

use crate::server::{
    builder_macros::{metadata_endpoints, metadata_setters},
    credentials::{AuthScheme, presented_token},
    resource_metadata::ResourceMetadata,
};

/// Head of a request: everything except its body.
#[derive(Clone)]
#[non_exhaustive]
pub struct RequestHead {
    /// The HTTP method.
    pub method: Method,
    /// The request target.
    pub uri: Uri,
    /// The headers. They may contain secrets.
    pub headers: HeaderMap,
    /// Request extensions, as set by middleware.
    pub scope: RequestExtensions,
}

impl RequestHead {
    /// The Bearer token in the `Authorization` header, if there is one.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        let request = AuthRequest::new(&self.method, &self.uri, &self.headers, &self.scope);
        let presented_token = presented_token(&request).ok().flatten();
        presented_token.filter(|it| it.scheme == AuthScheme::Bearer).map(|it| it.token)
    }
}

impl fmt::Debug for RequestHead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RequestHead").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Authenticator that calls a function. See [`from_fn`] and [`from_async_fn`].
#[must_use]
pub struct FnAuthenticator {
    metadata: ResourceMetadata,
    decide: Box<dyn Fn(&AuthRequest<'_>) -> AuthDecision + Send + Sync>,
}

/// Authenticates requests with a synchronous function.
///
/// ```
/// use wharf_auth::server::from_fn;
/// use wharf_model::{AuthRejection, AuthRequest, Principal};
///
/// // The application's middleware has authenticated the caller.
/// let authority = from_fn(|request: &AuthRequest<'_>| {
///     request.scope.get::<Principal>().cloned().ok_or(AuthRejection::new(401, "Log in first"))
/// });
/// # let _ = authority;
/// ```
pub fn from_fn<F, P>(decide: F) -> FnAuthenticator
where
    F: Fn(&AuthRequest<'_>) -> Result<P, AuthRejection> + Send + Sync + 'static,
    P: Into<Authenticated>,
{
    let decide =
        move |request: &AuthRequest<'_>| AuthDecision::Now(decide(request).map(Into::into));
    FnAuthenticator { metadata: ResourceMetadata::default(), decide: Box::new(decide) }
}

/// Authenticates requests with an async function.
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
    let decide = move |request: &AuthRequest<'_>| {
        let head = RequestHead {
            method: request.method.clone(),
            uri: request.uri.clone(),
            headers: request.headers.clone(),
            scope: request.scope.clone(),
        };
        let deciding = decide(head);
        AuthDecision::Later(Box::pin(async move { deciding.await.map(Into::into) }))
    };
    FnAuthenticator { metadata: ResourceMetadata::default(), decide: Box::new(decide) }
}

impl FnAuthenticator {
    metadata_setters!();

    /// Adds an authorization server to the published metadata. May be called several times.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.metadata.issuers.push(issuer.into());
        self
    }
}

/// Adds the default challenge to a 401 rejection without one: every 401 needs a challenge.
fn with_default_challenge(metadata: &ResourceMetadata, result: AuthResult) -> AuthResult {
    result.map_err(|denied| {
        if denied.status != 401 || denied.headers.contains_key(http::header::WWW_AUTHENTICATE) {
            return denied;
        }
        let usual = metadata.missing_token();
        let mut headers = usual.headers;
        headers.extend((*denied.headers).clone());
        let mut with = AuthRejection::new(denied.status, denied.message.clone());
        with.headers = headers;
        with
    })
}

impl Authenticator for FnAuthenticator {
    fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision {
        match (self.decide)(request) {
            AuthDecision::Now(result) => {
                AuthDecision::Now(with_default_challenge(&self.metadata, result))
            }
            AuthDecision::Later(result) => {
                let metadata = self.metadata.clone();
                AuthDecision::Later(Box::pin(async move {
                    with_default_challenge(&metadata, result.await)
                }))
            }
        }
    }

    metadata_endpoints!();

    fn problems(&self) -> Vec<String> {
        self.metadata.problems()
    }
}

impl fmt::Debug for FnAuthenticator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FnAuthenticator").finish_non_exhaustive()
    }
}
