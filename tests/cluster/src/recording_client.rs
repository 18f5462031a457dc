//! A hand-written client of the handshake era, which records every event of a stream with its id.

use std::{collections::BTreeSet, io, net::SocketAddr, time::Duration};

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response, StatusCode,
    body::{Bytes, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    net::TcpStream,
    time::{Instant, sleep, timeout, timeout_at},
};

use crate::{
    recording_tools::{minutes, question, reply_to},
    sse::{SILENCE_TIMEOUT, SseEvents},
};

const REVISION: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

/// A session of the handshake era.
#[derive(Clone, Debug)]
pub struct LegacySession {
    address: SocketAddr,
    who: String,
    id: String,
}

/// Record of a call.
#[derive(Debug)]
pub struct CallRecord {
    /// The ids of the events, in order.
    pub ids: Vec<String>,
    /// The messages without the response.
    pub messages: Vec<Value>,
    /// Number of times the stream broke and was resumed.
    pub resumed: usize,
    pub end: CallEnd,
}

#[derive(Debug)]
pub enum CallEnd {
    /// The call was answered.
    Answered(Value),
    /// The connection ended before there was an id to resume from.
    Unknown,
    /// The server rejected the resumption, or sent invalid data.
    Lost(String),
}

impl LegacySession {
    /// Opens a session. Retries until `patience` has passed.
    ///
    /// # Errors
    /// If no server responds as expected.
    pub async fn open(address: SocketAddr, who: &str, patience: Duration) -> io::Result<Self> {
        let mut session = LegacySession { address, who: who.into(), id: String::new() };
        let message = hello();
        let until = Instant::now() + patience;
        loop {
            let opened = session.opened(&message).await;
            match opened {
                Ok(id) => session.id = id,
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => {
                    sleep(Duration::from_millis(50)).await;
                    continue;
                }
            }
            let told = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            while session.send("POST", None, Some(&told)).await.is_err() {
                sleep(Duration::from_millis(50)).await;
            }
            return Ok(session);
        }
    }

    /// Response of a server that rejects a new session: the status, and the retry delay.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn refused(address: SocketAddr, who: &str) -> io::Result<(u16, Option<String>)> {
        let session = LegacySession { address, who: who.into(), id: String::new() };
        let reply = session.send("POST", None, Some(&hello())).await?;
        let after = reply.headers().get("retry-after").and_then(|it| it.to_str().ok());
        Ok((reply.status().as_u16(), after.map(str::to_owned)))
    }

    async fn opened(&self, message: &Value) -> io::Result<String> {
        let reply = self.send("POST", None, Some(message)).await?;
        let id = reply.headers().get("mcp-session-id").and_then(|it| it.to_str().ok());
        let id = id.map(str::to_owned);
        let status = reply.status();
        let body = timeout(SILENCE_TIMEOUT, reply.into_body().collect()).await?;
        let body = body.map_err(io::Error::other)?.to_bytes();
        id.ok_or_else(|| io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body))))
    }

    /// Calls a tool, and resumes its stream whenever it breaks.
    pub async fn call(
        &self,
        id: u64,
        tool: &str,
        arguments: &Value,
        patience: Duration,
    ) -> CallRecord {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments,
        }});
        let mut heard = CallRecord::new();
        let until = Instant::now() + patience;
        let mut reply = match self.send("POST", None, Some(&message)).await {
            Ok(reply) => Some(reply),
            Err(_) => return heard,
        };
        let mut problem = String::new();
        while Instant::now() < until {
            if let Some(reply) = reply.take() {
                // A stream sends keep-alives even without events.
                let followed = timeout_at(until, self.follow(reply, id, &mut heard)).await;
                match followed.unwrap_or_else(|late| Err(late.into())) {
                    Ok(Some(answer)) => {
                        heard.end = CallEnd::Answered(answer);
                        return heard;
                    }
                    Ok(None) => {}
                    Err(error) => problem = error.to_string(),
                }
            }
            let Some(last) = heard.ids.last().cloned() else { return heard };
            heard.resumed += 1;
            match self.send("GET", Some(&last), None).await {
                Ok(again) => reply = Some(again),
                Err(error) => problem = error.to_string(),
            }
            sleep(Duration::from_millis(20)).await;
        }
        heard.end = CallEnd::Lost(format!("no answer in time; at last: {problem}"));
        heard
    }

    /// Reads a reply to its end; returns the response to the call, if it is there.
    async fn follow(
        &self,
        reply: Response<Incoming>,
        id: u64,
        heard: &mut CallRecord,
    ) -> io::Result<Option<Value>> {
        let status = reply.status();
        let kind = reply.headers().get("content-type").cloned();
        let streams = kind.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        let body = reply.into_body();
        if status != StatusCode::OK || !streams {
            let body = timeout(SILENCE_TIMEOUT, body.collect()).await?.map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            if status != StatusCode::OK {
                return Err(io::Error::other(format!("{status}: {text}")));
            }
            return serde_json::from_str(&text).map(Some).map_err(io::Error::other);
        }
        let mut events = SseEvents::new(body);
        while let Some(event) = events.next().await? {
            heard.ids.extend(event.id);
            let Some(message) = event.message else { continue };
            if message["id"] == json!(id) && message.get("method").is_none() {
                return Ok(Some(message));
            }
            if message["method"] == json!("elicitation/create") {
                tokio::spawn(self.clone().answer(message.clone()));
            }
            heard.messages.push(message);
        }
        Ok(None)
    }

    /// Responds to a client request, at any process, until it is accepted.
    async fn answer(self, question: Value) {
        let text = question["params"]["message"].as_str().unwrap_or_default();
        let content = json!({"word": reply_to(&self.who, text)});
        let result = json!({"action": "accept", "content": content});
        let answer = json!({"jsonrpc": "2.0", "id": question["id"], "result": result});
        let _ = self.notify(&answer, SILENCE_TIMEOUT).await;
    }

    /// Sends a message without a response, until it is accepted.
    ///
    /// # Errors
    /// If it is not accepted in time.
    pub async fn notify(&self, message: &Value, patience: Duration) -> io::Result<()> {
        let until = Instant::now() + patience;
        loop {
            let problem = match self.send("POST", None, Some(message)).await {
                Ok(reply) if reply.status() == StatusCode::ACCEPTED => return Ok(()),
                Ok(reply) => io::Error::other(reply.status().to_string()),
                Err(error) => error,
            };
            if Instant::now() > until {
                return Err(problem);
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends an idempotent request, until it is answered.
    ///
    /// # Errors
    /// If it is not answered in time.
    pub async fn ask(&self, method: &str, params: &Value, patience: Duration) -> io::Result<Value> {
        let message = json!({"jsonrpc": "2.0", "id": method, "method": method, "params": params});
        let until = Instant::now() + patience;
        loop {
            let asked = async {
                let reply = self.send("POST", None, Some(&message)).await?;
                let mut heard = CallRecord::new();
                let answer =
                    timeout(SILENCE_TIMEOUT, self.follow(reply, u64::MAX, &mut heard)).await??;
                let streamed =
                    || heard.messages.iter().find(|it| it["id"] == message["id"]).cloned();
                answer.or_else(streamed).ok_or_else(|| io::Error::other("no answer"))
            };
            match asked.await {
                Ok(answer) => return Ok(answer),
                Err(error) if Instant::now() > until => return Err(error),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Opens the session's own stream, after the event of this id.
    ///
    /// # Errors
    /// If it is not available now.
    pub async fn own_stream(&self, last: Option<&str>) -> io::Result<SseEvents> {
        let reply = self.send("GET", last, None).await?;
        match reply.status() {
            StatusCode::OK => Ok(SseEvents::new(reply.into_body())),
            status => Err(io::Error::other(status.to_string())),
        }
    }

    /// Status that another caller gets who uses this session's id.
    ///
    /// # Errors
    /// If there is no response.
    pub async fn spied_by(&self, who: &str, last: Option<&str>) -> io::Result<u16> {
        let spy = LegacySession { who: who.into(), ..self.clone() };
        Ok(spy.send("GET", last, None).await?.status().as_u16())
    }

    async fn send(
        &self,
        verb: &str,
        last: Option<&str>,
        message: Option<&Value>,
    ) -> io::Result<Response<Incoming>> {
        let mut headers = vec![];
        if !self.id.is_empty() {
            headers.extend([("mcp-session-id", &*self.id), ("mcp-protocol-version", REVISION)]);
        }
        headers.extend(last.map(|last| ("last-event-id", last)));
        send(self.address, &self.who, verb, &headers, message).await
    }
}

/// Sends a request over its own connection.
async fn send(
    address: SocketAddr,
    who: &str,
    verb: &str,
    headers: &[(&str, &str)],
    message: Option<&Value>,
) -> io::Result<Response<Incoming>> {
    let sent = async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let mut request = Request::builder()
            .method(verb)
            .uri("/mcp")
            .header("host", address.to_string())
            .header("authorization", format!("Bearer {who}"))
            .header("accept", "application/json, text/event-stream");
        if message.is_some() {
            request = request.header("content-type", "application/json");
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let body = message.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::new(Bytes::from(body))).map_err(io::Error::other)?;
        sender.send_request(request).await.map_err(io::Error::other)
    };
    timeout(SILENCE_TIMEOUT, sent).await?
}

/// Subscribes as modern clients do, to the list of tools and these resources.
///
/// # Errors
/// If it is not available now.
pub async fn listen(address: SocketAddr, who: &str, uris: &[String]) -> io::Result<SseEvents> {
    let method = "subscriptions/listen";
    let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {
        "notifications": {"toolsListChanged": true, "resourceSubscriptions": uris},
        "_meta": {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientInfo": {"name": "by-hand", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {},
        },
    }});
    let headers = [("mcp-protocol-version", MODERN), ("mcp-method", method)];
    let reply = send(address, who, "POST", &headers, Some(&message)).await?;
    match reply.status() {
        StatusCode::OK => Ok(SseEvents::new(reply.into_body())),
        status => Err(io::Error::other(status.to_string())),
    }
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": REVISION, "capabilities": {"elicitation": {}},
        "clientInfo": {"name": "by-hand", "version": "1"},
    }})
}

/// Requests a path and returns the status.
///
/// # Errors
/// If there is no response.
pub async fn status(address: SocketAddr, path: &str) -> io::Result<u16> {
    let asked = async {
        let stream = TcpStream::connect(address).await?;
        let (mut sender, connection) =
            http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        let request = Request::get(path).header("host", address.to_string());
        let request = request.body(Full::new(Bytes::new())).map_err(io::Error::other)?;
        let reply = sender.send_request(request).await.map_err(io::Error::other)?;
        Ok(reply.status().as_u16())
    };
    timeout(SILENCE_TIMEOUT, asked).await?
}

impl CallRecord {
    fn new() -> Self {
        CallRecord { ids: vec![], messages: vec![], resumed: 0, end: CallEnd::Unknown }
    }

    /// Returns whether the call was answered with a result.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        matches!(&self.end, CallEnd::Answered(answer) if answer.get("result").is_some())
    }

    /// Error of a stream that should have sent `who`'s numbers from 1 to `to`.
    #[must_use]
    pub fn problem(&self, who: &str, to: u32) -> Option<String> {
        let numbers: Vec<_> = (1..=to).map(|number| format!("{who} {number}")).collect();
        let told = |message: &Value| message["params"]["data"].as_str().map(str::to_owned);
        self.unlike(&numbers, told, &format!("{who} {to}"))
    }

    /// Error of a call that should have sent `who` this number of client requests.
    #[must_use]
    pub fn problem_of_questions(&self, who: &str, key: &str, questions: u32) -> Option<String> {
        let asked: Vec<_> = (0..questions).map(|number| question(key, number)).collect();
        let told = |message: &Value| message["params"]["message"].as_str().map(str::to_owned);
        self.unlike(&asked, told, &minutes(who, key, questions))
    }

    /// Error unless the messages contain these texts in order, and the result has this text.
    fn unlike(
        &self,
        expected: &[String],
        told: impl Fn(&Value) -> Option<String>,
        result: &str,
    ) -> Option<String> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.ids.iter().find(|id| !seen.insert(*id)) {
            return Some(format!("the event {twice} came twice: {self:?}"));
        }
        for (index, message) in self.messages.iter().enumerate() {
            let (told, expected) = (told(message), expected.get(index));
            if told.as_ref() != expected {
                return Some(format!("{told:?} came in the place of {expected:?}: {self:?}"));
            }
        }
        let (came, all) = (self.messages.len(), expected.len());
        match &self.end {
            CallEnd::Unknown => None,
            CallEnd::Lost(why) => Some(format!("{why}: {came} of {all} came, {:?}", self.ids)),
            // The process that ran it is lost, and the cluster reported it.
            CallEnd::Answered(answer) if answer.get("error").is_some() => None,
            CallEnd::Answered(answer) => {
                let is_right = answer["result"]["content"][0]["text"].as_str() == Some(result);
                let is_whole = came == all && is_right;
                (!is_whole).then(|| format!("the stream and its end do not fit: {self:?}"))
            }
        }
    }
}
