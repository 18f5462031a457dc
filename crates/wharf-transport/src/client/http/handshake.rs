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
    error::{ErrorResponse, is_no_verdict},
    response::{HttpResponse, SseStream, MediaKind, on_one_line},
    send::HttpSender,
    server_url::ServerUrl,
    session::{closed, headers, session_id},
};
use crate::client::{TraceEvent, handshake::introduced};

/// How much is read of an answer that is no message.
const GARBAGE: usize = 1 << 20;
/// How many events may come before the one that is waited for.
const BEFORE: usize = 1000;

/// What an opening led to.
pub(super) struct HttpHandshakeResult {
    pub(super) talk: ClientCodec,
    pub(super) about: ServerInfo,
    /// What to say first.
    pub(super) then: Option<Vec<u8>>,
    pub(super) speech: DetectedMode,
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
    let remembered = options.verdicts.get(key).filter(|_| options.pin.is_none());
    if let Some(credentials) = &options.credentials {
        // Where they are kept, somebody may have to unlock them first: no server waits for that.
        credentials.show("POST", &http.place.to_string()).await?;
    }
    let client = options.client.clone();
    let mut opening = Negotiation::new(client, Carrier::Http, options.pin, remembered);
    let mut road = Prober { http, last: HeaderMap::new(), talk: opening.talk(), events: None };
    let mut step = opening.start();
    loop {
        step = match step {
            Step::Send { message, headers, patience, .. } => {
                match road.send(message, &headers, options.time(patience)).await? {
                    Some((status, body)) => {
                        opening.answered(Answered::Http { status: status.as_u16(), body: &body })
                    }
                    None => opening.answered(Answered::Silence),
                }
            }
            // Every answer over HTTP came with its request.
            Step::Wait(_) => opening.answered(Answered::Silence),
            Step::TryEvents => {
                road.try_events().await?;
                opening.over_events()
            }
            Step::Open { talk, info, discovery, supported, then } => {
                if options.pin.is_none() {
                    options.verdicts.put(key, talk.revision());
                }
                let about = introduced(&talk, info, discovery, supported);
                let speech = road.speech(&talk)?;
                return Ok(HttpHandshakeResult { talk, about, then, speech });
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
    talk: ClientCodec,
    /// Once it goes over HTTP+SSE.
    events: Option<(Box<SseStream>, ServerUrl)>,
}

impl Prober<'_> {
    fn speech(self, talk: &ClientCodec) -> Result<DetectedMode, Error> {
        Ok(match self.events {
            Some((stream, to)) => DetectedMode::Events(stream, to),
            // A session is nothing to a modern server, even if it names one.
            None if talk.is_modern() => DetectedMode::Modern,
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
        let (heads, message) = (headers(heads)?, Bytes::from(message));
        if self.events.is_some() {
            let answered = timeout(patience, self.send_beside(&heads, message)).await;
            return answered.map_or(Ok(None), |it| it.map(Some));
        }
        let Some(answer) = self.admitted(&Verb::POST, &heads, &message, patience).await? else {
            return Ok(None);
        };
        self.last.clone_from(&answer.headers);
        let status = answer.status;
        let Ok(body) = timeout(patience, self.body(answer)).await else { return Ok(None) };
        let body = body?;
        self.trace(&body);
        Ok(Some((status, body)))
    }

    /// The answer to a request, once we got in; nothing if it takes too long.
    async fn admitted(
        &self,
        verb: &Verb,
        heads: &HeaderMap,
        message: &Bytes,
        patience: Duration,
    ) -> Result<Option<HttpResponse>, Error> {
        let http = self.http;
        let mut times = 0;
        loop {
            let attempt = http.attempt(verb, &http.place, heads, message);
            let Ok(tried) = timeout(patience, attempt).await else { return Ok(None) };
            let tried = tried?;
            let again = {
                let _login = http.log_in();
                auth::again(&http.options, verb, &tried, times, AuthWait::Interactive).await?
            };
            if !again {
                return Ok(Some(tried.answer));
            }
            tried.answer.spend().await;
            times += 1;
        }
    }

    /// Sends a message whose reply comes on the stream that is there.
    async fn send_beside(
        &mut self,
        heads: &HeaderMap,
        message: Bytes,
    ) -> Result<(StatusCode, Bytes), Error> {
        let (http, Some((stream, to))) = (self.http, &mut self.events) else {
            return Err(closed("There is no stream to reply on"));
        };
        let post = async {
            let answer = http.send(Verb::POST, to, heads, message).await?;
            if !answer.status.is_success() {
                return Err(ErrorResponse::read(answer, to, None).await.error);
            }
            answer.spend().await;
            Ok(())
        };
        // The reply may overtake the answer to the message.
        let (_, reply) = tokio::try_join!(post, reply(stream, &self.talk))?;
        let body = reply.unwrap_or_default();
        self.trace(&body);
        Ok((StatusCode::OK, body))
    }

    fn trace(&self, body: &[u8]) {
        let options = &self.http.options;
        match body.trim_ascii_start().first() {
            None => {}
            Some(b'{' | b'[') => options.trace(TraceEvent::Received(body)),
            Some(_) => options.note(format_args!("no message: {}", on_one_line(body))),
        }
    }

    async fn body(&self, answer: HttpResponse) -> Result<Bytes, Error> {
        let limit = self.http.options.limits.message;
        match answer.media() {
            _ if is_no_verdict(answer.status) => {
                Err(ErrorResponse::read(answer, &self.http.place, None).await.error)
            }
            MediaKind::Json => answer.whole(limit).await,
            MediaKind::Events if answer.status.is_success() => {
                let mut stream = answer.events(limit);
                Ok(reply(&mut stream, &self.talk).await?.unwrap_or_default())
            }
            // It is shown to whoever looks into it, and otherwise means nothing.
            _ => Ok(answer.whole(limit.min(GARBAGE)).await.unwrap_or_default()),
        }
    }

    /// Opens the stream of HTTP+SSE, whose first event says where messages go.
    async fn try_events(&mut self) -> Result<(), Error> {
        let (http, place, patience) = (self.http, &self.http.place, self.http.options.handshake);
        let late = || Error::new(ErrorKind::RequestTimeout);
        let answer = self.admitted(&Verb::GET, &HeaderMap::new(), &Bytes::new(), patience).await?;
        let answer = answer.ok_or_else(late)?;
        if is_no_verdict(answer.status) {
            return Err(ErrorResponse::read(answer, place, None).await.error);
        }
        if !answer.status.is_success() || answer.media() != MediaKind::Events {
            let head = answer.head();
            return Err(no_server(place, &format!("a GET of it is answered with {head}")));
        }
        let mut stream = answer.events(http.options.limits.message);
        let first = timeout(patience, stream.next()).await.map_err(|_| late())??;
        let Some(event) = first.filter(|it| it.name.as_deref() == Some("endpoint")) else {
            return Err(no_server(place, "its stream does not begin with an endpoint"));
        };
        let to = place.join(&String::from_utf8_lossy(&event.data))?;
        if to.origin() != place.origin() {
            let there = to.origin();
            let why = format!("it wants messages sent to {there}, which is another origin");
            return Err(no_server(place, &why));
        }
        http.options.note(format_args!("HTTP+SSE of 2024-11-05: messages go to {to}"));
        self.events = Some((Box::new(stream), to));
        Ok(())
    }
}

/// The first event that is a reply; none if the stream ends without.
async fn reply(stream: &mut SseStream, talk: &ClientCodec) -> Result<Option<Bytes>, Error> {
    for _ in 0..BEFORE {
        let Some(event) = stream.next().await? else { return Ok(None) };
        let heard = talk.hear(event.data.clone()).unwrap_or_default();
        if heard.iter().any(|it| matches!(it, ServerMessage::Reply { .. })) {
            return Ok(Some(event.data));
        }
    }
    Err(closed("The server says a lot, but does not reply"))
}

fn no_server(place: &ServerUrl, why: &str) -> Error {
    let problem = format!("{place} is no MCP server that we can speak with: {why}");
    Error::new(ErrorKind::TransportError).with_message(problem)
}
