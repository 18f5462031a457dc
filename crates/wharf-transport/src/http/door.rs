//! Where an authority decides who comes in.

use std::{
    pin::Pin,
    sync::Arc,
    time::{Duration, SystemTime},
};

use http::{HeaderMap, HeaderValue, Method, Request, header, request::Parts};
use http_body::Body;
use tokio::time::Instant;
use wharf_model::{Authority, Denied, Error, ErrorKind, Knock, Pass, Scope};
use wharf_wire::Field;

use crate::tcp::RemoteAddress;

use super::{
    HttpBody, cors, guard,
    heads::Seen,
    options::Guarded,
    read::{Taken, let_pass, read},
    respond::{self, Reply},
    service::Site,
};

/// The most bytes that a page takes: forms, and descriptions of clients.
const PAGE: usize = 64 << 10;
/// How long the rest of a request may take that was refused.
const MOMENT: Duration = Duration::from_secs(1);
/// A pass that lasts longer counts as one that does not end.
const FOREVER: Duration = Duration::from_secs(10 * 365 * 24 * 60 * 60);

/// Until when a WebSocket that was begun with a request may go on.
#[cfg(feature = "websocket")]
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
        scope: Scope,
    ) -> Reply {
        let authority = &guarded.authority;
        if guarded.has_page(parts.uri.path()) {
            return self.page(authority, parts, seen, body, &scope).await;
        }
        let mut reply = match guard::check(&self.http, parts, seen) {
            Err(refusal) => return *refusal,
            Ok(()) => self.admit(authority, parts, seen, body, scope).await,
        };
        cors::expose(&self.http, seen, &mut reply);
        reply
    }

    /// Answers a request if `authority` lets it in.
    async fn admit<B: Body>(
        self: &Arc<Self>,
        authority: &Arc<dyn Authority>,
        parts: &Parts,
        seen: &Seen<'_>,
        body: Pin<&mut B>,
        mut scope: Scope,
    ) -> Reply {
        // Browsers ask before they send, and show nothing that would let them in.
        if let Some(reply) = self.preflight(parts, seen) {
            return reply;
        }
        let knock = Knock::new(&parts.method, &parts.uri, &parts.headers, &scope);
        let pass = match authority.admit(&knock).verdict().await {
            Ok(pass) => pass,
            Err(denied) => return turned_away(denied, parts, body).await,
        };
        let Pass { principal, until, headers, extensions, .. } = pass;
        let until = match until.map(deadline) {
            Some(Left::Nothing) => {
                let error = Error::new(ErrorKind::Unauthenticated);
                let mut denied = Denied::new(401, "The credentials have just expired");
                for challenge in authority.denied(&error, &knock, &principal) {
                    denied = denied.challenge(challenge);
                }
                return turned_away(denied, parts, body).await;
            }
            Some(Left::Until(until)) => Some(until),
            Some(Left::Forever) | None => None,
        };
        scope.extend([extensions]);
        // In the place of whatever anybody else said who it is.
        scope.insert(principal.clone());
        #[cfg(feature = "websocket")]
        if let Some(until) = until {
            scope.insert(Until(until));
        }
        let mut reply = self.dispatch(parts, seen, body, scope).await;
        if let Some(error) = reply.extensions_mut().remove::<Error>() {
            let nobody = Scope::new();
            let knock = Knock::new(&parts.method, &parts.uri, &parts.headers, &nobody);
            let challenges = authority.denied(&error, &knock, &principal);
            reply.headers_mut().remove(header::WWW_AUTHENTICATE);
            for challenge in challenges {
                reply.headers_mut().append(header::WWW_AUTHENTICATE, challenge);
            }
        }
        if let Some(until) = until {
            reply.body_mut().end_at(until, parts.method == Method::GET);
        }
        add(&headers, &mut reply);
        reply
    }

    /// Answers a request for a page that anybody may read.
    async fn page<B: Body>(
        &self,
        authority: &Arc<dyn Authority>,
        parts: &Parts,
        seen: &Seen<'_>,
        body: Pin<&mut B>,
        scope: &Scope,
    ) -> Reply {
        // What only reads what anybody may read may come from any page; what its own pages send, from there.
        let reads = matches!(parts.method, Method::GET | Method::HEAD | Method::OPTIONS);
        let checked = match reads || is_own(authority, seen) {
            true => guard::check_host(&self.http, parts, seen).map(drop),
            false => guard::check(&self.http, parts, seen),
        };
        if let Err(refusal) = checked {
            return *refusal;
        }
        let mut taken = Taken::nothing(&self.room);
        let body = match read(body, PAGE, self.http.limits.body, &mut taken).await {
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
fn is_own(authority: &Arc<dyn Authority>, seen: &Seen<'_>) -> bool {
    match (seen.origin, authority.origin()) {
        (Field::One(origin), Some(own)) => own.as_bytes().eq_ignore_ascii_case(origin),
        _ => false,
    }
}

/// What is left of a pass.
enum Left {
    Nothing,
    Until(Instant),
    Forever,
}

/// When `until` comes, by the clock of the runtime.
fn deadline(until: SystemTime) -> Left {
    match until.duration_since(SystemTime::now()) {
        Ok(left) if left >= FOREVER => Left::Forever,
        Ok(left) if !left.is_zero() => Left::Until(Instant::now() + left),
        _ => Left::Nothing,
    }
}

/// Refuses a request whose body may still be on its way. Clients use the connection again, to find out how to come in:
/// they can if all of it comes in a moment, and are told so if they cannot.
async fn turned_away<B: Body>(denied: Denied, parts: &Parts, body: Pin<&mut B>) -> Reply {
    let mut reply = refused(denied);
    // Who waits to be told to send the body shall not send it.
    let waits = parts.headers.contains_key(header::EXPECT);
    if waits || !let_pass(body, PAGE, MOMENT).await {
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    reply
}

fn refused(denied: Denied) -> Reply {
    let mut reply = respond::refuse(denied.status, &denied.message);
    add(&denied.headers, &mut reply);
    reply
}

fn add(headers: &HeaderMap, reply: &mut Reply) {
    for (name, value) in headers {
        reply.headers_mut().append(name, value.clone());
    }
}
