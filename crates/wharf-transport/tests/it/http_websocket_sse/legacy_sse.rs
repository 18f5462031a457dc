//! Legacy HTTP+SSE of 2024-11-05, through the endpoint as a tower service.

use std::{future::poll_fn, pin::Pin, time::Duration};

use bytes::Bytes;
use http::{Request, Response};
use http_body::Body;
use serde_json::{Value, json};
use tokio::time::timeout;
use tower_service::Service;
use wharf_model::Principal;
use wharf_transport::server::http::{Http, HttpBody};

use crate::http_websocket_sse::support::{
    TestEndpoint, initialize, initialized, legacy_tool, limit_messages, modern, text_of, tool,
};

fn http() -> Http {
    Http::new().sse_2024()
}

async fn request(
    endpoint_server: &TestEndpoint,
    request: http::request::Builder,
    who: Option<&str>,
    body: impl Into<String>,
) -> Response<HttpBody> {
    let mut request = request.header("host", "localhost").body(body.into()).unwrap();
    if let Some(who) = who {
        request.extensions_mut().insert(Principal::new(who));
    }
    endpoint_server.service.clone().call(request).await.unwrap()
}

async fn post_as(
    endpoint_server: &TestEndpoint,
    who: Option<&str>,
    path: &str,
    body: String,
) -> Response<HttpBody> {
    let post = Request::post(path).header("content-type", "application/json");
    request(endpoint_server, post, who, body).await
}

async fn chunk(body: &mut HttpBody) -> Option<Bytes> {
    let frame = poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await?;
    Some(frame.unwrap().into_data().unwrap())
}

async fn whole(reply: Response<HttpBody>) -> (u16, String) {
    let (status, mut body) = (reply.status().as_u16(), reply.into_body());
    let mut text = String::new();
    while let Some(more) = chunk(&mut body).await {
        text.push_str(std::str::from_utf8(&more).unwrap());
    }
    (status, text)
}

/// A client with an open event stream.
struct SseClient<'a> {
    endpoint_server: &'a TestEndpoint,
    who: Option<&'a str>,
    body: HttpBody,
    received: String,
    endpoint: String,
}

impl<'a> SseClient<'a> {
    async fn open(endpoint_server: &'a TestEndpoint, who: Option<&'a str>) -> SseClient<'a> {
        let get = Request::get("/sse").header("accept", "text/event-stream");
        let reply = request(endpoint_server, get, who, "").await;
        assert_eq!(reply.status(), 200);
        assert_eq!(reply.headers()["content-type"], "text/event-stream");
        let body = reply.into_body();
        let mut client = SseClient {
            endpoint_server,
            who,
            body,
            received: String::new(),
            endpoint: String::new(),
        };
        let (event, data) = client.event().await.unwrap();
        assert_eq!(event, "endpoint");
        client.endpoint = format!("/{data}");
        client
    }

    async fn post(&self, message: impl ToString) -> u16 {
        post_as(self.endpoint_server, self.who, &self.endpoint, message.to_string())
            .await
            .status()
            .as_u16()
    }

    async fn send(&self, message: impl ToString) {
        assert_eq!(self.post(message).await, 202);
    }

    /// Name and data of the next event; `None` at the end of the stream.
    async fn event(&mut self) -> Option<(String, String)> {
        loop {
            if let Some((event, rest)) = self.received.split_once("\n\n") {
                let (name, data) = event.split_once('\n').unwrap();
                let name = name.strip_prefix("event: ").unwrap().to_owned();
                let data = data.strip_prefix("data: ").unwrap().to_owned();
                self.received = rest.to_owned();
                return Some((name, data));
            }
            let more = chunk(&mut self.body).await?;
            self.received.push_str(std::str::from_utf8(&more).unwrap());
        }
    }

    async fn next(&mut self) -> Option<Value> {
        let (event, data) = self.event().await?;
        assert_eq!(event, "message");
        Some(serde_json::from_str(&data).unwrap())
    }

    async fn reply_to(&mut self, message: Value) -> Value {
        self.send(&message).await;
        let reply = self.next().await.unwrap();
        assert_eq!(reply["id"], message["id"], "{reply}");
        reply
    }
}

#[tokio::test(start_paused = true)]
async fn every_revision_is_served_with_server_to_client_requests() {
    let endpoint_server = TestEndpoint::new(http());
    for revision in ["2024-11-05", "2025-11-25"] {
        let mut client = SseClient::open(&endpoint_server, None).await;
        let reply = client.reply_to(initialize(revision)).await;
        assert_eq!(reply["result"]["protocolVersion"], revision);
        client.send(initialized()).await;
        assert_eq!(text_of(&client.reply_to(legacy_tool(1, "now")).await), "now");
        client.send(legacy_tool(2, "ask")).await;
        let ask = client.next().await.unwrap();
        assert_eq!(ask["method"], "roots/list");
        let answer = json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"roots": []}});
        client.send(answer).await;
        assert_eq!(client.next().await.unwrap()["id"], 2);
    }
    let mut client = SseClient::open(&endpoint_server, None).await;
    assert_eq!(text_of(&client.reply_to(tool(1, "now")).await), "now");
    client.send(modern(2, "subscriptions/listen", json!({"notifications": {}}))).await;
    let told = client.next().await.unwrap();
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
}

#[tokio::test(start_paused = true)]
async fn ids_are_long_and_never_the_same() {
    let endpoint_server = TestEndpoint::new(http());
    let (one, other) = (
        SseClient::open(&endpoint_server, None).await,
        SseClient::open(&endpoint_server, None).await,
    );
    for client in [&one, &other] {
        let id = client.endpoint.strip_prefix("/messages?session=").unwrap();
        assert!(id.len() == 32 && id.bytes().all(|it| it.is_ascii_hexdigit()), "{id}");
    }
    assert_ne!(one.endpoint, other.endpoint);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_visible_only_to_its_owner() {
    let endpoint_server = TestEndpoint::new(http());
    let mut alice = SseClient::open(&endpoint_server, Some("alice")).await;
    let nobody = SseClient::open(&endpoint_server, None).await;
    let (own, foreign) = (alice.endpoint.clone(), nobody.endpoint.clone());
    let mut refusals = Vec::new();
    for (who, path) in [
        (Some("mallory"), &*own),
        (None, &own),
        (Some("alice"), &foreign),
        (Some("alice"), "/messages?session=0123456789abcdef0123456789abcdef"),
        (Some("alice"), "/messages?session="),
        (Some("alice"), "/messages?other=1"),
        (Some("alice"), "/messages"),
    ] {
        refusals.push(
            whole(post_as(&endpoint_server, who, path, tool(1, "now").to_string()).await).await,
        );
    }
    assert_eq!(refusals[0].0, 404);
    assert!(refusals.iter().all(|it| *it == refusals[0]), "{refusals:?}");
    assert_eq!(text_of(&alice.reply_to(tool(2, "who")).await), "alice");
    alice.endpoint = own.replace("?", "?more=1&");
    assert_eq!(text_of(&alice.reply_to(tool(3, "who")).await), "alice");
}

#[tokio::test(start_paused = true)]
async fn an_invalid_message_is_rejected() {
    let endpoint_server = TestEndpoint::with(http(), |host| limit_messages(host, 1000));
    let client = SseClient::open(&endpoint_server, None).await;
    let post = || Request::post(&*client.endpoint);
    let json = "application/json";
    for (builder, body, expected) in [
        (Request::get("/sse").header("accept", json), "", 406),
        (Request::post("/sse").header("content-type", json), "{}", 405),
        (Request::get(&*client.endpoint), "", 405),
        (Request::delete("/sse"), "", 405),
        (post(), "{}", 415),
        (post().header("content-type", "text/plain"), "{}", 415),
        (post().header("content-type", json), &*"x".repeat(1001), 413),
        (post().header("content-type", json).header("origin", "http://evil.example"), "{}", 403),
        (Request::get("/sse").header("origin", "http://evil.example"), "", 403),
    ] {
        let shown = format!("{builder:?}");
        assert_eq!(
            request(&endpoint_server, builder, None, body).await.status(),
            expected,
            "{shown}"
        );
    }
    let evil = Request::get("/sse").header("host", "evil.example").body(String::new()).unwrap();
    assert_eq!(endpoint_server.service.clone().call(evil).await.unwrap().status(), 403);
    // The transport is served only if enabled.
    let modest = TestEndpoint::new(Http::new().stateless());
    let get = Request::get("/sse").header("accept", "text/event-stream");
    assert_eq!(request(&modest, get, None, "").await.status(), 405);
}

#[tokio::test(start_paused = true)]
async fn a_message_may_have_line_breaks_between_its_parts_but_not_within() {
    let endpoint_server = TestEndpoint::new(http());
    let mut client = SseClient::open(&endpoint_server, None).await;
    client.send(serde_json::to_string_pretty(&tool(1, "now")).unwrap().replace('\n', "\r\n")).await;
    assert_eq!(client.next().await.unwrap()["id"], 1);
    client.send(tool(2, "n\\no").to_string().replace("\\\\n", "\n")).await;
    assert_eq!(client.next().await.unwrap()["error"]["code"], -32700);
}

#[tokio::test(start_paused = true)]
async fn a_client_over_the_limit_is_refused_until_another_disconnects() {
    let endpoint_server = TestEndpoint::with(http(), |host| host.http_limits.sessions = 2);
    let first = SseClient::open(&endpoint_server, None).await;
    let _second = SseClient::open(&endpoint_server, None).await;
    let get = || Request::get("/sse").header("accept", "text/event-stream");
    let refused = request(&endpoint_server, get(), None, "").await;
    assert_eq!(
        (refused.status().as_u16(), &refused.headers()["retry-after"]),
        (503, &"1".parse().unwrap())
    );
    drop(first);
    SseClient::open(&endpoint_server, None).await;
}

/// Rule of `fair_eviction.rs`: only a caller with more than half of the slots loses a busy one.
#[tokio::test(start_paused = true)]
async fn a_caller_with_all_slots_does_not_block_a_new_caller() {
    let endpoint_server = TestEndpoint::with(http(), |host| host.http_limits.sessions = 4);
    let refused = async |who| {
        let get = Request::get("/sse").header("accept", "text/event-stream");
        let reply = request(&endpoint_server, get, Some(who), "").await;
        reply.status() == 503 && reply.headers()["retry-after"] == "1"
    };
    let mut mallory = Vec::new();
    for _ in 0..4 {
        mallory.push(SseClient::open(&endpoint_server, Some("mallory")).await);
    }
    assert!(refused("mallory").await);
    // One of the streams is evicted for each new caller. The others are still served.
    let mut alice = Vec::new();
    for left in [3, 2] {
        alice.push(SseClient::open(&endpoint_server, Some("alice")).await);
        let mut kept = Vec::new();
        for mut client in mallory {
            match client.post(tool(1, "who")).await {
                202 => {
                    assert_eq!(text_of(&client.next().await.unwrap()), "mallory");
                    kept.push(client);
                }
                status => assert_eq!((status, client.next().await), (404, None)),
            }
        }
        mallory = kept;
        assert_eq!(mallory.len(), left);
        assert!(refused("mallory").await);
    }
    // Each caller has half now: neither loses a stream, and new ones are rejected until one disconnects.
    for who in ["alice", "mallory", "bob"] {
        assert!(refused(who).await, "{who}");
    }
    for client in &mut alice {
        assert_eq!(text_of(&client.reply_to(tool(2, "who")).await), "alice");
    }
    mallory.pop();
    let mut bob = SseClient::open(&endpoint_server, Some("bob")).await;
    assert_eq!(text_of(&bob.reply_to(tool(3, "who")).await), "bob");
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_cancels_the_calls() {
    let endpoint_server = TestEndpoint::new(http());
    let client = SseClient::open(&endpoint_server, None).await;
    client.send(tool(1, "gate")).await;
    client.send(modern(2, "subscriptions/listen", json!({"notifications": {}}))).await;
    endpoint_server.until_running(2).await;
    let endpoint = client.endpoint.clone();
    drop(client);
    let late = post_as(&endpoint_server, None, &endpoint, tool(3, "now").to_string()).await;
    assert_eq!(late.status(), 404);
    endpoint_server.until_running(0).await;
    endpoint_server.until_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn an_unread_response_leaves_nothing_behind() {
    let endpoint_server = TestEndpoint::with(http(), |host| host.http_limits.sessions = 1);
    for _ in 0..100 {
        let get = Request::get("/sse").header("accept", "text/event-stream");
        assert_eq!(request(&endpoint_server, get, None, "").await.status(), 200);
    }
    endpoint_server.until_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn when_the_server_stops_calls_are_answered_and_streams_end() {
    let endpoint_server = TestEndpoint::new(http());
    let mut client = SseClient::open(&endpoint_server, None).await;
    client.send(tool(1, "gate")).await;
    client.send(modern(2, "subscriptions/listen", json!({"notifications": {}}))).await;
    assert!(client.next().await.unwrap()["method"].is_string());
    endpoint_server.shutdown.stop();
    assert_eq!(client.next().await.unwrap()["id"], 2);
    assert_eq!(client.next().await.unwrap()["method"], "notifications/cancelled");
    endpoint_server.gate.add_permits(1);
    assert_eq!(client.next().await.unwrap()["id"], 1);
    assert_eq!(client.next().await, None);
    drop(client);
    endpoint_server.until_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_silent_stream_sends_keep_alive_comments() {
    let endpoint_server = TestEndpoint::new(http());
    let mut client = SseClient::open(&endpoint_server, None).await;
    for _ in 0..3 {
        let sign = chunk(&mut client.body).await.unwrap();
        assert!(sign.starts_with(b":"), "{sign:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_held_back_and_served_once_it_reads() {
    let endpoint_server = TestEndpoint::with(http(), |host| host.limits.output = 64 << 10);
    let mut client = SseClient::open(&endpoint_server, None).await;
    let mut sent = 0;
    loop {
        match client.post(tool(sent, "long")).await {
            202 => sent += 1,
            status => break assert_eq!(status, 503),
        }
        assert!(sent < 10, "nothing holds it back");
    }
    for id in 0..sent {
        assert_eq!(client.next().await.unwrap()["id"], id);
    }
    assert_eq!(text_of(&client.reply_to(tool(99, "now")).await), "now");
}

#[tokio::test(start_paused = true)]
async fn messages_are_written_together_up_to_a_limit() {
    let endpoint_server = TestEndpoint::new(http());
    let mut client = SseClient::open(&endpoint_server, None).await;
    client.send(tool(1, "flood")).await;
    let mut largest = 0;
    for _ in 0..100 {
        let more = timeout(Duration::from_secs(1), chunk(&mut client.body)).await.unwrap().unwrap();
        largest = largest.max(more.len());
    }
    assert!((16 << 10..40 << 10).contains(&largest), "{largest}");
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_one_event() {
    let endpoint_server = TestEndpoint::new(http());
    let mut client = SseClient::open(&endpoint_server, None).await;
    let reply = client.reply_to(tool(1, "long")).await;
    assert_eq!(text_of(&reply).len(), 1 << 20);
    let long =
        modern(2, "tools/call", json!({"name": "now", "arguments": {"x": "é".repeat(1 << 19)}}));
    assert_eq!(text_of(&client.reply_to(long).await), "now");
}

#[tokio::test(start_paused = true)]
async fn messages_share_the_memory_budget_of_the_endpoint() {
    let endpoint_server = TestEndpoint::with(http(), |host| {
        host.http_limits.bodies = 1 << 20;
        limit_messages(host, 256 << 10);
    });
    let long = |name| {
        let arguments = json!({"text": "x".repeat(200_000)});
        modern(1, "tools/call", json!({"name": name, "arguments": arguments}))
    };
    let mut first = SseClient::open(&endpoint_server, Some("mallory")).await;
    first.send(long("gate")).await;
    endpoint_server.until_running(1).await;
    // Another connection of the same caller finds its share used up.
    let mut second = SseClient::open(&endpoint_server, Some("mallory")).await;
    second.send(long("gate")).await;
    let refused = second.next().await.unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("no memory"), "{refused}");
    let mut other = SseClient::open(&endpoint_server, Some("alice")).await;
    assert_eq!(text_of(&other.reply_to(long("now")).await), "now");
    endpoint_server.gate.add_permits(2);
    assert_eq!(text_of(&first.next().await.unwrap()), "open");
    assert_eq!(text_of(&second.reply_to(long("gate")).await), "open");
}
