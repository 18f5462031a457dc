//! Each limit that turns a call or a message away, and each eviction, has exactly one line at the default level, and the
//! next one has the number of those in between.
//!
//! Each test is a process of its own, as in [`log_lines`](crate::advisories::log_lines).

use std::time::Duration;

use serde_json::json;
use tracing::Level;
use wharf::{
    Error, Resource,
    http::HttpLimits,
    server::{Limits, MessageLimits},
};
use wharf_testbed::{LogCatcher, fake_issuer::Issuer};

use crate::advisories::{
    harness::Harness,
    http_client::HttpClient,
    log_lines::{assert_one, assert_refused},
    raw_http,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_call_without_the_scope_and_a_rate_limited_call_have_one_warning_each() {
    let issuer = Issuer::new();
    let harness = Harness::tuned(|server| {
        let secret = Resource::new("test://secret", async || "secret").scope("files:read");
        let busy = Resource::new("test://busy", async || {
            Err::<String, _>(Error::rate_limited(Duration::from_secs(1)))
        });
        server.add(secret).add(busy).auth(issuer.jwt())
    })
    .await;
    let caller =
        HttpClient::modern(&harness).with_bearer(issuer.token_with("scope", json!("base")).leak());
    let log = LogCatcher::on_all_threads(Level::WARN);
    for (uri, outcome, status) in
        [("test://secret", "insufficient_scope", 403), ("test://busy", "rate_limited", 429)]
    {
        for _ in 0..5 {
            let read = caller.message("resources/read", json!({"uri": uri}));
            assert_eq!(caller.send(&read).await.status(), status);
        }
        let (name, outcome) = (format!("name=\"{uri}\""), format!("outcome=\"{outcome}\""));
        assert_one(&log, &["call finished", "method=\"resources/read\"", &name, &outcome]).await;
    }
    assert_eq!(log.lines().len(), 2, "{:#?}", log.lines());
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_with_too_many_calls_has_one_line() {
    let http = HttpLimits::default().session_calls(1);
    let harness = Harness::limited(http).await;
    let caller = HttpClient::legacy(&harness).await;
    let call = |id: u32| {
        let mut call = caller.tool("wait", json!({}));
        call["id"] = id.into();
        call
    };
    let _open = caller.send(&call(10)).await;
    harness.counts.begun.reaches(1).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    for id in 11..14 {
        assert_eq!(caller.send(&call(id)).await.status(), 503);
    }
    assert_refused(&log, 0, "http", "too_many_calls").await;
    harness.counts.gate.add();
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_without_memory_has_one_line() {
    const SIZE: usize = 1 << 20;
    let http = HttpLimits::default().bodies(6 * SIZE).body(Duration::from_millis(300));
    let messages = MessageLimits::default().message(SIZE);
    let limits = Limits::default().http(http).messages(messages);
    let harness = Harness::tuned(|server| server.limits(limits)).await;
    let caller = HttpClient::modern(&harness);
    let mut large = caller.tool("wait", json!({}));
    large["params"]["_meta"]["padding"] = "x".repeat(SIZE - 1024).into();
    let _open = caller.send(&large).await;
    harness.counts.begun.reaches(1).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    for _ in 0..3 {
        assert_eq!(caller.send(&large).await.status(), 503);
    }
    assert_refused(&log, 0, "http", "message_memory").await;
    harness.counts.gate.add();
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_connection_has_one_line() {
    let harness = Harness::limited(HttpLimits::default().connections(2)).await;
    let log = LogCatcher::on_all_threads(Level::WARN);
    let mut idle = Vec::new();
    for _ in 0..5 {
        idle.push(harness.connect().await);
        HttpClient::modern(&harness).works().await;
    }
    assert_one(&log, &["closing the longest idle connection"]).await;
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_evicted_session_has_one_line() {
    let harness = Harness::limited(HttpLimits::default().sessions(1)).await;
    HttpClient::legacy(&harness).await;
    let log = LogCatcher::on_all_threads(Level::WARN);
    for _ in 0..3 {
        HttpClient::legacy(&harness).await;
    }
    assert_one(&log, &["evicting idle sessions"]).await;
    harness.stop().await;
}

#[cfg(feature = "oauth-proxy")]
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_an_oauth_page_has_one_line() {
    let harness = crate::advisories::oauth_consent::harness().await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    let body = "grant_type=authorization_code";
    let request = format!(
        "POST /token HTTP/1.1\r\nhost: {}\r\ncontent-type: application/x-www-form-urlencoded\r\n\
         content-length: {}\r\n\r\n{body}",
        harness.address,
        body.len()
    );
    for _ in 0..3 {
        assert_eq!(raw_http::ask(&harness, &request).await.status, 400);
    }
    assert_refused(&log, 0, "http", "bad_request").await;
    let line = log.lines().pop().unwrap();
    assert!(line.contains("detail=\"invalid_"), "the code of the OAuth error: {line}");
    harness.stop().await;
}
