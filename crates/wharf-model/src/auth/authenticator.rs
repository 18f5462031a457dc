//! HTTP authentication trait of servers, its request and its result.

use std::{borrow::Cow, fmt, sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};

use crate::{BoxFuture, Error, Principal, RequestExtensions, StateCipher, Stores};

/// Authenticates HTTP requests, before anything else of them is read.
///
/// It is called for each message, each stream, each WebSocket and the end of each session. A result is never
/// reused for another request.
///
/// ```
/// # mod wharf { pub use wharf_model::*; pub mod auth { pub use super::*; } }
/// use wharf::Principal;
/// use wharf::auth::{AuthDecision, AuthRejection, AuthRequest, Authenticated, Authenticator};
///
/// struct Badge;
///
/// impl Authenticator for Badge {
///     fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision {
///         AuthDecision::Now(match request.headers.get("x-badge") {
///             Some(badge) if badge == "alice's" => Ok(Authenticated::new(Principal::new("alice"))),
///             _ => Err(AuthRejection::new(401, "Show your badge")),
///         })
///     }
/// }
/// ```
pub trait Authenticator: Send + Sync + 'static {
    /// Authenticates the request: returns the principal or a rejection.
    fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision;

    /// Returns the `WWW-Authenticate` challenges for a call that was authenticated but lacks permissions.
    fn denied(
        &self,
        error: &Error,
        request: &AuthRequest<'_>,
        principal: &Principal,
    ) -> Vec<HeaderValue> {
        let _ = (request, principal);
        let challenge = match error.kind.is_insufficient_scope() {
            true => r#"Bearer error="insufficient_scope""#,
            false => "Bearer",
        };
        vec![HeaderValue::from_static(challenge)]
    }

    /// Returns the paths of [pages](Authenticator::page) that need no authentication; each is complete and
    /// starts with a slash.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Handles a request to one of [its paths](Authenticator::paths), without authentication. `Host` was
    /// checked before, `Origin` as well unless the request only reads, and the size of the body. The extensions
    /// hold the client's `SocketAddr`, if known.
    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        drop(request);
        Box::pin(async {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        })
    }

    /// Returns the origin of [its pages](Authenticator::page) as browsers see it, such as
    /// `https://mcp.example.com`. Its own forms are accepted from there, whatever `Host` a reverse proxy sets.
    fn origin(&self) -> Option<String> {
        None
    }

    /// Returns the URL of the protected server as clients use it (the resource of RFC 9728), if it is known.
    fn resource_url(&self) -> Option<String> {
        None
    }

    /// Returns configuration errors as text; the server is not built if there are any.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Receives the server's own stores, if it has any, before the first request. State that must be unique in
    /// a cluster belongs there.
    fn use_stores(&self, stores: &Stores) {
        let _ = stores;
    }

    /// Receives stores and a cipher once, when the server is built. The stores are the server's own, or in
    /// memory if it has none.
    ///
    /// # Errors
    ///
    /// A message that explains what to do, if it cannot work in this configuration. The server is not built
    /// then.
    fn configure(&self, stores: &Stores, cipher: Arc<dyn StateCipher>) -> Result<(), String> {
        let _ = (stores, cipher);
        Ok(())
    }
}

impl<A: Authenticator + ?Sized> Authenticator for Arc<A> {
    fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision {
        (**self).admit(request)
    }

    fn denied(
        &self,
        error: &Error,
        request: &AuthRequest<'_>,
        principal: &Principal,
    ) -> Vec<HeaderValue> {
        (**self).denied(error, request, principal)
    }

    fn paths(&self) -> Vec<String> {
        (**self).paths()
    }

    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        (**self).page(request)
    }

    fn origin(&self) -> Option<String> {
        (**self).origin()
    }

    fn resource_url(&self) -> Option<String> {
        (**self).resource_url()
    }

    fn problems(&self) -> Vec<String> {
        (**self).problems()
    }

    fn use_stores(&self, stores: &Stores) {
        (**self).use_stores(stores);
    }

    fn configure(&self, stores: &Stores, cipher: Arc<dyn StateCipher>) -> Result<(), String> {
        (**self).configure(stores, cipher)
    }
}

/// Head of an HTTP request to be authenticated: everything but the body.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AuthRequest<'a> {
    /// HTTP method.
    pub method: &'a Method,
    /// Request target as received, usually a path.
    pub uri: &'a Uri,
    /// Headers. They may contain secrets.
    pub headers: &'a HeaderMap,
    /// Typed extensions, such as the [`ClientCertificate`].
    pub scope: &'a RequestExtensions,
}

impl<'a> AuthRequest<'a> {
    /// Creates a request from its method, target, headers and extensions.
    #[must_use]
    pub fn new(
        method: &'a Method,
        uri: &'a Uri,
        headers: &'a HeaderMap,
        scope: &'a RequestExtensions,
    ) -> Self {
        AuthRequest { method, uri, headers, scope }
    }
}

impl fmt::Debug for AuthRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthRequest").field("method", self.method).finish_non_exhaustive()
    }
}

/// Result of an authentication.
pub type AuthResult = Result<Authenticated, AuthRejection>;

/// Decision of an [`Authenticator`]: immediate, or a future if it has to query another service.
pub enum AuthDecision {
    /// Immediate result.
    Now(AuthResult),
    /// Future result.
    Later(BoxFuture<AuthResult>),
}

impl AuthDecision {
    /// Returns the result; awaits it if necessary.
    ///
    /// # Errors
    ///
    /// If the request is rejected.
    pub async fn resolve(self) -> AuthResult {
        match self {
            AuthDecision::Now(result) => result,
            AuthDecision::Later(result) => result.await,
        }
    }
}

impl fmt::Debug for AuthDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthDecision::Now(result) => f.debug_tuple("Now").field(result).finish(),
            AuthDecision::Later(_) => f.write_str("Later"),
        }
    }
}

/// Successful authentication.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Authenticated {
    /// Authenticated principal.
    pub principal: Principal,
    /// Expiry time. Streams and WebSockets end then; a call in flight does not.
    pub until: Option<SystemTime>,
    /// Additional response headers, such as a DPoP nonce for the next proof.
    pub headers: HeaderMap,
    /// Typed extensions for handlers.
    pub extensions: Extensions,
}

impl Authenticated {
    /// Creates a result without an expiry time.
    #[must_use]
    pub fn new(principal: Principal) -> Self {
        let (headers, extensions) = (HeaderMap::new(), Extensions::new());
        Authenticated { principal, until: None, headers, extensions }
    }

    /// Sets the expiry time.
    #[must_use]
    pub fn until(mut self, until: SystemTime) -> Self {
        self.until = Some(until);
        self
    }
}

impl From<Principal> for Authenticated {
    fn from(principal: Principal) -> Self {
        Authenticated::new(principal)
    }
}

/// Rejected authentication.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthRejection {
    /// HTTP status: 401 if other credentials may succeed, 403 if not, 400 for an invalid request.
    pub status: u16,
    /// Human-readable message for the client: how to resolve the problem.
    pub message: Cow<'static, str>,
    /// Challenges and other response headers.
    pub headers: Box<HeaderMap>,
}

impl AuthRejection {
    /// Creates a rejection without a challenge.
    #[must_use]
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        AuthRejection { status, message: message.into(), headers: Box::default() }
    }

    /// Adds a challenge.
    #[must_use]
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.headers.append(header::WWW_AUTHENTICATE, challenge);
        self
    }
}

/// TLS client certificate in DER. The transport that inserted it into the [`RequestExtensions`] has verified
/// that the client holds the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate(pub Arc<[u8]>);

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientCertificate({} bytes)", self.0.len())
    }
}
