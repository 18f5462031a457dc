//! Handshake over HTTP: negotiates the revision and detects the mode (stateless, session,
//! HTTP+SSE). What each HTTP status leads to: `wharf-wire/src/client/negotiation/http_fallback.rs`.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method as Verb, StatusCode};
use tokio::time::timeout;
use wharf_client::ServerInfo;
use wharf_model::{Error, ErrorKind, FailureOrigin};
use wharf_wire::{
    AllowedRevisions, ClientCodec, Negotiation, NegotiationEvent, NegotiationStep, ServerMessage,
    TransportKind,
};

use crate::client::http::{
    auth,
    auth::AuthWait,
    error_response::{ErrorResponse, is_inconclusive},
    response::{MediaKind, ServerResponse, SseStream, printable_excerpt},
    send::{HttpSender, MAX_REDIRECTS},
    server_url::ServerUrl,
    session::{closed, session_id, to_header_map},
};
use crate::client::{
    TraceEvent,
    handshake::{negotiation_error, server_info},
};

/// Maximum length of a body that is not a JSON-RPC message.
const MAX_OTHER_BODY_BYTES: usize = 1 << 20;
/// Maximum number of events before the reply.
const MAX_EVENTS_BEFORE_REPLY: usize = 1000;

/// The result of a handshake.
pub(super) struct HttpHandshakeResult {
    pub(super) codec: ClientCodec,
    pub(super) about: ServerInfo,
    /// The first message to send (`notifications/initialized`).
    pub(super) then: Option<Vec<u8>>,
    pub(super) mode: DetectedMode,
}

/// The detected mode.
pub(super) enum DetectedMode {
    Stateless,
    /// With the session id, if the server assigned one.
    Session(Option<HeaderValue>),
    /// Replies arrive on the stream; messages are posted to the URL.
    Events(Box<SseStream>, ServerUrl),
}

/// Negotiates the revision. `key` identifies the server in the revision cache.
pub(super) async fn open(http: &Arc<HttpSender>, key: &str) -> Result<HttpHandshakeResult, Error> {
    let options = &http.options;
    let remembered = options.revision_cache.get(key);
    if let Some(credentials) = &options.credentials {
        // The token store may have to be unlocked by the user: that must not run against a timeout
        // of the server.
        let attached = credentials.attach("POST", &http.url.to_string()).await;
        attached.map_err(auth::unauthorized)?;
    }
    let client = options.client.clone();
    let mut negotiation =
        Negotiation::new(client, TransportKind::Http, options.revisions, remembered);
    let mut prober =
        Prober { http, last: HeaderMap::new(), codec: negotiation.codec(), events: None };
    let mut step = negotiation.start();
    loop {
        step = match step {
            NegotiationStep::Send { message, headers, timeout: patience, .. } => {
                match prober.send(message, &headers, options.time(patience)).await? {
                    Some((status, body)) => negotiation
                        .answered(NegotiationEvent::Http { status: status.as_u16(), body: &body }),
                    None => negotiation.answered(NegotiationEvent::Silence),
                }
            }
            // Every reply over HTTP arrives with its request.
            NegotiationStep::Wait(_) => negotiation.answered(NegotiationEvent::Silence),
            NegotiationStep::TryEvents => {
                prober.try_events().await?;
                negotiation.over_events()
            }
            NegotiationStep::Open { codec, info, discovery, supported, then } => {
                if options.revisions == AllowedRevisions::Any {
                    options.revision_cache.put(key, codec.revision());
                }
                let about = server_info(&codec, info, discovery, supported);
                let mode = prober.mode(&codec)?;
                return Ok(HttpHandshakeResult { codec, about, then, mode });
            }
            NegotiationStep::Fail(error) => {
                return Err(negotiation_error(error, options.handshake));
            }
        };
    }
}

/// Sends the messages of the negotiation.
struct Prober<'a> {
    http: &'a HttpSender,
    /// The headers of the last response.
    last: HeaderMap,
    /// Decodes messages before the revision is negotiated.
    codec: ClientCodec,
    /// Set once the negotiation uses HTTP+SSE.
    events: Option<(Box<SseStream>, ServerUrl)>,
}

impl Prober<'_> {
    fn mode(self, codec: &ClientCodec) -> Result<DetectedMode, Error> {
        Ok(match self.events {
            Some((stream, to)) => DetectedMode::Events(stream, to),
            // There is no session then, even if the server sends a session id.
            None if !codec.has_sessions() => DetectedMode::Stateless,
            None => DetectedMode::Session(session_id(&self.last)?),
        })
    }

    /// Sends a message: the status and the body of the response, or the reply from its events;
    /// `None` after the timeout. Authorization is not limited by the timeout, because it may
    /// involve the user.
    async fn send(
        &mut self,
        message: Vec<u8>,
        heads: &[(String, String)],
        patience: Duration,
    ) -> Result<Option<(StatusCode, Bytes)>, Error> {
        self.http.options.record(TraceEvent::Sent(&message));
        let (heads, message) = (to_header_map(heads)?, Bytes::from(message));
        if self.events.is_some() {
            let answered = timeout(patience, self.send_over_sse(&heads, message)).await;
            return answered.map_or(Ok(None), |it| it.map(Some));
        }
        let Some(response) =
            self.send_authenticated(&Verb::POST, &heads, &message, patience).await?
        else {
            return Ok(None);
        };
        self.last.clone_from(&response.headers);
        let status = response.status;
        let Ok(body) = timeout(patience, self.body(response)).await else { return Ok(None) };
        let body = body?;
        self.trace(&body);
        Ok(Some((status, body)))
    }

    /// Sends a request, with retries after authorization; `None` after the timeout.
    async fn send_authenticated(
        &self,
        verb: &Verb,
        heads: &HeaderMap,
        message: &Bytes,
        patience: Duration,
    ) -> Result<Option<ServerResponse>, Error> {
        let http = self.http;
        let (mut times, mut redirects) = (0, MAX_REDIRECTS);
        loop {
            let attempt = http.attempt(verb, &http.url, heads, message, &mut redirects);
            let Ok(tried) = timeout(patience, attempt).await else { return Ok(None) };
            let tried = tried?;
            let again = {
                let _login = http.begin_login();
                auth::should_retry(&http.options, verb, &tried, times, AuthWait::Interactive)
                    .await?
            };
            if !again {
                return Ok(Some(tried.response));
            }
            tried.response.drain().await;
            times += 1;
        }
    }

    /// Posts a message; its reply arrives on the SSE stream.
    async fn send_over_sse(
        &mut self,
        heads: &HeaderMap,
        message: Bytes,
    ) -> Result<(StatusCode, Bytes), Error> {
        let (http, Some((stream, to))) = (self.http, &mut self.events) else {
            return Err(closed("There is no SSE stream for replies"));
        };
        let post = async {
            let response = http.send(Verb::POST, to, heads, message).await?;
            if !response.status.is_success() {
                return Err(ErrorResponse::read(response, to, None).await.error);
            }
            response.drain().await;
            Ok(())
        };
        // The reply may arrive before the response to the POST.
        let (_, reply) = tokio::try_join!(post, reply(stream, &self.codec))?;
        let body = reply.unwrap_or_default();
        self.trace(&body);
        Ok((StatusCode::OK, body))
    }

    fn trace(&self, body: &[u8]) {
        let options = &self.http.options;
        match body.trim_ascii_start().first() {
            None => {}
            Some(b'{' | b'[') => options.record(TraceEvent::Received(body)),
            Some(_) => {
                options.note(format_args!("not a JSON-RPC message: {}", printable_excerpt(body)))
            }
        }
    }

    async fn body(&self, response: ServerResponse) -> Result<Bytes, Error> {
        let limit = self.http.options.limits.message;
        match response.media() {
            _ if is_inconclusive(response.status) => {
                Err(ErrorResponse::read(response, &self.http.url, None).await.error)
            }
            MediaKind::Json => response.read_all(limit).await,
            MediaKind::Events if response.status.is_success() => {
                let mut stream = response.events(limit);
                Ok(reply(&mut stream, &self.codec).await?.unwrap_or_default())
            }
            // The body is only used for the trace.
            _ => Ok(response.read_all(limit.min(MAX_OTHER_BODY_BYTES)).await.unwrap_or_default()),
        }
    }

    /// Opens the SSE stream of HTTP+SSE; its first event names the URL for messages.
    async fn try_events(&mut self) -> Result<(), Error> {
        let (http, url, patience) = (self.http, &self.http.url, self.http.options.handshake);
        let late = || negotiation_error(Error::new(ErrorKind::RequestTimeout), patience);
        let response =
            self.send_authenticated(&Verb::GET, &HeaderMap::new(), &Bytes::new(), patience).await?;
        let response = response.ok_or_else(late)?;
        if is_inconclusive(response.status) {
            return Err(ErrorResponse::read(response, url, None).await.error);
        }
        if !response.status.is_success() || response.media() != MediaKind::Events {
            let status_line = response.status_line();
            return Err(not_mcp_server(url, &format!("a GET request returned {status_line}")));
        }
        let mut stream = response.events(http.options.limits.message);
        let first = timeout(patience, stream.next()).await.map_err(|_| late())??;
        let Some(event) = first.filter(|it| it.name.as_deref() == Some("endpoint")) else {
            return Err(not_mcp_server(
                url,
                "its SSE stream does not begin with an endpoint event",
            ));
        };
        let to = url.join(&String::from_utf8_lossy(&event.data));
        let to = to.map_err(|error| error.without_origin().from_client(FailureOrigin::Protocol))?;
        if to.origin() != url.origin() {
            let there = to.origin();
            let why = format!("its endpoint event names {there}, which is another origin");
            return Err(not_mcp_server(url, &why));
        }
        http.options
            .note(format_args!("the server has the HTTP+SSE transport: messages go to {to}"));
        self.events = Some((Box::new(stream), to));
        Ok(())
    }
}

/// The first event that is a reply; `None` if the stream ends without one.
async fn reply(stream: &mut SseStream, codec: &ClientCodec) -> Result<Option<Bytes>, Error> {
    for _ in 0..MAX_EVENTS_BEFORE_REPLY {
        let Some(event) = stream.next().await? else { return Ok(None) };
        let heard = codec.decode(event.data.clone()).unwrap_or_default();
        if heard.iter().any(|it| matches!(it, ServerMessage::Reply { .. })) {
            return Ok(Some(event.data));
        }
    }
    Err(closed("The server sent too many events without a reply"))
}

fn not_mcp_server(url: &ServerUrl, why: &str) -> Error {
    let problem = format!("{url} is not a supported MCP server: {why}");
    Error::new(ErrorKind::TransportError).with_message(problem).from_client(FailureOrigin::Protocol)
}
