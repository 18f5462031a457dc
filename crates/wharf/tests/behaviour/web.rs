//! Minimal HTTP client support: headers of a message, and parsing of event streams. The `advisories` suite uses it too.
#![allow(dead_code, reason = "each suite has its own use for it")]

use std::{convert::Infallible, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::{Buf, Bytes, BytesMut};
use http::{HeaderMap, HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, combinators::BoxBody};
use hyper::body::Incoming;
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::Value;

/// `Accept` header of a client that accepts every response type.
pub const ANYTHING: &str = "application/json, text/event-stream";

/// Body of any type.
pub type AnyBody = BoxBody<Bytes, Infallible>;
/// Client with a connection pool.
pub type Pool = Client<HttpConnector, AnyBody>;

/// Maximum idle time of a pooled connection. Servers close idle connections after a longer time, and a request that is
/// sent at that moment is lost.
const FRESH: Duration = Duration::from_secs(2);

/// HTTP/1.1 client.
pub fn http1() -> Pool {
    Client::builder(TokioExecutor::new()).pool_idle_timeout(FRESH).build_http()
}

/// HTTP/2 client that sends all requests over one connection.
pub fn http2() -> Pool {
    Client::builder(TokioExecutor::new()).pool_idle_timeout(FRESH).http2_only(true).build_http()
}

pub fn whole(body: impl Into<Bytes>) -> AnyBody {
    Full::new(body.into()).boxed()
}

/// POST of one message, with the headers that its revision requires.
pub fn post(url: &str, revision: &str, message: impl Into<Bytes>) -> Request<AnyBody> {
    let message = message.into();
    let mut request = Request::post(url);
    let headers = request.headers_mut().expect("a readable address");
    *headers = heads(revision, &serde_json::from_slice(&message).unwrap_or_default());
    headers.insert(header::ACCEPT, HeaderValue::from_static(ANYTHING));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    request.body(whole(message)).expect("a request")
}

/// Headers that a client of `revision` sends with a message.
fn heads(revision: &str, message: &Value) -> HeaderMap {
    let mut heads = HeaderMap::new();
    let params = &message["params"];
    let own = params["_meta"]["io.modelcontextprotocol/protocolVersion"].as_str();
    let version = own.unwrap_or(revision);
    // Earlier revisions do not have the header, and `initialize` comes before the version is agreed on.
    let opens = message["method"] == "initialize" && version < "2026-07-28";
    if version >= "2025-06-18" && !opens {
        heads.insert("mcp-protocol-version", version.parse().expect("plain text"));
    }
    if version >= "2026-07-28" {
        if let Some(method) = message["method"].as_str() {
            heads.insert("mcp-method", mirrored(method));
        }
        let name = match message["method"].as_str() {
            Some("tools/call" | "prompts/get") => params["name"].as_str(),
            Some("resources/read") => params["uri"].as_str(),
            _ => None,
        };
        heads
            .extend(name.map(|name| (header::HeaderName::from_static("mcp-name"), mirrored(name))));
    }
    heads
}

/// Value of an `Mcp-Name` or `Mcp-Param-*` header, encoded if necessary.
pub fn mirrored(value: &str) -> HeaderValue {
    let plain = value.bytes().all(|byte| matches!(byte, b' '..=b'~'))
        && value.trim() == value
        && !value.starts_with("=?base64?");
    let value = match plain {
        true => value.to_owned(),
        false => format!("=?base64?{}?=", STANDARD.encode(value)),
    };
    value.parse().expect("plain text")
}

/// Returns true if a response is an event stream.
pub fn is_events(response: &Response<Incoming>) -> bool {
    response.headers().get(header::CONTENT_TYPE).is_some_and(|it| it == "text/event-stream")
}

/// One event of a stream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Event {
    pub id: Option<String>,
    pub name: Option<String>,
    pub retry: Option<u64>,
    pub data: String,
}

/// Parser of an event stream, one event after the other, as the standard specifies.
pub struct Events {
    body: Incoming,
    unread: BytesMut,
    /// True if a carriage return ended the last line: a newline that follows belongs to it.
    returned: bool,
}

impl Events {
    pub fn of(response: Response<Incoming>) -> Events {
        assert!(is_events(&response), "{response:?}");
        Events { body: response.into_body(), unread: BytesMut::new(), returned: false }
    }

    /// Next event; `None` at the end, regular or not.
    pub async fn next(&mut self) -> Option<Event> {
        let mut event = Event::default();
        let mut lines = 0;
        loop {
            let line = self.line().await?;
            let (field, value) = line.split_once(':').unwrap_or((&line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value).to_owned();
            match field {
                "" if line.is_empty() && (lines > 0 || event != Event::default()) => {
                    return Some(event);
                }
                "" => {}
                "id" => event.id = Some(value),
                "event" => event.name = Some(value),
                "retry" => event.retry = value.parse().ok(),
                "data" => {
                    event.data += if lines > 0 { "\n" } else { "" };
                    event.data += &value;
                    lines += 1;
                }
                other => panic!("no field of an event: {other}"),
            }
        }
    }

    /// Next message; `None` at the end.
    pub async fn message(&mut self) -> Option<Value> {
        loop {
            let data = self.next().await?.data;
            if !data.is_empty() {
                return Some(serde_json::from_str(&data).unwrap_or_else(|_| panic!("{data:?}")));
            }
        }
    }

    /// Reads a line, which ends with a newline, a carriage return, or both.
    async fn line(&mut self) -> Option<String> {
        loop {
            if self.returned && self.unread.first() == Some(&b'\n') {
                self.unread.advance(1);
            }
            self.returned &= self.unread.is_empty();
            if let Some(end) = self.unread.iter().position(|byte| matches!(byte, b'\n' | b'\r')) {
                let line = self.unread.split_to(end);
                self.returned = self.unread.get_u8() == b'\r';
                return Some(String::from_utf8(line.to_vec()).expect("UTF-8"));
            }
            let frame = self.body.frame().await?.ok()?;
            self.unread.extend_from_slice(&frame.into_data().unwrap_or_default());
        }
    }
}
