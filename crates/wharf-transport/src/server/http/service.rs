//! The endpoint as a tower service.

use std::{
    convert::Infallible,
    fmt,
    future::Future,
    mem,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use http::{HeaderValue, Method, Request, Response, header, request::Parts};
use http_body::Body;
use tower_service::Service;
use wharf_model::RequestExtensions;
use wharf_wire::Received;

use crate::{
    LineLimits, ServerContext, Shutdown,
    server::limits::{
        descriptor_shortage::Shortage,
        message_memory::{Room, Taken},
    },
};
use crate::{
    server::http::{
        Http, HttpBody, Streaming,
        cluster::Fleet,
        cors,
        forwarded::Contradiction,
        host_origin,
        legacy_sse::Sse2024,
        options,
        request_body::{Unread, read, turned_away},
        request_headers::Seen,
        response,
        response::{Due, Reply},
        session::Sessions,
    },
    task_set::Tasks,
};

/// One server over HTTP: a tower service that answers `http::Request`s.
///
/// It takes every request as one to the endpoint, whatever its path, so mount it where it belongs.
/// What is in a request's extensions goes along with each of its calls. Clones are the same
/// endpoint.
#[derive(Clone)]
pub struct HttpService {
    pub(crate) site: Arc<Site>,
}

/// What all requests to one endpoint share.
pub(crate) struct Site {
    pub(crate) host: Arc<ServerContext>,
    pub(crate) http: Http,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: Arc<Tasks>,
    pub(super) room: Arc<Room>,
    /// None if legacy clients have none.
    pub(crate) sessions: Option<Arc<Sessions>>,
    pub(crate) sse: Option<Arc<Sse2024>>,
    /// The other processes that serve the same clients, if there may be any.
    pub(crate) fleet: Option<Arc<Fleet>>,
    /// Whether connections cannot be accepted.
    pub(crate) shortage: Shortage,
}

impl HttpService {
    /// Serves `host` over HTTP, as `http` says, until `shutdown` stops.
    #[must_use]
    pub fn new(host: Arc<ServerContext>, http: Http, shutdown: Shutdown) -> Self {
        let host = match http.streaming {
            Streaming::Never => {
                let wire = Arc::new(host.wire.without_streams());
                Arc::new(ServerContext { wire, ..(*host).clone() })
            }
            _ => host,
        };
        // A WebSocket has no more time at the end than the accept loop gives it.
        let host = match http.limits.grace < host.limits.grace {
            true => {
                let limits = LineLimits { grace: http.limits.grace, ..host.limits };
                Arc::new(ServerContext { limits, ..(*host).clone() })
            }
            false => host,
        };
        let tasks = Arc::new(Tasks::default());
        let legacy = host.wire.speaks_legacy();
        let fleet = Fleet::new(http.stores.as_ref(), &tasks, &shutdown);
        let sessions = (legacy && http.has_sessions()).then(|| {
            let (tasks, fleet) = (tasks.clone(), fleet.clone());
            Sessions::new(host.clone(), http.limits, tasks, shutdown.clone(), fleet)
        });
        let room = Room::new(http.limits.bodies, host.limits.unfinished());
        let sse = (legacy && http.sse_2024).then(|| {
            let (host, tasks, shutdown) = (host.clone(), tasks.clone(), shutdown.clone());
            Sse2024::new(host, http.limits, tasks, shutdown, room.clone())
        });
        let shortage = Shortage::default();
        let site = Site { host, http, shutdown, tasks, room, sessions, sse, fleet, shortage };
        HttpService { site: Arc::new(site) }
    }

    /// How it is served.
    pub fn options(&self) -> &Http {
        &self.site.http
    }
}

impl Site {
    /// Answers one request.
    pub(crate) async fn request<B: Body>(
        self: &Arc<Self>,
        parts: &Parts,
        scope: RequestExtensions,
        body: Pin<&mut B>,
    ) -> Reply {
        let seen = Seen::of(&parts.headers);
        if let Err(refusal) = host_origin::check_form(parts, &seen) {
            return turned_away(*refusal, parts, body).await;
        }
        // For balancers, who know no host and ask for nothing.
        if self.http.health
            && let Some(reply) = self.health(parts).await
        {
            return turned_away(reply, parts, body).await;
        }
        let mut scope = scope;
        if !self.http.proxies.is_empty()
            && let Err(Contradiction) = self.http.proxies.locate(&parts.headers, &mut scope)
        {
            let problem = "Forwarded and X-Forwarded-For name different clients: let the proxy set one and remove the other";
            return turned_away(response::refuse(400, problem), parts, body).await;
        }
        // In a box of its own: whoever lets everybody in needs no room for it.
        if let Some(guarded) = &self.http.authority {
            return Box::pin(self.guarded(guarded, parts, &seen, body, scope)).await;
        }
        let mut reply = match host_origin::check(&self.http, parts, &seen) {
            Err(refusal) => return turned_away(*refusal, parts, body).await,
            Ok(()) => self.dispatch(parts, &seen, body, scope).await,
        };
        cors::expose(&self.http, &seen, &mut reply);
        reply
    }

    pub(super) async fn dispatch<B: Body>(
        self: &Arc<Self>,
        parts: &Parts,
        seen: &Seen<'_>,
        body: Pin<&mut B>,
        scope: RequestExtensions,
    ) -> Reply {
        if let Some(reply) = self.preflight(parts, seen) {
            return reply;
        }
        // Held until the answer begins.
        let mut taken = Taken::nothing(&self.room);
        let path = parts.uri.path();
        if let Some(sse) = &self.sse {
            if path.ends_with(options::SSE) {
                let reply = match parts.method {
                    Method::GET => sse.get(seen, scope),
                    _ => response::not_allowed("GET"),
                };
                return turned_away(reply, parts, body).await;
            }
            if path.ends_with(options::MESSAGES) {
                return match self.read_post(parts, seen, body, &mut taken, &scope).await {
                    Ok(message) => sse.post(parts.uri.query(), message, taken, scope).await,
                    Err(refusal) => *refusal,
                };
            }
        }
        let reply = match (&parts.method, &self.sessions) {
            (&Method::POST, _) => {
                let message = match self.read_post(parts, seen, body, &mut taken, &scope).await {
                    Ok(message) => message,
                    Err(refusal) => return *refusal,
                };
                // A small body counts until the response begins, a large one until its bytes and the reply's are gone.
                let (mut message, mut share) = (message, None);
                if taken.is_large() {
                    let taken = mem::replace(&mut taken, Taken::nothing(&self.room));
                    message = share.insert(Arc::new(taken)).charge(message);
                }
                let mut reply = match self.post(seen, message, scope) {
                    Due::Now(reply) => reply,
                    Due::Later(reply) => reply.await,
                };
                if let Some(share) = share {
                    reply.body_mut().charge(share);
                }
                return reply;
            }
            #[cfg(feature = "websocket")]
            (&Method::GET, _)
                if self.http.websocket && crate::server::http::websocket::is_asked(parts) =>
            {
                return crate::server::http::websocket::upgrade(self, parts, scope);
            }
            // Sessions are for the others.
            _ if seen.message.is_modern() => response::not_allowed("POST"),
            (&Method::GET, Some(sessions)) => sessions.get(seen, scope).await,
            (&Method::DELETE, Some(sessions)) => sessions.delete(seen, scope).await,
            _ => response::not_allowed(self.allowed()),
        };
        turned_away(reply, parts, body).await
    }

    /// Answers a browser that asks before it sends.
    pub(super) fn preflight(&self, parts: &Parts, seen: &Seen<'_>) -> Option<Reply> {
        let asks = parts.method == Method::OPTIONS;
        asks.then(|| cors::preflight(&self.http, parts, seen)).flatten()
    }

    fn allowed(&self) -> &'static str {
        if self.sessions.is_some() { "POST, GET, DELETE" } else { "POST" }
    }

    fn post<'a>(&'a self, seen: &'a Seen<'_>, message: Bytes, scope: RequestExtensions) -> Due<'a> {
        match &self.sessions {
            Some(sessions) if !seen.message.is_modern() => sessions.post(seen, message, scope),
            _ => self.answer(message, &seen.message, seen.accept, scope),
        }
    }

    /// Why the body cannot be a message, or the reply to it could not be read.
    fn unreadable(&self, parts: &Parts, seen: &Seen<'_>) -> Option<Reply> {
        let refuse = |status, problem| Some(response::refuse(status, problem));
        if parts.method != Method::POST {
            return Some(response::not_allowed("POST"));
        }
        if !seen.is_plain() {
            return Some(host_origin::encoded());
        }
        if !seen.is_json() {
            return refuse(415, "The body must be application/json");
        }
        if !seen.accept.json && !seen.accept.events {
            return refuse(406, "Accept must allow application/json or text/event-stream");
        }
        if !seen.accept.json && self.http.streaming == Streaming::Never {
            return refuse(406, "Nothing is streamed here: accept application/json");
        }
        None
    }

    /// The message in the body, if it may be one.
    async fn read_post<B: Body>(
        &self,
        parts: &Parts,
        seen: &Seen<'_>,
        body: Pin<&mut B>,
        taken: &mut Taken,
        scope: &RequestExtensions,
    ) -> Result<Bytes, Box<Reply>> {
        if let Some(refusal) = self.unreadable(parts, seen) {
            return Err(Box::new(turned_away(refusal, parts, body).await));
        }
        let (limit, patience) = (self.host.limits.message, self.http.limits.body);
        let read = read(body, limit, patience, taken, scope).await;
        read.map_err(|unread| Box::new(self.unread(unread)))
    }

    /// Why there is no message. The client must not send another behind what is left of the body.
    pub(super) fn unread(&self, unread: Unread) -> Reply {
        let mut reply = match unread {
            Unread::TooSlow => response::refuse(408, "The body took too long to come"),
            Unread::NoRoom => response::busy("Too much is being sent at once"),
            Unread::Broken => response::refuse(400, "The body ended before its time"),
            Unread::TooLong => match self.host.wire.too_long() {
                Received::Reply(reply, status) => response::json(status, reply),
                _ => response::status(413),
            },
        };
        reply.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        reply
    }
}

impl<B> Service<Request<B>> for HttpService
where
    B: Body + Send + 'static,
    B::Data: Send,
{
    type Response = Response<HttpBody>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let site = self.site.clone();
        let (mut parts, body) = request.into_parts();
        Box::pin(async move {
            let scope = std::mem::take(&mut parts.extensions).into();
            Ok(site.request(&parts, scope, pin!(body)).await)
        })
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("http", &self.site.http).finish_non_exhaustive()
    }
}
