//! Where an authority decides who comes in.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, Method, Request, header, request::Parts};
use http_body::Body;
use tokio::time::Instant;
use wharf_model::{
    AuthRejection, AuthRequest, Authenticated, Authenticator, Error, ErrorKind, RemoteAddress,
    RequestExtensions,
};
use wharf_wire::HeaderField;

use crate::server::http::{
    HttpBody, cors, host_origin,
    options::Guarded,
    request_body::{read, turned_away},
    request_headers::Seen,
    response,
    response::Reply,
    service::Site,
};
use crate::server::limits::message_memory::Taken;

/// The most bytes that a page takes: forms, and descriptions of clients.
const PAGE: usize = 64 << 10;
/// A pass that lasts longer counts as one that does not end.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Until when whatever a request began may wait, or listen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Until(pub(crate) Instant);

impl Site {
    /// Answers a request where somebody decides who comes in.
    pub(crate) async fn guarded<B: Body>(
        self: &Arc<Self>,
        guarded: &Guarded,
        parts: &Parts,
        seen: &Seen<'_>,
        body: Pin<&mut B>,
        scope: RequestExtensions,
    ) -> Reply {
        let authority = &guarded.authority;
        if guarded.has_page(parts.uri.path()) {
            return self.page(authority, parts, seen, body, &scope).await;
        }
        let mut reply = match host_origin::check(&self.http, parts, seen) {
            Err(refusal) => return turned_away(*refusal, parts, body).await,
            Ok(()) => self.admit(authority, parts, seen, body, scope).await,
        };
        cors::expose(&self.http, seen, &mut reply);
        reply
    }

    /// Answers a request if `authority` lets it in.
    async fn admit<B: Body>(
        self: &Arc<Self>,
        authority: &Arc<dyn Authenticator>,
        parts: &Parts,
        seen: &Seen<'_>,
        body: Pin<&mut B>,
        mut scope: RequestExtensions,
    ) -> Reply {
        // Browsers ask before they send, and show nothing that would let them in.
        if let Some(reply) = self.preflight(parts, seen) {
            return reply;
        }
        let (pass, until) = match knock(authority, parts, &scope).await {
            Ok(passed) => passed,
            Err(denied) => return turned_away(refused(denied), parts, body).await,
        };
        let Authenticated { principal, headers, extensions, .. } = pass;
        scope.extend([extensions]);
        // In the place of whatever anybody else said who it is.
        scope.insert(principal.clone());
        if let Some(until) = until {
            scope.insert(until);
        }
        let mut reply = self.dispatch(parts, seen, body, scope).await;
        if let Some(error) = reply.extensions_mut().remove::<Error>() {
            let nobody = RequestExtensions::new();
            let knock = AuthRequest::new(&parts.method, &parts.uri, &parts.headers, &nobody);
            reply.headers_mut().remove(header::WWW_AUTHENTICATE);
            for challenge in authority.denied(&error, &knock, &principal) {
                reply.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
            }
        }
        // What is read by GET goes on as long as it is let.
        if let Some(Until(until)) = until.filter(|_| parts.method == Method::GET) {
            reply.body_mut().end_at(until);
        }
        add(&headers, &mut reply);
        reply
    }

    /// Answers a request for a page that anybody may read.
    async fn page<B: Body>(
        &self,
        authority: &Arc<dyn Authenticator>,
        parts: &Parts,
        seen: &Seen<'_>,
        body: Pin<&mut B>,
        scope: &RequestExtensions,
    ) -> Reply {
        // What only reads what anybody may read may come from any page; what its own pages send, from there.
        let reads = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let checked = match reads || is_own(authority, seen) {
            true => host_origin::check_host(&self.http, parts, seen).map(drop),
            false => host_origin::check(&self.http, parts, seen),
        };
        if let Err(refusal) = checked {
            return turned_away(*refusal, parts, body).await;
        }
        if !seen.is_plain() {
            return turned_away(host_origin::encoded(), parts, body).await;
        }
        let mut taken = Taken::nothing(&self.room);
        let body = match read(body, PAGE, self.http.limits.body, &mut taken, scope).await {
            Ok(body) => body,
            Err(unread) => return self.unread(unread),
        };
        let mut request = Request::new(body);
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = parts.uri.clone();
        *request.headers_mut() = parts.headers.clone();
        if let Some(RemoteAddress(address)) = scope.get() {
            request.extensions_mut().insert(*address);
        }
        let (parts, body) = authority.page(request).await.into_parts();
        Reply::from_parts(parts, HttpBody::whole(body.into()))
    }
}

/// Whether a request comes from a page of the authority's own.
fn is_own(authority: &Arc<dyn Authenticator>, seen: &Seen<'_>) -> bool {
    match (seen.origin, authority.origin()) {
        (HeaderField::One(origin), Some(own)) => own.as_bytes().eq_ignore_ascii_case(origin),
        _ => false,
    }
}

/// What the authority says to a request, and until when.
async fn knock(
    authority: &Arc<dyn Authenticator>,
    parts: &Parts,
    scope: &RequestExtensions,
) -> Result<(Authenticated, Option<Until>), AuthRejection> {
    let knock = AuthRequest::new(&parts.method, &parts.uri, &parts.headers, scope);
    let pass = authority.admit(&knock).verdict().await?;
    let left = pass.until.map(|until| until.duration_since(SystemTime::now()).unwrap_or_default());
    match left {
        Some(Duration::ZERO) => {
            let error = expired();
            let denied = AuthRejection::new(401, error.message.clone());
            let challenges = authority.denied(&error, &knock, &pass.principal);
            Err(challenges.into_iter().fold(denied, AuthRejection::challenge))
        }
        Some(left) if left < FOREVER => Ok((pass, Some(Until(Instant::now() + left)))),
        Some(_) | None => Ok((pass, None)),
    }
}

/// What was let in may not stay any longer.
pub(super) fn expired() -> Error {
    Error::new(ErrorKind::Unauthenticated).with_message("The credentials have expired")
}

fn refused(denied: AuthRejection) -> Reply {
    let mut reply = response::refuse(denied.status, &denied.message);
    add(&denied.headers, &mut reply);
    reply
}

fn add(headers: &HeaderMap, reply: &mut Reply) {
    for (name, value) in headers {
        reply.headers_mut().append(name, value.clone());
    }
}
