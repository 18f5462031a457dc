//! Session hijacking: only the principal that created a session can use it.

use std::collections::HashSet;

use http::{HeaderValue, Request};
use serde_json::json;
use wharf::Tool;

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient, LAST_EVENT, LEGACY, SESSION},
    web::{AnyBody, Events},
};

/// Requests that use a known session id.
fn hijack_requests(thief: &HttpClient, event: &str) -> Vec<Request<AnyBody>> {
    let cancel = json!({"requestId": 1});
    let mut resume = thief.bare("GET");
    resume.headers_mut().insert(LAST_EVENT, event.parse().unwrap());
    vec![
        thief.post(&thief.tool("echo", json!({"text": "stolen"}))),
        thief.post(
            &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancel}),
        ),
        thief.post(&json!({"jsonrpc": "2.0", "id": 1, "result": {"action": "accept"}})),
        thief.post(&thief.initialize()),
        thief.bare("GET"),
        resume,
        thief.bare("DELETE"),
    ]
}

/// CVE-2026-52869, CVE-2026-67431 and GHSA-953h-535j-jg2v: the session id alone gave access to a session.
#[tokio::test]
async fn a_session_cannot_be_used_by_another_principal() {
    let harness = Harness::behind_bearer(|server| server).await;
    let alice =
        HttpClient { revision: LEGACY, ..HttpClient::modern(&harness).with_bearer("alice") };
    let alice = alice.opened().await;
    let mut own = alice.listen().await;
    let mut call = Events::of(alice.send(&alice.tool("wait", json!({}))).await);
    let event = call.next().await.unwrap().id.expect("an event's id");
    harness.counts.begun.reaches(1).await;

    for bearer in [Some("bob"), None] {
        let thief = HttpClient { bearer, ..alice.clone() };
        let unknown = HeaderValue::from_static("00000000000000000000000000000000");
        let stranger = HttpClient { session: Some(unknown), ..thief.clone() };
        let pairs =
            hijack_requests(&thief, &event).into_iter().zip(hijack_requests(&stranger, &event));
        for (foreign, unknown) in pairs {
            let foreign = thief.request(foreign).await;
            let unknown = thief.request(unknown).await;
            assert_eq!(
                (foreign.status(), unknown.status()),
                (404.try_into().unwrap(), 404.try_into().unwrap())
            );
            // The response does not reveal that the session exists.
            let mut heads = [foreign.headers().clone(), unknown.headers().clone()];
            heads.iter_mut().for_each(|heads| drop(heads.remove("date")));
            assert_eq!(heads[0], heads[1]);
            assert_eq!(http_client::body(foreign).await, http_client::body(unknown).await);
        }
    }

    // The attempts did not affect the session of its owner.
    harness.counts.gate.add();
    let through = loop {
        let message = call.message().await.expect("a reply");
        if message["id"] == 1 {
            break message;
        }
    };
    assert_eq!(http_client::text(&through), "through");
    harness.endpoint.registry().add(Tool::new("bonus", async || "bonus")).unwrap();
    assert_eq!(own.message().await.unwrap()["method"], "notifications/tools/list_changed");
    alice.works().await;
    assert_eq!(alice.request(alice.bare("DELETE")).await.status(), 204);
}

/// CVE-2026-33946: a second GET took over the victim's stream.
#[tokio::test]
async fn a_second_stream_keeps_the_first_open() {
    let harness = Harness::start().await;
    let caller = HttpClient::legacy(&harness).await;
    let mut first = caller.listen().await;
    for _ in 0..3 {
        let second = caller.request(caller.bare("GET")).await;
        assert_eq!(second.status(), 409);
    }
    harness.endpoint.registry().add(Tool::new("bonus", async || "bonus")).unwrap();
    assert_eq!(first.message().await.unwrap()["method"], "notifications/tools/list_changed");
}

/// CVE-2025-6515: session ids were predictable, or chosen by the client.
#[tokio::test]
async fn an_id_is_neither_chosen_nor_guessed() {
    const MANY: usize = 1_000;
    let harness = Harness::start().await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let chosen = HeaderValue::from_static("chosen");
    let chooser = HttpClient { session: Some(chosen), ..fresh.clone() };
    let refused = chooser.send(&chooser.initialize()).await;
    assert_eq!(refused.status(), 404);
    assert!(refused.headers().get(SESSION).is_none());
    assert_eq!(chooser.send(&chooser.tool("echo", json!({"text": "x"}))).await.status(), 404);

    let mut ids = HashSet::new();
    for _ in 0..MANY {
        let response = fresh.send(&fresh.initialize()).await;
        ids.insert(response.headers()[SESSION].to_str().unwrap().to_owned());
        http_client::body(response).await;
    }
    assert_eq!(ids.len(), MANY);
    let length = ids.iter().next().unwrap().len();
    assert!(ids.iter().all(|id| id.len() == length && id.bytes().all(|it| it.is_ascii_graphic())));
    // Number of values at each position: together they must have 128 bits or more.
    let bits: f64 = (0..length)
        .map(|at| ids.iter().map(|id| id.as_bytes()[at]).collect::<HashSet<u8>>().len() as f64)
        .map(f64::log2)
        .sum();
    assert!(bits >= 128.0, "{bits} bits in {length} characters");
}

/// FastMCP #4402: events of one client were replayed to another.
#[tokio::test]
async fn events_are_not_replayed_to_another_session() {
    let harness = Harness::start().await;
    let victim = HttpClient::legacy(&harness).await;
    harness.counts.gate.add();
    let mut call = Events::of(victim.send(&victim.tool("wait", json!({}))).await);
    let mut ids = Vec::new();
    while let Some(event) = call.next().await {
        ids.extend(event.id);
    }
    assert!(ids.len() >= 2, "{ids:?}");
    let thief = HttpClient::legacy(&harness).await;
    // Invented, malformed and unknown event ids: none belongs to the attacker's session.
    let others =
        ["0", "-", "1-", "-1", "1-0-0", "99999999999999999999999-1", "1--1", "+1-0", "1-+0", ""];
    for id in ids.iter().map(String::as_str).chain(others) {
        let mut resume = thief.bare("GET");
        resume.headers_mut().insert(LAST_EVENT, id.parse().unwrap());
        let response = thief.request(resume).await;
        assert_eq!(response.status(), 400, "{id}");
        let body = http_client::body(response).await;
        assert!(!body.windows(7).any(|it| it == b"through"), "{id}");
    }
    // The victim receives all events after the given one, and only those.
    for (at, id) in ids.iter().enumerate() {
        let mut resume = victim.bare("GET");
        resume.headers_mut().insert(LAST_EVENT, id.parse().unwrap());
        let mut events = Events::of(victim.request(resume).await);
        for expected in &ids[at + 1..] {
            assert_eq!(events.next().await.unwrap().id.as_ref(), Some(expected));
        }
        assert_eq!(events.next().await, None);
    }
}
