//! A client that disconnects, at any moment, must not harm the server or other calls.

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient, LAST_EVENT, MODERN},
    raw_http,
    web::{self, Events},
};

/// Closes the connection with FIN, or with RST if `rudely` is set.
async fn disconnect(stream: TcpStream, rudely: bool) {
    if rudely {
        stream.set_zero_linger().unwrap();
    }
    drop(stream);
}

/// Raw HTTP request that calls `count`.
fn count(harness: &Harness, caller: &HttpClient, id: usize) -> String {
    let mut call = caller.tool("count", json!({"to": 4}));
    call["id"] = id.into();
    let session = caller.session.as_ref().map(|it| ("mcp-session-id", it.to_str().unwrap()));
    let heads = match caller.revision {
        MODERN => vec![raw_http::VERSION, ("mcp-method", "tools/call"), ("mcp-name", "count")],
        _ => Vec::from_iter(session),
    };
    raw_http::post(harness, &heads, &call.to_string())
}

/// CVE-2025-53366: an incomplete request ended the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_breaks_off_breaks_nothing() {
    let harness = Harness::start().await;
    for caller in HttpClient::both(&harness).await {
        let request = count(&harness, &caller, 0);
        for end in 0..request.len() {
            for rudely in [false, true] {
                let mut stream = harness.connect().await;
                stream.write_all(&request.as_bytes()[..end]).await.unwrap();
                disconnect(stream, rudely).await;
            }
        }
        caller.works().await;
    }
    // No part of a message is processed as a message.
    assert_eq!(harness.counts.begun.get(), 0);
}

/// CVE-2025-53365: a connection that closed during a write ended the server.
#[tokio::test(flavor = "multi_thread")]
async fn a_response_that_is_not_read_completely_breaks_nothing() {
    let harness = Harness::start().await;
    let mut calls = 0;
    for caller in HttpClient::both(&harness).await {
        // One response is read completely, so that a call has finished.
        let mut read = Vec::new();
        for end in 0.. {
            let request = count(&harness, &caller, end);
            let request = request.replacen("\r\n\r\n", "\r\nconnection: close\r\n\r\n", 1);
            let mut stream = harness.connect().await;
            stream.write_all(request.as_bytes()).await.unwrap();
            read.clear();
            (&mut stream).take(end as u64).read_to_end(&mut read).await.unwrap();
            disconnect(stream, end % 2 == 0).await;
            calls += 1;
            if read.len() < end {
                break;
            }
        }
        assert!(read.windows(8).any(|it| it == b"progress"));
        caller.works().await;
    }
    // Every handler that has started has ended.
    let begun = harness.counts.begun.get();
    assert!(begun <= calls && begun >= calls / 2, "{begun} of {calls}");
    harness.counts.ended.reaches(begun).await;
    harness.stop().await;
}

/// Stage of the response at which the client disconnects.
#[derive(Clone, Copy, Debug)]
enum ResponseStage {
    BeforeItBegins,
    OnceItHasBegun,
}

/// Calls `wait` and disconnects.
async fn disconnect_during_call(
    harness: &Harness,
    caller: &HttpClient,
    moment: ResponseStage,
) -> Option<String> {
    let mut call = caller.tool("wait", json!({}));
    if let ResponseStage::BeforeItBegins = moment {
        // Without progress, the server has nothing to send before the result.
        call["params"]["_meta"].as_object_mut().unwrap().remove("progressToken");
    }
    let before = harness.counts.begun.get();
    match moment {
        ResponseStage::BeforeItBegins => {
            let request = tokio::spawn(caller.pool.request(caller.post(&call)));
            harness.counts.begun.reaches(before + 1).await;
            request.abort();
            None
        }
        ResponseStage::OnceItHasBegun => {
            let mut events = Events::of(caller.send(&call).await);
            events.next().await?.id
        }
    }
}

/// TS#611, rust-sdk#857, mcp-ts-core#401: calls of a disconnected client ran for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_disconnect_of_a_modern_client_cancels_its_call() {
    let harness = Harness::start().await;
    let mut left = 0;
    for pool in [web::http1, web::http2] {
        for moment in [ResponseStage::BeforeItBegins, ResponseStage::OnceItHasBegun] {
            let caller = HttpClient { pool: pool(), ..HttpClient::modern(&harness) };
            // Repeated, as in a rapid reset attack (CVE-2023-44487).
            for _ in 0..50 {
                disconnect_during_call(&harness, &caller, moment).await;
                left += 1;
            }
            harness.counts.ended.reaches(left).await;
            caller.works().await;
        }
    }
    assert_eq!((harness.counts.begun.get(), harness.counts.finished.get()), (left, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_client_that_is_cut_off_does_not_lose_its_call() {
    let harness = Harness::start().await;
    let mut left = Vec::new();
    for pool in [web::http1, web::http2] {
        for moment in [ResponseStage::BeforeItBegins, ResponseStage::OnceItHasBegun] {
            let caller = HttpClient::legacy(&harness).await;
            let caller = HttpClient { pool: pool(), ..caller };
            let event = disconnect_during_call(&harness, &caller, moment).await;
            left.push((caller, event));
        }
    }
    assert_eq!(harness.counts.ended.get(), 0);
    harness.counts.gate.add();
    harness.counts.finished.reaches(left.len() as u64).await;
    for (caller, event) in left {
        let Some(event) = event else { continue };
        let mut resume = caller.bare("GET");
        resume.headers_mut().insert(LAST_EVENT, event.parse().unwrap());
        let reply: Value = http_client::reply(caller.request(resume).await).await;
        assert_eq!(http_client::text(&reply), "through");
    }
}

/// Cancellation, or the end of the session, ends the call.
#[tokio::test(flavor = "multi_thread")]
async fn a_call_does_not_outlive_its_cancellation_or_its_session() {
    let harness = Harness::start().await;
    let caller = HttpClient::legacy(&harness).await;
    let mut events = Events::of(caller.send(&caller.tool("wait", json!({}))).await);
    harness.counts.begun.reaches(1).await;
    let cancelled =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    assert_eq!(caller.send(&cancelled).await.status(), 202);
    harness.counts.ended.reaches(1).await;
    while let Some(message) = events.message().await {
        assert_eq!(message["method"], "notifications/progress");
    }
    let mut events = Events::of(caller.send(&caller.tool("wait", json!({}))).await);
    harness.counts.begun.reaches(2).await;
    assert_eq!(caller.request(caller.bare("DELETE")).await.status(), 204);
    harness.counts.ended.reaches(2).await;
    while events.next().await.is_some() {}
    assert_eq!(harness.counts.finished.get(), 0);
}
