//! Graceful shutdown completes in time, however many streams are open.

use std::{sync::Arc, time::Duration};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    sync::Barrier,
    task::JoinSet,
    time::timeout,
};
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use wharf::{
    http::HttpLimits,
    server::{Limits, LineLimits},
};

use crate::advisories::{
    attacked_server::{EventCounter, gated},
    harness::{Harness, PATIENCE},
    http_client::{HttpClient, LEGACY},
    web::{self, Events},
};

/// Number of subscriptions of each kind. The sum of the connections is near the common limit of open files of a
/// process.
const LISTENS: usize = 900;
const SESSIONS: usize = 800;
const OLD_LINES: usize = 150;
const WEBSOCKETS: usize = 150;
/// Number of streams on one HTTP/2 connection.
const SHARED: usize = 100;

/// A modern subscription ends with its result and nothing after it.
async fn listen(caller: HttpClient, ready: Arc<Barrier>) {
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let response = caller.send(&caller.message("subscriptions/listen", filter)).await;
    let mut events = Events::of(response);
    let acknowledged = events.message().await.unwrap();
    assert_eq!(acknowledged["method"], "notifications/subscriptions/acknowledged");
    ready.wait().await;
    let result = events.message().await.expect("a result");
    assert_eq!(result["id"], 1);
    assert_eq!(result["result"]["resultType"], "complete", "{result}");
    assert_eq!(events.message().await, None);
}

/// The stream of a legacy session ends without a message.
async fn follow(caller: HttpClient, ready: Arc<Barrier>) {
    let mut events = caller.opened().await.listen().await;
    ready.wait().await;
    assert_eq!(events.message().await, None);
}

/// A WebSocket ends with a close frame.
async fn websocket(harness: Arc<Harness>, ready: Arc<Barrier>) {
    let mut request = format!("ws://{}/mcp", harness.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let (mut socket, _) = client_async(request, harness.connect().await).await.unwrap();
    drop(harness);
    ready.wait().await;
    while let Some(Ok(frame)) = socket.next().await {
        if let Message::Close(Some(close)) = frame {
            assert_eq!(u16::from(close.code), 1001);
            return;
        }
    }
    panic!("no good-bye");
}

/// go-sdk#1166: closing waited for itself. kaeru#11: a graceful shutdown waited for every stream.
#[tokio::test(flavor = "multi_thread")]
async fn thousands_of_streams_do_not_keep_the_server_from_its_end() {
    // All streams end by notification; none is aborted by the timeout.
    let harness = Arc::new(Harness::limited(HttpLimits::default().grace(2 * PATIENCE)).await);
    let count = LISTENS + SESSIONS + OLD_LINES + WEBSOCKETS;
    let ready = Arc::new(Barrier::new(count + 1));
    let modern = HttpClient::modern(&harness);
    let mut streams = JoinSet::new();
    for kind in 0..(LISTENS + SESSIONS) / SHARED {
        let caller = HttpClient { pool: web::http2(), ..modern.clone() };
        for _ in 0..SHARED {
            match kind < LISTENS / SHARED {
                true => streams.spawn(listen(caller.clone(), ready.clone())),
                false => {
                    let caller = HttpClient { revision: LEGACY, ..caller.clone() };
                    streams.spawn(follow(caller, ready.clone()))
                }
            };
        }
    }
    for _ in 0..OLD_LINES {
        streams.spawn(listen(HttpClient { pool: web::http1(), ..modern.clone() }, ready.clone()));
    }
    for _ in 0..WEBSOCKETS {
        streams.spawn(websocket(harness.clone(), ready.clone()));
    }
    timeout(PATIENCE, ready.wait()).await.expect("patience");
    let harness = Arc::into_inner(harness).expect("the last one");
    harness.stop().await;
    let ended = timeout(PATIENCE, streams.join_all()).await.expect("patience");
    assert_eq!(ended.len(), count);
}

/// Checks the error of an aborted call: the server is shutting down, and the call may be retried.
#[track_caller]
fn assert_cut(reply: &Value) {
    assert_eq!(reply["error"]["code"], 1008, "{reply}");
    let message = reply["error"]["message"].as_str().unwrap_or_default();
    assert!(message.contains("shutting down"), "{reply}");
    assert!(reply["error"]["data"]["retryAfterMs"].is_u64(), "{reply}");
}

/// A call that does not end is aborted after the graceful shutdown timeout, and gets an error response.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_does_not_end_does_not_keep_the_server_from_its_end() {
    let harness = Harness::limited(HttpLimits::default().grace(Duration::from_millis(200))).await;
    let mut calls = JoinSet::new();
    let mut begun = 0;
    for pool in [web::http1, web::http2] {
        for caller in HttpClient::both(&harness).await {
            let caller = HttpClient { pool: pool(), ..caller };
            let mut events = Events::of(caller.send(&caller.tool("wait", json!({}))).await);
            begun += 1;
            harness.counts.begun.reaches(begun).await;
            calls.spawn(async move {
                let mut last = Value::Null;
                while let Some(message) = events.message().await {
                    last = message;
                }
                last
            });
        }
    }
    let counts = harness.counts.clone();
    harness.stop().await;
    counts.ended.reaches(begun).await;
    for reply in timeout(PATIENCE, calls.join_all()).await.expect("patience") {
        assert_cut(&reply);
    }
    assert_eq!(counts.finished.get(), 0);
}

/// The same before any output, when the error determines the HTTP status; and in a batch.
#[tokio::test(flavor = "multi_thread")]
async fn a_silent_call_that_is_cut_is_answered_with_a_status() {
    let grace = HttpLimits::default().grace(Duration::from_millis(200));
    let gate = EventCounter::default();
    let held = gated("held", &gate, "never");
    let harness =
        Harness::tuned(|server| server.limits(Limits::default().http(grace)).add(held)).await;
    let mut calls = JoinSet::new();
    for pool in [web::http1, web::http2] {
        for caller in HttpClient::both(&harness).await {
            let caller = HttpClient { pool: pool(), ..caller };
            let message = caller.message("tools/call", json!({"name": "held", "arguments": {}}));
            calls.spawn(async move { caller.send(&message).await });
        }
    }
    // Once the last call runs, all earlier ones are in flight.
    let last = HttpClient::modern(&harness);
    let mut events = Events::of(last.send(&last.tool("wait", json!({}))).await);
    harness.counts.begun.reaches(1).await;
    assert!(events.message().await.is_some());
    tokio::time::sleep(Duration::from_millis(300)).await;
    harness.stop().await;
    for response in timeout(PATIENCE, calls.join_all()).await.expect("patience") {
        assert_eq!(response.status(), 503);
        assert!(response.headers().contains_key("retry-after"));
        assert_cut(&crate::advisories::http_client::reply(response).await);
    }
    assert_cut(&events.message().await.expect("a reply"));
}

/// The same over line transports: sockets, streams and WebSockets, in both eras.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_over_lines_that_is_cut_is_answered() {
    let grace = Duration::from_millis(200);
    let lines = LineLimits::default().grace(grace);
    let limits = Limits::default().lines(lines).http(HttpLimits::default().grace(grace));
    let harness = Arc::new(Harness::tuned(|server| server.limits(limits)).await);
    let modern = HttpClient::modern(&harness);
    let call = modern.tool("wait", json!({}));
    let mut request = format!("ws://{}/mcp", harness.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    let (mut socket, _) = client_async(request, harness.connect().await).await.unwrap();
    socket.send(Message::text(call.to_string())).await.unwrap();
    let (mut ours, theirs) = tokio::io::duplex(4 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let endpoint = harness.endpoint.clone();
    let serving = tokio::spawn(async move { endpoint.serve_stream(reader, writer).await });
    let legacy = HttpClient { revision: LEGACY, ..modern.clone() };
    let batch =
        json!([legacy.tool("wait", json!({})), {"jsonrpc": "2.0", "id": 2, "method": "ping"}]);
    let mut old = legacy.initialize();
    old["params"]["protocolVersion"] = "2025-03-26".into();
    for message in [old, json!({"jsonrpc": "2.0", "method": "notifications/initialized"}), batch] {
        ours.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    harness.counts.begun.reaches(2).await;
    Arc::into_inner(harness).expect("the last one").stop().await;
    let mut last = String::new();
    let mut said = String::new();
    timeout(PATIENCE, ours.read_to_string(&mut said)).await.expect("patience").unwrap();
    for line in said.lines() {
        line.clone_into(&mut last);
    }
    let replies: Vec<Value> = serde_json::from_str(&last).unwrap();
    let cut = replies.iter().find(|it| it["id"] == 1).expect("a reply");
    assert_cut(cut);
    assert_eq!(replies.len(), 2, "{last}");
    timeout(PATIENCE, serving).await.expect("patience").unwrap();
    let mut last = Value::Null;
    while let Some(Ok(frame)) = socket.next().await {
        match frame {
            Message::Text(text) => last = serde_json::from_str(&text).unwrap(),
            Message::Close(close) => assert_eq!(close.map(|it| u16::from(it.code)), Some(1001)),
            _ => {}
        }
    }
    assert_cut(&last);
}

/// A call that ends within the graceful shutdown timeout gets its result.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_under_way_is_not_cut_off() {
    let harness = Harness::limited(HttpLimits::default().grace(2 * PATIENCE)).await;
    let mut calls: JoinSet<Value> = JoinSet::new();
    let mut begun = 0;
    for pool in [web::http1, web::http2] {
        for caller in HttpClient::both(&harness).await {
            let caller = HttpClient { pool: pool(), ..caller };
            calls.spawn(async move { caller.messages("wait", json!({})).await.pop().unwrap() });
            begun += 1;
            harness.counts.begun.reaches(begun).await;
        }
    }
    let counts = harness.counts.clone();
    let stopping = tokio::spawn(harness.stop());
    counts.gate.add();
    for reply in calls.join_all().await {
        assert_eq!(crate::advisories::http_client::text(&reply), "through");
    }
    stopping.await.unwrap();
}
