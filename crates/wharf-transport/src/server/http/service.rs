//! The HTTP endpoint as a tower service.

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
use std::net::SocketAddr;
use tower_service::Service;
use wharf_model::{
    ObservedEvent, ObservedTransport, Observers, Refusal, RefusalReason, RemoteAddress,
    RequestExtensions,
};
use wharf_wire::Received;

use crate::{
    ServerContext, Shutdown,
    server::{
        limits::message_memory::{MessageBudget, MessageCharge},
        observed::{client_of, error_text},
    },
};
use crate::{
    server::http::{
        Http, HttpBody, Streaming,
        cluster::Cluster,
        cors,
        forwarded::ForwardedMismatch,
        host_origin,
        legacy_sse::LegacySse,
        options,
        request_body::{BodyError, discard_body, read_body},
        request_checks,
        request_headers::RequestHeaders,
        response,
        response::{EventualResponse, HttpResponse},
        session::{LocalSessions, SessionContext, Sessions, SharedSessions},
    },
    task_set::TaskSet,
};

/// MCP server over HTTP: a tower service that handles `http::Request`s.
///
/// Every request counts as one to the endpoint, whatever its path, so the application must route only the paths
/// of [`Http::paths`] here. The extensions of a request are passed to its calls. Clones share the endpoint.
#[derive(Clone)]
pub struct HttpService {
    pub(crate) endpoint: Arc<HttpEndpoint>,
}

/// State that all requests to one endpoint share.
pub(crate) struct HttpEndpoint {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) http: Http,
    pub(crate) shutdown: Shutdown,
    pub(crate) tasks: Arc<TaskSet>,
    pub(super) budget: Arc<MessageBudget>,
    /// None if legacy clients have no sessions.
    pub(crate) sessions: Option<Box<dyn Sessions>>,
    pub(crate) sse: Option<Arc<LegacySse>>,
    /// The cluster of processes that serve the same clients, if the stores are shared.
    pub(crate) cluster: Option<Arc<Cluster>>,
    pub(crate) observers: Observers,
}

impl HttpService {
    /// Serves `context` over HTTP with the options `http`, until `shutdown` stops.
    #[must_use]
    pub fn new(mut context: Arc<ServerContext>, http: Http, shutdown: Shutdown) -> Self {
        if http.streaming == Streaming::Never {
            let wire = Arc::new(context.wire.without_streams());
            Arc::make_mut(&mut context).wire = wire;
        }
        let limits = context.http_limits;
        // The accept loop does not wait longer for a WebSocket than for its own grace period.
        if limits.grace < context.limits.grace {
            Arc::make_mut(&mut context).limits.grace = limits.grace;
        }
        let tasks = Arc::new(TaskSet::default());
        let has_sessions = context.wire.has_sessions();
        let cluster = Cluster::new(http.stores.as_ref(), &tasks, &shutdown);
        let sessions = (has_sessions && http.has_sessions()).then(|| {
            let common = SessionContext::new(context.clone(), limits, &tasks, shutdown.clone());
            match &cluster {
                None => Box::new(LocalSessions::new(common)) as Box<dyn Sessions>,
                Some(cluster) => Box::new(SharedSessions::new(common, cluster.clone())),
            }
        });
        let budget = MessageBudget::new(limits.bodies, context.unfinished());
        let sse = (has_sessions && http.sse_2024).then(|| {
            let (context, tasks, shutdown) = (context.clone(), tasks.clone(), shutdown.clone());
            LegacySse::new(context, limits, tasks, shutdown, budget.clone())
        });
        let observers = context.service.observers().clone();
        let endpoint = HttpEndpoint {
            context,
            http,
            shutdown,
            tasks,
            budget,
            sessions,
            sse,
            cluster,
            observers,
        };
        HttpService { endpoint: Arc::new(endpoint) }
    }

    /// Returns the options.
    pub fn options(&self) -> &Http {
        &self.endpoint.http
    }
}

/// Reports to observers.
impl HttpEndpoint {
    /// Reports a response: its bytes, its stream, and the refusal if it is one. `peer` is the address of the
    /// client, or of a reverse proxy.
    pub(crate) fn observe(
        &self,
        reply: &mut HttpResponse,
        parts: &Parts,
        peer: Option<SocketAddr>,
    ) {
        if self.observers.is_empty() {
            return;
        }
        if let Some(reason) = reply.body().refusal {
            self.report_refusal(reason, reply, self.client(parts, peer));
        }
        reply.body_mut().observe(&self.observers);
    }

    #[cold]
    fn report_refusal(
        &self,
        reason: RefusalReason,
        reply: &HttpResponse,
        client: Option<SocketAddr>,
    ) {
        let detail = error_text(reply.body().message()).unwrap_or_default();
        let refusal = Refusal::new(reason, ObservedTransport::Http)
            .status(reply.status().as_u16())
            .client(client)
            .detail(&detail);
        self.observers.emit(|| ObservedEvent::Refused(refusal));
    }

    /// Returns the address of the client that a trusted proxy forwards, or else of the peer.
    fn client(&self, parts: &Parts, peer: Option<SocketAddr>) -> Option<SocketAddr> {
        let mut scope = RequestExtensions::new();
        scope.insert(RemoteAddress(peer?));
        // Headers that contradict each other change nothing.
        let _ = self.http.proxies.set_client_address(&parts.headers, &mut scope);
        client_of(&scope)
    }

    fn count_received(&self, bytes: usize) {
        if self.observers.count_bytes() {
            let transport = ObservedTransport::Http;
            self.observers.emit(|| ObservedEvent::Received { transport, bytes });
        }
    }
}

impl HttpEndpoint {
    /// Handles one request.
    pub(crate) async fn request<B: Body>(
        self: &Arc<Self>,
        parts: &Parts,
        scope: RequestExtensions,
        body: Pin<&mut B>,
    ) -> HttpResponse {
        let parsed = RequestHeaders::of(&parts.headers);
        if let Err(refusal) = request_checks::check_framing(parts, &parsed) {
            return discard_body(*refusal, parts, body).await;
        }
        // Before the checks of `Host` and the authentication, because load balancers send neither.
        if self.http.health
            && let Some(reply) = self.health(parts).await
        {
            return discard_body(reply, parts, body).await;
        }
        if let Some(reply) = self.public_document(parts, &parsed) {
            return discard_body(reply, parts, body).await;
        }
        let mut scope = scope;
        if !self.http.proxies.is_empty()
            && let Err(ForwardedMismatch) =
                self.http.proxies.set_client_address(&parts.headers, &mut scope)
        {
            let problem = "Forwarded and X-Forwarded-For name different clients: let the proxy set one and remove the other";
            return discard_body(response::refuse(400, problem), parts, body).await;
        }
        // Boxed: endpoints without an authenticator do not need the memory.
        if let Some(guarded) = &self.http.authority {
            return Box::pin(self.dispatch_guarded(guarded, parts, &parsed, body, scope)).await;
        }
        let mut reply = match host_origin::check(&self.http, parts, &parsed) {
            Err(refusal) => return discard_body(*refusal, parts, body).await,
            Ok(()) => self.dispatch(parts, &parsed, body, scope).await,
        };
        cors::expose(&self.http, &parsed, &mut reply);
        reply
    }

    pub(super) async fn dispatch<B: Body>(
        self: &Arc<Self>,
        parts: &Parts,
        parsed: &RequestHeaders<'_>,
        body: Pin<&mut B>,
        scope: RequestExtensions,
    ) -> HttpResponse {
        if let Some(document) = self.http.document_at(parts.uri.path()) {
            return discard_body(document.respond(parts), parts, body).await;
        }
        if let Some(reply) = self.preflight(parts, parsed) {
            return reply;
        }
        // Held until the response begins.
        let mut charge = MessageCharge::empty(&self.budget);
        let path = parts.uri.path();
        if let Some(sse) = &self.sse {
            if path.ends_with(options::SSE) {
                let reply = match parts.method {
                    Method::GET => sse.get(parsed, scope),
                    _ => response::not_allowed("GET"),
                };
                return discard_body(reply, parts, body).await;
            }
            if path.ends_with(options::MESSAGES) {
                return match self.read_post(parts, parsed, body, &mut charge, &scope).await {
                    Ok(message) => sse.post(parts.uri.query(), message, charge, scope).await,
                    Err(refusal) => *refusal,
                };
            }
        }
        let reply = match (&parts.method, &self.sessions) {
            (&Method::POST, _) => {
                let message = match self.read_post(parts, parsed, body, &mut charge, &scope).await {
                    Ok(message) => message,
                    Err(refusal) => return *refusal,
                };
                // A small body counts until the response begins, a large one until its bytes and those of the
                // reply are freed.
                let (mut message, mut share) = (message, None);
                if charge.is_large() {
                    let charge = mem::replace(&mut charge, MessageCharge::empty(&self.budget));
                    message = share.insert(Arc::new(charge)).charge(message);
                }
                self.count_received(message.len());
                let mut reply = self.post(parsed, message, scope).ready().await;
                if let Some(share) = share {
                    reply.body_mut().charge(share);
                }
                return reply;
            }
            #[cfg(feature = "websocket")]
            (&Method::GET, _)
                if self.http.websocket
                    && crate::server::http::websocket::is_upgrade_request(parts) =>
            {
                return crate::server::http::websocket::upgrade(self, parts, scope);
            }
            _ if !parsed.message.may_have_session() => response::not_allowed("POST"),
            (&Method::GET, Some(sessions)) => match request_checks::check_session_get(parsed) {
                Some(refusal) => refusal,
                None => sessions.get(parsed, scope).ready().await,
            },
            (&Method::DELETE, Some(sessions)) => sessions.delete(parsed, scope).ready().await,
            _ => response::not_allowed(self.allowed()),
        };
        discard_body(reply, parts, body).await
    }

    /// Answers a request for a document that needs no authentication. Only `Host` is checked, because every web page may
    /// read it. One that needs authentication does not exist without an authenticator. None if the request is not for
    /// such a document.
    fn public_document(&self, parts: &Parts, parsed: &RequestHeaders<'_>) -> Option<HttpResponse> {
        let document = self.http.document_at(parts.uri.path())?;
        if document.needs_authentication() {
            return self.http.authority.is_none().then(|| response::status(404));
        }
        Some(match host_origin::check_host(&self.http, parts, parsed) {
            Ok(_) => document.respond(parts),
            Err(refusal) => *refusal,
        })
    }

    /// Answers a CORS preflight request.
    pub(super) fn preflight(
        &self,
        parts: &Parts,
        parsed: &RequestHeaders<'_>,
    ) -> Option<HttpResponse> {
        let asks = parts.method == Method::OPTIONS;
        asks.then(|| cors::preflight(&self.http, parts, parsed)).flatten()
    }

    fn allowed(&self) -> &'static str {
        if self.sessions.is_some() { "POST, GET, DELETE" } else { "POST" }
    }

    fn post<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        match &self.sessions {
            Some(sessions) if parsed.message.may_have_session() => {
                sessions.post(parsed, message, scope)
            }
            _ => self.answer(message, &parsed.message, parsed.accept, scope),
        }
    }

    /// Reads the message in the body of a POST.
    async fn read_post<B: Body>(
        &self,
        parts: &Parts,
        parsed: &RequestHeaders<'_>,
        body: Pin<&mut B>,
        charge: &mut MessageCharge,
        scope: &RequestExtensions,
    ) -> Result<Bytes, Box<HttpResponse>> {
        if let Some(refusal) = self.check_post_headers(parts, parsed) {
            return Err(Box::new(discard_body(refusal, parts, body).await));
        }
        let (limit, patience) = (self.context.max_message(), self.context.http_limits.body);
        let read_body = read_body(body, limit, patience, charge, scope).await;
        read_body.map_err(|body_error| Box::new(self.body_error(body_error)))
    }

    /// Returns the response for a body that was not read. It closes the connection, because the rest of the
    /// body may follow.
    pub(super) fn body_error(&self, body_error: BodyError) -> HttpResponse {
        let mut reply = match body_error {
            BodyError::TooSlow => response::refuse(408, "The body took too long to arrive"),
            BodyError::NoRoom => response::busy(
                RefusalReason::MessageMemory,
                "Too many bytes are being received: try again later",
            ),
            BodyError::Broken => response::refuse(400, "The body ended before its declared length"),
            BodyError::TooLong => match self.context.wire.too_long() {
                Received::Reply(reply, status, refused) => {
                    response::replied(status, reply, refused)
                }
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
        let endpoint = self.endpoint.clone();
        let (mut parts, body) = request.into_parts();
        Box::pin(async move {
            let mut scope = RequestExtensions::from(std::mem::take(&mut parts.extensions));
            let mut peer = None;
            if endpoint.observers.is_active() {
                scope.insert(ObservedTransport::Http);
                peer = client_of(&scope);
            }
            let mut reply = endpoint.request(&parts, scope, pin!(body)).await;
            endpoint.observe(&mut reply, &parts, peer);
            Ok(reply)
        })
    }
}

impl fmt::Debug for HttpService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpService").field("http", &self.endpoint.http).finish_non_exhaustive()
    }
}
