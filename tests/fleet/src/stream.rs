//! A client of the handshake era by hand, which sees every event of a stream with its id.

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
    time::{Instant, sleep, timeout},
};

const REVISION: &str = "2025-11-25";
/// A server sends something every 15 seconds.
const SILENCE: Duration = Duration::from_secs(40);

/// A session of the handshake era.
#[derive(Clone, Debug)]
pub struct Session {
    address: SocketAddr,
    who: String,
    id: String,
}

/// What came of a call.
#[derive(Debug)]
pub struct Heard {
    /// The ids of the events, in order.
    pub ids: Vec<String>,
    /// The messages, the answer not among them.
    pub messages: Vec<Value>,
    /// How often the stream broke and was taken up again.
    pub resumed: usize,
    pub end: End,
}

#[derive(Debug)]
pub enum End {
    /// The call was answered.
    Answer(Value),
    /// The connection ended before there was anything to come back to.
    Unknown,
    /// The server did not let the client come back, or sent nonsense.
    Lost(String),
}

impl Session {
    /// Opens a session. Tries again for as long as `patience` lasts.
    ///
    /// # Errors
    /// If no server answers as it should.
    pub async fn open(address: SocketAddr, who: &str, patience: Duration) -> io::Result<Self> {
        let mut session = Session { address, who: who.into(), id: String::new() };
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

    /// What a server says that opens no session now: the status, and when to come back.
    ///
    /// # Errors
    /// If it says nothing.
    pub async fn refused(address: SocketAddr, who: &str) -> io::Result<(u16, Option<String>)> {
        let session = Session { address, who: who.into(), id: String::new() };
        let reply = session.send("POST", None, Some(&hello())).await?;
        let after = reply.headers().get("retry-after").and_then(|it| it.to_str().ok());
        Ok((reply.status().as_u16(), after.map(str::to_owned)))
    }

    async fn opened(&self, message: &Value) -> io::Result<String> {
        let reply = self.send("POST", None, Some(message)).await?;
        let id = reply.headers().get("mcp-session-id").and_then(|it| it.to_str().ok());
        let id = id.map(str::to_owned);
        let status = reply.status();
        let body = timeout(SILENCE, reply.into_body().collect()).await?;
        let body = body.map_err(io::Error::other)?.to_bytes();
        id.ok_or_else(|| io::Error::other(format!("{status}: {}", String::from_utf8_lossy(&body))))
    }

    /// Calls a tool, and comes back for the rest as often as the stream breaks.
    pub async fn call(&self, id: u64, tool: &str, arguments: &Value, patience: Duration) -> Heard {
        let message = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {
            "name": tool, "arguments": arguments,
        }});
        let mut heard = Heard { ids: vec![], messages: vec![], resumed: 0, end: End::Unknown };
        let until = Instant::now() + patience;
        let mut reply = match self.send("POST", None, Some(&message)).await {
            Ok(reply) => Some(reply),
            Err(_) => return heard,
        };
        let mut problem = String::new();
        while Instant::now() < until {
            if let Some(reply) = reply.take() {
                match self.follow(reply, id, &mut heard).await {
                    Ok(Some(answer)) => {
                        heard.end = End::Answer(answer);
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
        heard.end = End::Lost(format!("no answer in time; at last: {problem}"));
        heard
    }

    /// Reads a reply to its end: the answer to the call, if it is there.
    async fn follow(
        &self,
        reply: Response<Incoming>,
        id: u64,
        heard: &mut Heard,
    ) -> io::Result<Option<Value>> {
        let status = reply.status();
        let kind = reply.headers().get("content-type").cloned();
        let streams = kind.is_some_and(|it| it.as_bytes().starts_with(b"text/event-stream"));
        let mut body = reply.into_body();
        if status != StatusCode::OK || !streams {
            let body = timeout(SILENCE, body.collect()).await?.map_err(io::Error::other)?;
            let text = String::from_utf8_lossy(&body.to_bytes()).into_owned();
            if status != StatusCode::OK {
                return Err(io::Error::other(format!("{status}: {text}")));
            }
            return serde_json::from_str(&text).map(Some).map_err(io::Error::other);
        }
        let mut text = Vec::new();
        while let Some(frame) = timeout(SILENCE, body.frame()).await? {
            let frame = frame.map_err(io::Error::other)?;
            text.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
            while let Some(end) = text.windows(2).position(|it| it == b"\n\n") {
                let event: Vec<u8> = text.drain(..end + 2).collect();
                let event = String::from_utf8_lossy(&event).into_owned();
                if let Some(message) = heard.take(&event)? {
                    if message["id"] == json!(id) && message.get("method").is_none() {
                        return Ok(Some(message));
                    }
                    heard.messages.push(message);
                }
            }
        }
        Ok(None)
    }

    async fn send(
        &self,
        verb: &str,
        last: Option<&str>,
        message: Option<&Value>,
    ) -> io::Result<Response<Incoming>> {
        let sent = async {
            let stream = TcpStream::connect(self.address).await?;
            let (mut sender, connection) =
                http1::handshake(TokioIo::new(stream)).await.map_err(io::Error::other)?;
            tokio::spawn(connection);
            let mut request = Request::builder()
                .method(verb)
                .uri("/mcp")
                .header("host", self.address.to_string())
                .header("authorization", format!("Bearer {}", self.who))
                .header("accept", "application/json, text/event-stream");
            if message.is_some() {
                request = request.header("content-type", "application/json");
            }
            if !self.id.is_empty() {
                request = request
                    .header("mcp-session-id", &self.id)
                    .header("mcp-protocol-version", REVISION);
            }
            if let Some(last) = last {
                request = request.header("last-event-id", last);
            }
            let body = message.map(Value::to_string).unwrap_or_default();
            let request = request.body(Full::new(Bytes::from(body))).map_err(io::Error::other)?;
            sender.send_request(request).await.map_err(io::Error::other)
        };
        timeout(SILENCE, sent).await?
    }
}

fn hello() -> Value {
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": REVISION, "capabilities": {},
        "clientInfo": {"name": "by-hand", "version": "1"},
    }})
}

/// Asks for a path: the status.
///
/// # Errors
/// If nobody answers.
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
    timeout(SILENCE, asked).await?
}

impl Heard {
    /// Reads one event; an event without data only says where to come back to.
    fn take(&mut self, event: &str) -> io::Result<Option<Value>> {
        let field = |name: &str| {
            let fields = event.lines().filter_map(|line| line.strip_prefix(name));
            let values: Vec<_> = fields.map(|it| it.strip_prefix(' ').unwrap_or(it)).collect();
            (!values.is_empty()).then(|| values.join("\n"))
        };
        if let Some(id) = field("id:") {
            self.ids.push(id);
        }
        let data = field("data:").filter(|data| !data.is_empty());
        data.map(|data| serde_json::from_str(&data).map_err(io::Error::other)).transpose()
    }

    /// What is wrong with a stream that should have brought `who`'s numbers from 1 to `to`.
    #[must_use]
    pub fn problem(&self, who: &str, to: u32) -> Option<String> {
        let mut seen = BTreeSet::new();
        if let Some(twice) = self.ids.iter().find(|id| !seen.insert(*id)) {
            return Some(format!("the event {twice} came twice: {self:?}"));
        }
        let numbers = self.messages.iter().map(|it| it["params"]["data"].as_str());
        for (index, told) in numbers.enumerate() {
            let expected = format!("{who} {}", index + 1);
            if told != Some(&expected) {
                return Some(format!("{told:?} came in the place of {expected:?}: {self:?}"));
            }
        }
        match &self.end {
            End::Unknown => None,
            End::Lost(why) => {
                Some(format!("{why}: {} of {to} came, {:?}", self.messages.len(), self.ids))
            }
            // The process that ran it is gone, and somebody says so.
            End::Answer(answer) if answer.get("error").is_some() => None,
            End::Answer(answer) => {
                let whole = self.messages.len() == to as usize;
                let text = &answer["result"]["content"][0]["text"];
                let right = text.as_str() == Some(&format!("{who} {to}"));
                (!whole || !right).then(|| format!("the stream and its end do not fit: {self:?}"))
            }
        }
    }
}
