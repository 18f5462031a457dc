//! Temporary outages of the stores.

use std::time::Duration;

use http::Request;
use serde_json::json;
use tokio::time::sleep;

use crate::bed::{Bed, NEWEST, tool};

async fn health(bed: &Bed, path: &str) -> u16 {
    let request = Request::builder().uri(path).header("host", "10.1.2.3:80");
    bed.stranger(NEWEST).send(request, String::new()).await.status
}

#[tokio::test(start_paused = true)]
async fn what_needs_a_store_is_refused_while_it_is_gone() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    for node in 0..3 {
        bed.only(node);
        assert_eq!(client.post(ping.clone()).await.status, 200);
        assert_eq!((health(&bed, "/live").await, health(&bed, "/ready").await), (200, 200));
    }
    bed.ports.away(true);
    for round in 0..2 {
        for node in 0..3 {
            bed.only(node);
            let refused = bed.stranger(NEWEST).initialize("test").await;
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
            assert_eq!((health(&bed, "/live").await, health(&bed, "/ready").await), (200, 503));
        }
        bed.settle().await;
        assert_eq!(bed.calls(), 0);
        sleep(Duration::from_secs(60)).await;
    }
    bed.ports.away(false);
    sleep(Duration::from_secs(5)).await;
    for node in 0..3 {
        bed.only(node);
        assert_eq!(health(&bed, "/ready").await, 200);
        assert_eq!(client.tool(3, "now").await.status, 200);
        bed.client(NEWEST).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_waits_for_the_store_and_loses_nothing() {
    let bed = Bed::with_all(|_| {}, |lines| lines.output = 2048);
    let client = bed.client(NEWEST).await;
    let mut answer = client.post(tool(1, "wait_and_count", json!({"to": 200}))).await;
    answer.next().await.unwrap();
    bed.ports.away(true);
    bed.gate.add_permits(1);
    let reading = tokio::spawn(async move { answer.messages().await });
    sleep(Duration::from_secs(120)).await;
    assert!(!reading.is_finished());
    // Back-pressure: the call waits meanwhile, so output does not accumulate.
    assert_eq!(bed.calls(), 1);
    bed.ports.away(false);
    let messages = reading.await.unwrap();
    let ids: Vec<_> = messages.iter().map(|event| event.id.clone()).collect();
    let expected: Vec<_> = (1..=201).map(|number| format!("1-{number}")).collect();
    assert_eq!(ids, expected);
}

#[tokio::test(start_paused = true)]
async fn what_the_store_has_yet_to_get_is_kept_whatever_it_takes() {
    let bed = Bed::with(|limits| limits.replay_total = 1);
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "wait_and_count", json!({"to": 5}))).await;
    let last = answer.next().await.unwrap().id;
    drop(answer);
    bed.ports.away(true);
    bed.gate.add_permits(1);
    sleep(Duration::from_secs(60)).await;
    assert_eq!(bed.calls(), 0);
    bed.ports.away(false);
    sleep(Duration::from_secs(60)).await;
    for node in 0..3 {
        bed.only(node);
        assert_eq!(client.get(Some(&last)).await.messages().await.len(), 6, "{node}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_missed_on_the_bus_is_caught_up_with() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    for node in 0..3 {
        bed.only(node);
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
    bed.ports.deaf(true);
    bed.only(0);
    assert_eq!(client.delete().await.status, 204);
    bed.ports.deaf(false);
    bed.ports.missed();
    bed.settle().await;
    for node in 0..3 {
        bed.only(node);
        assert_eq!(client.tool(1, "now").await.status, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_that_a_server_knows_is_not_asked_for_again() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    let before = bed.ports.operations();
    for _ in 0..30 {
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
    // Two more servers load the session; after that, it is not loaded again.
    assert!(bed.ports.operations() - before <= 10, "{}", bed.ports.operations() - before);
}
