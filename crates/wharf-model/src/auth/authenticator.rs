//! Who decides who may come in over HTTP.

use std::{borrow::Cow, fmt, sync::Arc, time::SystemTime};

use bytes::Bytes;
use http::{
    Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header,
};

use crate::{BoxFuture, Error, Principal, RequestExtensions, StateCipher, Stores};

/// Decides who may come in over HTTP, before anything else of a request is read.
///
/// It is asked at every door: for each message, each stream, each WebSocket and the end of each session. Nothing
/// that it said about an earlier request counts for a later one.
///
/// ```
/// # mod wharf { pub use wharf_model::*; }
/// use wharf::{AuthDecision, Authenticator, AuthRejection, AuthRequest, Authenticated, Principal};
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
    /// Whether this request may come in, and whose it is.
    fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision;

    /// The challenges for a call that was let in and then failed for want of rights: what the caller would need.
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

    /// The paths of [pages](Authenticator::page) that anybody may read, each whole and with a slash before it.
    fn paths(&self) -> Vec<String> {
        Vec::new()
    }

    /// Answers a request to one of [its paths](Authenticator::paths), for which nobody needs to be let in. Its host was
    /// checked, and its origin unless it only reads; its body was bounded. Its extensions hold the `SocketAddr` that it
    /// came from, if that is known.
    fn page(&self, request: Request<Bytes>) -> BoxFuture<Response<Bytes>> {
        drop(request);
        Box::pin(async {
            let mut response = Response::new(Bytes::new());
            *response.status_mut() = StatusCode::NOT_FOUND;
            response
        })
    }

    /// The origin of [its pages](Authenticator::page) as browsers see it, such as `https://mcp.example.com`: what its own
    /// forms send comes from there, whatever `ServerContext` a reverse proxy makes of it.
    fn origin(&self) -> Option<String> {
        None
    }

    /// What is wrong with how it was put together, in words: a server with such an authority is not built.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// The server's own stores, if it has any, before the first request: what must be told once in a fleet
    /// belongs there.
    fn join(&self, stores: &Stores) {
        let _ = stores;
    }

    /// Where to keep things, and the keys to seal them with: once, when the server is built. The stores are the
    /// server's own, or are in memory if it has none.
    ///
    /// # Errors
    ///
    /// When it cannot work like this: what to do about it. The server is not built then.
    fn settle(&self, stores: &Stores, seal: Arc<dyn StateCipher>) -> Result<(), String> {
        let _ = (stores, seal);
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

    fn problems(&self) -> Vec<String> {
        (**self).problems()
    }

    fn join(&self, stores: &Stores) {
        (**self).join(stores);
    }

    fn settle(&self, stores: &Stores, seal: Arc<dyn StateCipher>) -> Result<(), String> {
        (**self).settle(stores, seal)
    }
}

/// A request that wants to come in: all of it but its body.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct AuthRequest<'a> {
    /// The verb.
    pub method: &'a Method,
    /// What is asked for, as it stood in the request: mostly a path.
    pub uri: &'a Uri,
    /// The headers. They may hold secrets.
    pub headers: &'a HeaderMap,
    /// What outer layers put there: a [`ClientCertificate`], where the client has one.
    pub scope: &'a RequestExtensions,
}

impl<'a> AuthRequest<'a> {
    /// A request with this verb, target and headers, and what outer layers put there.
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

/// Whether somebody comes in.
pub type AuthResult = Result<Authenticated, AuthRejection>;

/// How an [`Authenticator`] answers: at once where it knows the caller, later where it must ask.
pub enum AuthDecision {
    /// This is the answer.
    Now(AuthResult),
    /// The answer will come.
    Later(BoxFuture<AuthResult>),
}

impl AuthDecision {
    /// The answer, awaited if it must be.
    ///
    /// # Errors
    ///
    /// When the request may not come in.
    pub async fn verdict(self) -> AuthResult {
        match self {
            AuthDecision::Now(verdict) => verdict,
            AuthDecision::Later(verdict) => verdict.await,
        }
    }
}

impl fmt::Debug for AuthDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            AuthDecision::Now(verdict) => f.debug_tuple("Now").field(verdict).finish(),
            AuthDecision::Later(_) => f.write_str("Later"),
        }
    }
}

/// Somebody came in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Authenticated {
    /// Who it is.
    pub principal: Principal,
    /// Until when. Streams and WebSockets end then; a call that has begun does not.
    pub until: Option<SystemTime>,
    /// What the response says besides, such as a nonce for the next proof.
    pub headers: HeaderMap,
    /// What handlers may look at besides, by its type.
    pub extensions: Extensions,
}

impl Authenticated {
    /// A pass without an end.
    #[must_use]
    pub fn new(principal: Principal) -> Self {
        let (headers, extensions) = (HeaderMap::new(), Extensions::new());
        Authenticated { principal, until: None, headers, extensions }
    }

    /// The same until then, and no longer.
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

/// Somebody did not come in.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AuthRejection {
    /// The status: 401 if it might with other credentials, 403 if not, 400 if nobody can tell.
    pub status: u16,
    /// What to do about it, for people. It goes to the client.
    pub message: Cow<'static, str>,
    /// The challenges, and whatever else the response says.
    pub headers: Box<HeaderMap>,
}

impl AuthRejection {
    /// Without a challenge.
    #[must_use]
    pub fn new(status: u16, message: impl Into<Cow<'static, str>>) -> Self {
        AuthRejection { status, message: message.into(), headers: Box::default() }
    }

    /// With one more challenge.
    #[must_use]
    pub fn challenge(mut self, challenge: HeaderValue) -> Self {
        self.headers.append(header::WWW_AUTHENTICATE, challenge);
        self
    }
}

/// The certificate that a client showed when it connected, in DER. Whoever put it into the
/// [`RequestExtensions`] has seen the client prove that it has the key.
#[derive(Clone, PartialEq, Eq)]
pub struct ClientCertificate(pub Arc<[u8]>);

impl fmt::Debug for ClientCertificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ClientCertificate({} bytes)", self.0.len())
    }
}
