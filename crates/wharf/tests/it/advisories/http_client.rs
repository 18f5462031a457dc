//! Streamable HTTP client whose requests tests can change.

use http::{HeaderName, HeaderValue, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::advisories::{
    harness::{Harness, PATIENCE},
    web::{self, AnyBody, Events, Pool, whole},
};

pub const MODERN: &str = "2026-07-28";
pub const LEGACY: &str = "2025-11-25";

pub const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");

#[derive(Clone)]
pub struct HttpClient {
    pub pool: Pool,
    pub url: String,
    pub revision: &'static str,
    pub session: Option<HeaderValue>,
    /// Bearer token.
    pub bearer: Option<&'static str>,
}

impl HttpClient {
    pub fn modern(harness: &Harness) -> HttpClient {
        let (pool, url) = (web::http1(), harness.url());
        HttpClient { pool, url, revision: MODERN, session: None, bearer: None }
    }

    /// Legacy client with a session.
    pub async fn legacy(harness: &Harness) -> HttpClient {
        HttpClient { revision: LEGACY, ..HttpClient::modern(harness) }.opened().await
    }

    /// One client of each era.
    pub async fn both(harness: &Harness) -> [HttpClient; 2] {
        [HttpClient::modern(harness), HttpClient::legacy(harness).await]
    }

    pub fn with_bearer(self, bearer: &'static str) -> HttpClient {
        HttpClient { bearer: Some(bearer), ..self }
    }

    /// Opens a session if the revision has sessions.
    pub async fn opened(mut self) -> HttpClient {
        if self.revision == MODERN {
            return self;
        }
        let response = self.send(&self.initialize()).await;
        assert_eq!(response.status(), 200, "{response:?}");
        self.session = response.headers().get(SESSION).cloned();
        assert!(self.session.is_some());
        reply(response).await;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.send(&initialized).await.status(), 202);
        self
    }

    pub fn initialize(&self) -> Value {
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "attacker", "version": "1"},
        });
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params})
    }

    /// Request in the format of this client's revision. All clients use the same id.
    pub fn message(&self, method: &str, mut params: Value) -> Value {
        if self.revision == MODERN {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
            meta["io.modelcontextprotocol/logLevel"] = "debug".into();
        }
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    }

    /// Tool call with a progress token.
    pub fn tool(&self, name: &str, arguments: Value) -> Value {
        let meta = json!({"progressToken": "token"});
        self.message("tools/call", json!({"name": name, "arguments": arguments, "_meta": meta}))
    }

    /// POST of a message with all headers of this client.
    pub fn post(&self, message: &Value) -> Request<AnyBody> {
        self.signed(web::post(&self.url, self.revision, message.to_string()))
    }

    /// Request without a message.
    pub fn bare(&self, verb: &str) -> Request<AnyBody> {
        let request = Request::builder().method(verb).uri(&self.url);
        let request = request.header(header::ACCEPT, "text/event-stream").body(whole(""));
        self.signed(request.expect("a request"))
    }

    fn signed(&self, mut request: Request<AnyBody>) -> Request<AnyBody> {
        let token = self.bearer.map(|it| format!("Bearer {it}").parse().expect("plain text"));
        let headers = request.headers_mut();
        headers.extend(token.map(|it| (header::AUTHORIZATION, it)));
        headers.extend(self.session.clone().map(|it| (SESSION, it)));
        request
    }

    pub async fn send(&self, message: &Value) -> Response<Incoming> {
        self.request(self.post(message)).await
    }

    pub async fn request(&self, request: Request<AnyBody>) -> Response<Incoming> {
        let response = timeout(PATIENCE, self.pool.request(request)).await.expect("patience");
        response.expect("the server answers")
    }

    /// Calls a tool and returns all messages of the response; the last one is the reply.
    pub async fn messages(&self, name: &str, arguments: Value) -> Vec<Value> {
        let response = self.send(&self.tool(name, arguments)).await;
        assert_eq!(response.status(), 200);
        messages(response).await
    }

    /// Calls a tool and expects a single text.
    pub async fn text(&self, name: &str, arguments: Value) -> String {
        let reply = self.messages(name, arguments).await.pop().expect("a reply");
        text(&reply).to_owned()
    }

    /// Asserts that the server still responds.
    pub async fn works(&self) {
        assert_eq!(self.text("echo", json!({"text": "on"})).await, "on");
    }

    /// Opens the session's GET stream.
    pub async fn listen(&self) -> Events {
        let response = self.request(self.bare("GET")).await;
        assert_eq!(response.status(), 200);
        Events::of(response)
    }
}

/// Text of a result that contains nothing else.
pub fn text(reply: &Value) -> &str {
    assert_ne!(reply["result"]["isError"], true, "{reply}");
    reply["result"]["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{reply}"))
}

/// All messages of a response.
pub async fn messages(response: Response<Incoming>) -> Vec<Value> {
    if web::is_events(&response) {
        let mut events = Events::of(response);
        let mut messages = Vec::new();
        while let Some(message) = timeout(PATIENCE, events.message()).await.expect("patience") {
            messages.push(message);
        }
        return messages;
    }
    let body = body(response).await;
    match body.is_empty() {
        true => Vec::new(),
        false => vec![serde_json::from_slice(&body).unwrap_or_else(|_| panic!("{body:?}"))],
    }
}

/// The last message of a response.
pub async fn reply(response: Response<Incoming>) -> Value {
    messages(response).await.pop().unwrap_or_default()
}

pub async fn body(response: Response<Incoming>) -> bytes::Bytes {
    let body = timeout(PATIENCE, response.into_body().collect()).await.expect("patience");
    body.expect("a whole body").to_bytes()
}
