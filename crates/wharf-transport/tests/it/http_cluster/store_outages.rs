//! Temporary outages of the stores.

use std::time::Duration;

use http::Request;
use serde_json::json;
use tokio::time::sleep;

use crate::http_cluster::support::{NEWEST, SessionServer, tool};

async fn health(server: &SessionServer, path: &str) -> u16 {
    let request = Request::builder().uri(path).header("host", "10.1.2.3:80");
    server.client_without_session(NEWEST).send(request, String::new()).await.status
}

#[tokio::test(start_paused = true)]
async fn requests_that_need_a_store_are_rejected_during_an_outage() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for node in 0..3 {
        server.only(node);
        assert_eq!(client.post(ping.clone()).await.status, 200);
        assert_eq!((health(&server, "/live").await, health(&server, "/ready").await), (200, 200));
    }
    server.ports.away(true);
    for round in 0..2 {
        for node in 0..3 {
            server.only(node);
            let refused = server.client_without_session(NEWEST).initialize("test").await;
            assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")));
            assert_eq!(refused.json().await["error"]["code"], 1008);
            // A response that became a stream needs the store.
            let refused = client.post(tool(2, "count_and_wait", json!({"to": 1}))).await;
            assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")));
            let refused = client.get(None).await;
            assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")));
            assert_eq!(client.delete().await.status, 503);
            // A request without a stream still works.
            let answer = client.tool(3, "now").await;
            assert_eq!(answer.status, 200, "{round} {node}");
            assert_eq!(
                (health(&server, "/live").await, health(&server, "/ready").await),
                (200, 503)
            );
        }
        server.settle().await;
        assert_eq!(server.calls(), 0);
        sleep(Duration::from_secs(60)).await;
    }
    server.ports.away(false);
    sleep(Duration::from_secs(5)).await;
    for node in 0..3 {
        server.only(node);
        assert_eq!(health(&server, "/ready").await, 200);
        assert_eq!(client.tool(3, "now").await.status, 200);
        server.client(NEWEST).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_the_store_and_loses_nothing() {
    let server = SessionServer::with_all(|_| {}, |lines| lines.output = 2048);
    let client = server.client(NEWEST).await;
    let mut answer = client.post(tool(1, "wait_and_count", json!({"to": 200}))).await;
    answer.next().await.unwrap();
    server.ports.away(true);
    server.gate.add_permits(1);
    let reading = tokio::spawn(async move { answer.messages().await });
    sleep(Duration::from_secs(120)).await;
    assert!(!reading.is_finished());
    // Back-pressure: the call waits meanwhile, so output does not accumulate.
    assert_eq!(server.calls(), 1);
    server.ports.away(false);
    let messages = reading.await.unwrap();
    let ids: Vec<_> = messages.iter().map(|event| event.id.clone()).collect();
    let expected: Vec<_> = (1..=201).map(|number| format!("1-{number}")).collect();
    assert_eq!(ids, expected);
}

#[tokio::test(start_paused = true)]
async fn events_are_kept_until_the_store_has_them() {
    let server = SessionServer::with(|limits| limits.replay_total = 1);
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "wait_and_count", json!({"to": 5}))).await;
    let last = answer.next().await.unwrap().id;
    drop(answer);
    server.ports.away(true);
    server.gate.add_permits(1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(server.calls(), 0);
    server.ports.away(false);
    sleep(Duration::from_secs(60)).await;
    for node in 0..3 {
        server.only(node);
        assert_eq!(client.get(Some(&last)).await.messages().await.len(), 6, "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn missed_bus_messages_are_caught_up() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for node in 0..3 {
        server.only(node);
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
    server.ports.deaf(true);
    server.only(0);
    assert_eq!(client.delete().await.status, 204);
    server.ports.deaf(false);
    server.ports.missed();
    server.settle().await;
    for node in 0..3 {
        server.only(node);
        assert_eq!(client.tool(1, "now").await.status, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn a_loaded_session_is_not_loaded_again() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let before = server.ports.operations();
    for _ in 0..30 {
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
    // Two more servers load the session; after that, it is not loaded again.
    assert!(server.ports.operations() - before <= 10, "{}", server.ports.operations() - before);
}
