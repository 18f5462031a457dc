//! Limits per caller: subscriptions, tasks and calls of one caller are counted and limited.
//!
//! Audit 7, 9 and 10.

use serde_json::json;
use tokio::task::JoinSet;
use wharf::server::{CallLimits, Limits};

use crate::advisories::{
    harness::Harness,
    http_client::{HttpClient, MODERN},
};

/// Audit 7: 20 subscriptions with 900 URIs of 8 kB each took 465 MB.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn followed_resources_of_subscriptions_are_limited() {
    let process = crate::advisories::server_process::ServerProcess::start().await;
    let caller = process.caller(MODERN);
    caller.works().await;
    let uri = |n: usize| format!("test:{n:04}{}", "x".repeat(7_990));
    let uris: Vec<_> = (0..900).map(uri).collect();
    let filter = json!({"notifications": {"resourceSubscriptions": uris}});
    let listen = caller.message("subscriptions/listen", filter);
    let before = process.peak();
    let mut open = Vec::new();
    for _ in 0..20 {
        let response = caller.send(&listen).await;
        assert_eq!(response.status(), 200);
        open.push(response);
    }
    let memory_growth = (process.peak() - before) >> 20;
    assert!(
        memory_growth <= 96,
        "{memory_growth} MiB for 20 listens, one message of 7 MiB at a time"
    );
    caller.works().await;
}

/// Audit 10: 5,120 slow calls of one caller caused status 503 for all callers.
#[tokio::test]
async fn slow_calls_of_one_caller_leave_room_for_others() {
    let calls = CallLimits::default().concurrent(16).queue(16);
    let limits = Limits::default().calls(calls);
    let harness = Harness::behind_bearer(|server| server.limits(limits)).await;
    let hog = HttpClient::modern(&harness).with_bearer("hog");
    let mut calls = JoinSet::new();
    for _ in 0..40 {
        let hog = hog.clone();
        calls.spawn(async move { hog.send(&hog.tool("wait", json!({}))).await });
    }
    // The caller's share of both limits runs, and the rest is rejected.
    harness.counts.begun.reaches(12).await;
    let (mut open, mut refused) = (Vec::new(), 0);
    while refused < 40 - 24 {
        let answer = calls.join_next().await.unwrap().unwrap();
        match answer.status().as_u16() {
            200 => open.push(answer),
            status => {
                assert_eq!(status, 503);
                assert!(answer.headers().contains_key("retry-after"));
                refused += 1;
            }
        }
    }
    HttpClient::modern(&harness).with_bearer("newcomer").works().await;
    harness.counts.gate.add();
    open.extend(calls.join_all().await);
    assert!(open.iter().all(|answer| answer.status() == 200));
    harness.counts.finished.reaches(24).await;
}
