//! Slow clients (Slowloris) are disconnected by timeouts.
//!
//! The timeouts are short; the tests check that each fires, not when.

use std::time::Duration;

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    time::{interval, timeout},
};
use wharf::http::HttpLimits;

use crate::advisories::{
    harness::{Harness, PATIENCE},
    http_client::{self, HttpClient},
    raw_http,
};

const SHORT: Duration = Duration::from_millis(300);
const PREFACE: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

fn impatient() -> HttpLimits {
    HttpLimits::default().head(SHORT).body(SHORT).write(SHORT)
}

/// Asserts that other clients are served meanwhile. A new connection each time, because idle ones are closed soon here.
async fn works(harness: &Harness) {
    HttpClient::modern(harness).works().await;
}

/// Under `axum::serve`, most of these connections stay open for ever.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_client_is_disconnected() {
    let harness = Harness::limited(impatient()).await;
    let call = raw_http::modern_call(&harness);
    let head = &call[..call.find("\r\n\r\n").unwrap() + 4];
    let mut streams = Vec::new();
    for begun in [
        "",
        "P",
        "PRI * HTT",
        PREFACE,
        "POST /mcp HT",
        "POST /mcp HTTP/1.1\r\n",
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\nx-slow: ",
        &head[..head.len() - 1],
        head,
        &call[..call.len() - 1],
    ] {
        let mut stream = harness.connect().await;
        stream.write_all(begun.as_bytes()).await.unwrap();
        streams.push((begun.to_owned(), stream));
    }
    // A connection that was served and then sends nothing more.
    let mut stream = harness.connect().await;
    stream.write_all(call.as_bytes()).await.unwrap();
    assert_eq!(raw_http::answer(&mut stream).await.unwrap().status, 200);
    streams.push(("a call".to_owned(), stream));
    for (begun, mut stream) in streams {
        let mut rest = Vec::new();
        let ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
        assert!(ended.is_ok(), "still open after {begun:?}");
    }
    works(&harness).await;
}

/// A connection stays open while it waits for a response.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_with_a_pending_call_stays_connected() {
    let harness = Harness::limited(impatient()).await;
    let nap = json!({"milliseconds": 4 * SHORT.as_millis() as u64, "nonce": "late"});
    let nap = HttpClient::modern(&harness).tool("nap", nap).to_string();
    let heads = [raw_http::VERSION, ("mcp-method", "tools/call"), ("mcp-name", "nap")];
    let mut stream = harness.connect().await;
    stream.write_all(raw_http::post(&harness, &heads, &nap).as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed").unwrap();
    assert!(String::from_utf8(answer).unwrap().contains("late"));
}

/// A WebSocket may stay idle: it is not waiting for a request.
#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_may_be_silent() {
    let harness = Harness::limited(impatient()).await;
    let request = format!(
        "GET /mcp HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: mcp\r\n\r\n",
        harness.address,
    );
    let mut stream = harness.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    assert_eq!(raw_http::answer(&mut stream).await.unwrap().status, 101);
    let caller = HttpClient::modern(&harness);
    let nap = json!({"milliseconds": 4 * SHORT.as_millis() as u64, "nonce": "late"});
    let reply = http_client::reply(caller.send(&caller.tool("nap", nap)).await).await;
    assert_eq!(http_client::text(&reply), "late");
    let silence = stream.try_read(&mut [0]).unwrap_err();
    assert_eq!(silence.kind(), std::io::ErrorKind::WouldBlock);
}

/// An idle HTTP/2 connection is closed although its client answers every ping.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_only_answers_pings_is_disconnected() {
    let harness = Harness::limited(impatient()).await;
    let caller = HttpClient::modern(&harness);
    let (mut line, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(harness.connect().await))
            .await
            .unwrap();
    let connection = tokio::spawn(connection);
    let call = caller.post(&caller.tool("echo", json!({"text": "on"})));
    let reply = http_client::reply(line.send_request(call).await.unwrap()).await;
    assert_eq!(http_client::text(&reply), "on");
    let _ = timeout(PATIENCE, connection).await.expect("closed").unwrap();
    // It may stay open while it waits for a response.
    let (mut line, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(harness.connect().await))
            .await
            .unwrap();
    tokio::spawn(connection);
    let call =
        caller.tool("nap", json!({"milliseconds": 4 * SHORT.as_millis() as u64, "nonce": "late"}));
    let reply = http_client::reply(line.send_request(caller.post(&call)).await.unwrap()).await;
    assert_eq!(http_client::text(&reply), "late");
}

/// Sending a byte now and then does not extend the timeout.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_sends_slowly_is_disconnected() {
    let harness = Harness::limited(impatient()).await;
    let call =
        raw_http::modern_call(&harness).replace("\"on\"", &format!("\"{}\"", "x".repeat(4096)));
    let length = call.split("\r\n\r\n").nth(1).unwrap().len();
    let at = call.find("content-length: ").unwrap();
    let call = format!(
        "{}content-length: {length}{}",
        &call[..at],
        &call[call[at..].find('\r').unwrap() + at..]
    );
    let head = call.find("\r\n\r\n").unwrap() + 4;
    for start in [4, head + 10] {
        let (mut reader, mut writer) = harness.connect().await.into_split();
        let (begun, rest) = call.split_at(start);
        writer.write_all(begun.as_bytes()).await.unwrap();
        let rest = rest.to_owned();
        let drip = tokio::spawn(async move {
            let mut tick = interval(SHORT / 20);
            for byte in rest.as_bytes() {
                tick.tick().await;
                if writer.write_all(&[*byte]).await.is_err() {
                    return;
                }
            }
            std::future::pending().await
        });
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, reader.read_to_end(&mut answer)).await.expect("closed");
        // An incomplete head gets no response.
        let told: &[u8] = if start < head { b"" } else { b"HTTP/1.1 408" };
        assert_eq!(&answer[..answer.len().min(12)], told, "from {start}");
        drip.abort();
    }
    works(&harness).await;
}

/// Goal 8 of the security notes: a client that does not read delays one call, for a limited time.
#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_does_not_read_does_not_keep_its_call() {
    const LINES: u64 = 1_000_000;
    let harness = Harness::limited(impatient()).await;
    let caller = HttpClient::modern(&harness);
    let chatter = caller.tool("chatter", json!({"lines": LINES}));
    let heads = [raw_http::VERSION, ("mcp-method", "tools/call"), ("mcp-name", "chatter")];
    let mut deaf = harness.connect().await;
    deaf.write_all(raw_http::post(&harness, &heads, &chatter.to_string()).as_bytes())
        .await
        .unwrap();
    harness.counts.begun.reaches(1).await;
    works(&harness).await;
    harness.counts.ended.reaches(1).await;
    assert_eq!(harness.counts.finished.get(), 0);
    works(&harness).await;

    // Over HTTP/2 the unread bytes wait for flow-control credit in the server, not in the socket.
    let (mut line, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(harness.connect().await))
            .await
            .unwrap();
    tokio::spawn(connection);
    let deaf = line.send_request(caller.post(&chatter)).await.unwrap();
    harness.counts.begun.reaches(2).await;
    works(&harness).await;
    harness.counts.ended.reaches(2).await;
    assert_eq!(harness.counts.finished.get(), 0);
    drop(deaf);
}

/// In a legacy session the call continues without its reader.
#[tokio::test(flavor = "multi_thread")]
async fn a_legacy_client_that_does_not_read_does_not_hold_its_call_back_for_ever() {
    const LINES: u64 = 20_000;
    let harness = Harness::limited(impatient()).await;
    let caller = HttpClient::legacy(&harness).await;
    let deaf = caller.send(&caller.tool("chatter", json!({"lines": LINES}))).await;
    harness.counts.begun.reaches(1).await;
    works(&harness).await;
    harness.counts.finished.reaches(1).await;
    let mut other = caller.tool("echo", json!({"text": "on"}));
    other["id"] = 2.into();
    let reply = http_client::reply(caller.send(&other).await).await;
    assert_eq!(http_client::text(&reply), "on");
    drop(deaf);
}
