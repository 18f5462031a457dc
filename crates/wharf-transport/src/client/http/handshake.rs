//! How a conversation is opened, and of which kind it is.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method as Verb, StatusCode};
use tokio::time::timeout;
use wharf_client::ServerInfo;
use wharf_model::{Error, ErrorKind};
use wharf_wire::{Answered, Carrier, ClientCodec, Negotiation, ServerMessage, Step};

use crate::client::http::{
    auth,
    auth::AuthWait,
    error::{ErrorResponse, is_inconclusive},
    response::{HttpResponse, MediaKind, SseStream, printable_excerpt},
    send::HttpSender,
    server_url::ServerUrl,
    session::{closed, session_id, to_header_map},
};
use crate::client::{TraceEvent, handshake::server_info};

/// How much is read of an answer that is no message.
const MAX_OTHER_BODY_BYTES: usize = 1 << 20;
/// How many events may come before the one that is waited for.
const MAX_EVENTS_BEFORE_REPLY: usize = 1000;

/// What an opening led to.
pub(super) struct HttpHandshakeResult {
    pub(super) codec: ClientCodec,
    pub(super) about: ServerInfo,
    /// What to say first.
    pub(super) then: Option<Vec<u8>>,
    pub(super) mode: DetectedMode,
}

/// How messages are to travel.
pub(super) enum DetectedMode {
    Modern,
    /// With the id of the session, if the server wants one.
    Session(Option<HeaderValue>),
    /// Replies come on the stream; messages go to the place.
    Events(Box<SseStream>, ServerUrl),
}

/// Finds out what the server speaks, and opens the conversation. `key` is what it is remembered by.
pub(super) async fn open(http: &Arc<HttpSender>, key: &str) -> Result<HttpHandshakeResult, Error> {
    let options = &http.options;
    let remembered = options.revision_cache.get(key).filter(|_| options.pin.is_none());
    if let Some(credentials) = &options.credentials {
        // Where they are kept, somebody may have to unlock them first: no server waits for that.
        credentials.show("POST", &http.url.to_string()).await?;
    }
    let client = options.client.clone();
    let mut negotiation = Negotiation::new(client, Carrier::Http, options.pin, remembered);
    let mut prober =
        Prober { http, last: HeaderMap::new(), codec: negotiation.talk(), events: None };
    let mut step = negotiation.start();
    loop {
        step = match step {
            Step::Send { message, headers, patience, .. } => {
                match prober.send(message, &headers, options.time(patience)).await? {
                    Some((status, body)) => negotiation
                        .answered(Answered::Http { status: status.as_u16(), body: &body }),
                    None => negotiation.answered(Answered::Silence),
                }
            }
            // Every answer over HTTP came with its request.
            Step::Wait(_) => negotiation.answered(Answered::Silence),
            Step::TryEvents => {
                prober.try_events().await?;
                negotiation.over_events()
            }
            Step::Open { talk: codec, info, discovery, supported, then } => {
                if options.pin.is_none() {
                    options.revision_cache.put(key, codec.revision());
                }
                let about = server_info(&codec, info, discovery, supported);
                let mode = prober.mode(&codec)?;
                return Ok(HttpHandshakeResult { codec, about, then, mode });
            }
            Step::Fail(error) => return Err(error),
        };
    }
}

/// What the opening goes over.
struct Prober<'a> {
    http: &'a HttpSender,
    /// The headers of the last answer.
    last: HeaderMap,
    /// Reads what comes before the revision is settled.
    codec: ClientCodec,
    /// Once it goes over HTTP+SSE.
    events: Option<(Box<SseStream>, ServerUrl)>,
}

impl Prober<'_> {
    fn mode(self, codec: &ClientCodec) -> Result<DetectedMode, Error> {
        Ok(match self.events {
            Some((stream, to)) => DetectedMode::Events(stream, to),
            // A session is nothing to a modern server, even if it names one.
            None if codec.is_modern() => DetectedMode::Modern,
            None => DetectedMode::Session(session_id(&self.last)?),
        })
    }

    /// Sends a message: the status and the body of the answer, or the reply out of its events; nothing
    /// if that takes too long. Getting in first takes as long as it takes: people may be asked.
    async fn send(
        &mut self,
        message: Vec<u8>,
        heads: &[(String, String)],
        patience: Duration,
    ) -> Result<Option<(StatusCode, Bytes)>, Error> {
        self.http.options.trace(TraceEvent::Sent(&message));
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

    /// The answer to a request, once we got in; nothing if it takes too long.
    async fn send_authenticated(
        &self,
        verb: &Verb,
        heads: &HeaderMap,
        message: &Bytes,
        patience: Duration,
    ) -> Result<Option<HttpResponse>, Error> {
        let http = self.http;
        let mut times = 0;
        loop {
            let attempt = http.attempt(verb, &http.url, heads, message);
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

    /// Sends a message whose reply comes on the stream that is there.
    async fn send_over_sse(
        &mut self,
        heads: &HeaderMap,
        message: Bytes,
    ) -> Result<(StatusCode, Bytes), Error> {
        let (http, Some((stream, to))) = (self.http, &mut self.events) else {
            return Err(closed("There is no stream to reply on"));
        };
        let post = async {
            let response = http.send(Verb::POST, to, heads, message).await?;
            if !response.status.is_success() {
                return Err(ErrorResponse::read(response, to, None).await.error);
            }
            response.drain().await;
            Ok(())
        };
        // The reply may overtake the answer to the message.
        let (_, reply) = tokio::try_join!(post, reply(stream, &self.codec))?;
        let body = reply.unwrap_or_default();
        self.trace(&body);
        Ok((StatusCode::OK, body))
    }

    fn trace(&self, body: &[u8]) {
        let options = &self.http.options;
        match body.trim_ascii_start().first() {
            None => {}
            Some(b'{' | b'[') => options.trace(TraceEvent::Received(body)),
            Some(_) => options.note(format_args!("no message: {}", printable_excerpt(body))),
        }
    }

    async fn body(&self, response: HttpResponse) -> Result<Bytes, Error> {
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
            // It is shown to whoever looks into it, and otherwise means nothing.
            _ => Ok(response.read_all(limit.min(MAX_OTHER_BODY_BYTES)).await.unwrap_or_default()),
        }
    }

    /// Opens the stream of HTTP+SSE, whose first event says where messages go.
    async fn try_events(&mut self) -> Result<(), Error> {
        let (http, url, patience) = (self.http, &self.http.url, self.http.options.handshake);
        let late = || Error::new(ErrorKind::RequestTimeout);
        let response =
            self.send_authenticated(&Verb::GET, &HeaderMap::new(), &Bytes::new(), patience).await?;
        let response = response.ok_or_else(late)?;
        if is_inconclusive(response.status) {
            return Err(ErrorResponse::read(response, url, None).await.error);
        }
        if !response.status.is_success() || response.media() != MediaKind::Events {
            let status_line = response.status_line();
            return Err(not_mcp_server(
                url,
                &format!("a GET of it is answered with {status_line}"),
            ));
        }
        let mut stream = response.events(http.options.limits.message);
        let first = timeout(patience, stream.next()).await.map_err(|_| late())??;
        let Some(event) = first.filter(|it| it.name.as_deref() == Some("endpoint")) else {
            return Err(not_mcp_server(url, "its stream does not begin with an endpoint"));
        };
        let to = url.join(&String::from_utf8_lossy(&event.data))?;
        if to.origin() != url.origin() {
            let there = to.origin();
            let why = format!("it wants messages sent to {there}, which is another origin");
            return Err(not_mcp_server(url, &why));
        }
        http.options.note(format_args!("HTTP+SSE of 2024-11-05: messages go to {to}"));
        self.events = Some((Box::new(stream), to));
        Ok(())
    }
}

/// The first event that is a reply; none if the stream ends without.
async fn reply(stream: &mut SseStream, codec: &ClientCodec) -> Result<Option<Bytes>, Error> {
    for _ in 0..MAX_EVENTS_BEFORE_REPLY {
        let Some(event) = stream.next().await? else { return Ok(None) };
        let heard = codec.hear(event.data.clone()).unwrap_or_default();
        if heard.iter().any(|it| matches!(it, ServerMessage::Reply { .. })) {
            return Ok(Some(event.data));
        }
    }
    Err(closed("The server says a lot, but does not reply"))
}

fn not_mcp_server(url: &ServerUrl, why: &str) -> Error {
    let problem = format!("{url} is no MCP server that we can speak with: {why}");
    Error::new(ErrorKind::TransportError).with_message(problem)
}
