//! The example as a process that is told to end while calls and streams are open.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{process::Stdio, time::Duration};

use axum::http::{HeaderValue, Request, Response};
use futures_util::{SinkExt, StreamExt};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::{
    client::legacy::{Client, connect::HttpConnector},
    rt::TokioExecutor,
};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, BufReader},
    net::TcpStream,
    process::{Child, Command},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

const MODERN: &str = "2026-07-28";
/// How long anything may take before the test gives up.
const PATIENCE: Duration = Duration::from_secs(60);
const TOKEN: HeaderValue = HeaderValue::from_static("Bearer alice-secret");

/// Not a test: what the tests below run in a process of its own.
#[test]
#[ignore = "the tests of signals start it"]
fn the_example() {
    if std::env::var_os("ADDRESS").is_some() {
        super::main().unwrap();
    }
}

struct Example {
    process: Child,
    address: String,
    pool: Client<HttpConnector, Full<Bytes>>,
}

impl Example {
    async fn start() -> Example {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::the_example", "--ignored", "--nocapture"])
            .env("ADDRESS", "127.0.0.1:0")
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let address = loop {
            let line = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap().unwrap();
            if let Some((_, rest)) = line.split_once("http://") {
                break rest.split('/').next().unwrap().to_owned();
            }
        };
        // Nothing it prints later may find a closed pipe.
        tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
        Example { process, address, pool: Client::builder(TokioExecutor::new()).build_http() }
    }

    async fn send(&self, request: Request<Full<Bytes>>) -> Response<Incoming> {
        let response = timeout(PATIENCE, self.pool.request(request)).await.unwrap().unwrap();
        assert_eq!(response.status(), 200, "{response:?}");
        response
    }

    fn request(&self, verb: &str, session: Option<&HeaderValue>) -> http::request::Builder {
        let request = Request::builder()
            .method(verb)
            .uri(format!("http://{}/weather/mcp", self.address))
            .header("authorization", TOKEN)
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        match session {
            Some(session) => request.header("mcp-session-id", session),
            None => request,
        }
    }

    async fn modern(&self, message: &Value) -> Response<Incoming> {
        let mut request = self
            .request("POST", None)
            .header("mcp-protocol-version", MODERN)
            .header("mcp-method", message["method"].as_str().unwrap());
        if let Some(name) = message["params"]["name"].as_str() {
            request = request.header("mcp-name", name);
        }
        self.send(request.body(message.to_string().into()).unwrap()).await
    }

    async fn legacy(&self, session: Option<&HeaderValue>, message: &Value) -> Response<Incoming> {
        let request = self.request("POST", session).body(message.to_string().into()).unwrap();
        self.send(request).await
    }

    async fn websocket(&self) -> WebSocketStream<TcpStream> {
        let url = format!("ws://{}/weather/mcp", self.address);
        let mut request = url.into_client_request().unwrap();
        request.headers_mut().insert("authorization", TOKEN);
        request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
        let stream = TcpStream::connect(&self.address).await.unwrap();
        client_async(request, stream).await.unwrap().0
    }

    async fn send_signal(&mut self, signal: &str) {
        let process = self.process.id().unwrap().to_string();
        let told = Command::new("kill").args(["-s", signal, &process]).status().await.unwrap();
        assert!(told.success());
    }
}

fn modern(method: &str, mut params: Value) -> Value {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn watch(seconds: u32) -> Value {
    json!({"name": "watch", "arguments": {"seconds": seconds}, "_meta": {"progressToken": 1}})
}

/// A response that has begun: its first piece is there.
struct Open(Response<Incoming>, Vec<u8>);

impl Open {
    async fn of(mut response: Response<Incoming>) -> Open {
        let first = timeout(PATIENCE, response.frame()).await.unwrap().unwrap().unwrap();
        Open(response, first.into_data().unwrap().to_vec())
    }

    /// The last message, once the response has ended as it should.
    async fn last(self) -> Value {
        let Open(response, mut text) = self;
        text.extend(timeout(PATIENCE, response.collect()).await.unwrap().unwrap().to_bytes());
        let text = String::from_utf8(text).unwrap();
        let mut data = text.lines().rev().filter_map(|line| line.strip_prefix("data: "));
        data.next().map_or(Value::Null, |data| serde_json::from_str(data).unwrap())
    }
}

#[track_caller]
fn assert_cut(reply: &Value) {
    assert_eq!(reply["error"]["code"], 1008, "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains("shutting down"), "{reply}");
}

/// Holds streams and calls open, tells the process to end, and counts what became of them.
async fn ends_in_good_order(signal: &str) {
    let mut example = Example::start().await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = Open::of(example.modern(&modern("subscriptions/listen", filter)).await).await;
    let brief = Open::of(example.modern(&modern("tools/call", watch(2))).await).await;
    let long = Open::of(example.modern(&modern("tools/call", watch(600))).await).await;
    let client = json!({"name": "test", "version": "1"});
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client,
    }});
    let opened = example.legacy(None, &initialize).await;
    let session = opened.headers()["mcp-session-id"].clone();
    let stream = example.request("GET", Some(&session)).body(Full::default()).unwrap();
    let stream = example.send(stream).await;
    let call = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": watch(600)});
    let legacy = Open::of(example.legacy(Some(&session), &call).await).await;
    let mut socket = None;
    if cfg!(feature = "websocket") {
        let mut open = example.websocket().await;
        let call = modern("tools/call", watch(600)).to_string();
        open.send(Message::text(call)).await.unwrap();
        assert!(timeout(PATIENCE, open.next()).await.unwrap().unwrap().unwrap().is_text());
        socket = Some(open);
    }

    example.send_signal(signal).await;

    assert_eq!(listen.last().await["result"]["resultType"], "complete");
    let brief = brief.last().await;
    assert_eq!(brief["result"]["content"][0]["text"], "It still rains.", "{brief}");
    assert_cut(&long.last().await);
    let own = timeout(PATIENCE, stream.collect()).await.unwrap().unwrap();
    assert!(!String::from_utf8_lossy(&own.to_bytes()).contains("error"));
    let legacy = legacy.last().await;
    assert_eq!(legacy["id"], 2);
    assert_cut(&legacy);
    if let Some(mut socket) = socket {
        let mut last = Value::Null;
        while let Some(Ok(frame)) = timeout(PATIENCE, socket.next()).await.unwrap() {
            if let Message::Text(text) = frame {
                last = serde_json::from_str(&text).unwrap();
            }
        }
        assert_cut(&last);
    }
    let status = timeout(PATIENCE, example.process.wait()).await.expect("an end").unwrap();
    assert_eq!(status.code(), Some(0));
}

#[tokio::test]
async fn sigterm_ends_the_example_in_good_order() {
    ends_in_good_order("TERM").await;
}

#[tokio::test]
async fn sigint_ends_the_example_in_good_order() {
    ends_in_good_order("INT").await;
}
