//! Servers that are killed without notice.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::bed::{Bed, NEWEST, tool};

#[tokio::test(start_paused = true)]
async fn a_stream_whose_server_died_is_resumed_and_ended_at_another() {
    let bed = Bed::new();
    let client = bed.client("2025-03-26").await;
    for (message, batch) in [
        (tool(7, "count_and_wait", json!({"to": 5})), false),
        (json!([tool(8, "count_and_wait", json!({"to": 5})), tool(9, "gate", json!({}))]), true),
    ] {
        let node = usize::from(batch);
        bed.only(node);
        let mut answer = client.post(message).await;
        let last = answer.ids(3).await.pop().unwrap();
        sleep(Duration::from_secs(60)).await;
        bed.kill(node);
        drop(answer);
        bed.only(2);
        let mut resumed = client.get(Some(&last)).await;
        let stream = last.split_once('-').unwrap().0;
        // Exactly the rest, and finally the error that the server is gone.
        assert_eq!(resumed.ids(2).await, [format!("{stream}-4"), format!("{stream}-5")]);
        let end = resumed.message().await.unwrap();
        assert_eq!(end.id, format!("{stream}-6"));
        let replies = if batch { end.data.as_array().unwrap().clone() } else { vec![end.data] };
        let ids: Vec<_> = replies.iter().map(|reply| reply["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, if batch { vec![8, 9] } else { vec![7] });
        assert!(replies.iter().all(|reply| reply["error"]["code"] == -32603), "{replies:?}");
        assert_eq!(resumed.next().await, None);
        // A later reader gets the same.
        let again = client.get(Some(&last)).await.messages().await;
        assert_eq!(again.len(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_is_thought_dead_who_is_only_silent() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.tool(1, "gate").await;
    let last = answer.next().await.unwrap().id;
    bed.only(1);
    let mut resumed = client.get(Some(&last)).await;
    assert!(resumed.is_silent().await);
    // Nor one that could not send its heartbeat because the stores were unavailable, for any time.
    bed.ports.away(true);
    let waiting = tokio::spawn(async move { resumed.message().await });
    sleep(Duration::from_secs(300)).await;
    bed.ports.away(false);
    sleep(Duration::from_secs(60)).await;
    bed.gate.add_permits(1);
    let reply = waiting.await.unwrap().unwrap().data;
    assert_eq!(reply["result"]["content"][0]["text"], "gate");
}

#[tokio::test(start_paused = true)]
async fn a_session_survives_the_server_that_opened_it() {
    let bed = Bed::new();
    bed.only(0);
    let client = bed.client(NEWEST).await;
    let mut own = client.get(None).await;
    own.next().await.unwrap();
    bed.change(1);
    assert_eq!(own.ids(1).await, ["0-1"]);
    bed.kill(0);
    assert_eq!(own.next().await, None);
    bed.only(1);
    assert_eq!(client.tool(1, "now").await.status, 200);
    let mut own = client.get(Some("0-1")).await;
    bed.change(2);
    assert_eq!(own.ids(1).await, ["0-2"]);
    bed.kill(1);
    bed.only(2);
    assert_eq!(client.get(Some("0-0")).await.ids(2).await, ["0-1", "0-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_thought_dead_says_no_more() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 2}))).await;
    let last = answer.ids(2).await.pop().unwrap();
    sleep(Duration::from_secs(60)).await;
    // Its heartbeats are lost, and the others consider it dead.
    bed.ports.forget_nodes(true);
    bed.only(1);
    let resumed = client.get(Some(&last)).await.messages().await;
    assert_eq!((resumed.len(), &resumed[0].data["error"]["code"]), (1, &json!(-32603)));
    bed.ports.forget_nodes(false);
    bed.gate.add_permits(1);
    sleep(Duration::from_secs(60)).await;
    // Its call has ended, and its output came too late.
    assert_eq!(bed.calls(), 0);
    let again = client.get(Some(&last)).await.messages().await;
    assert_eq!(again, resumed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_lives_until_its_last_call_is_over() {
    let bed = Bed::with(|limits| limits.grace = Duration::from_secs(600));
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    drop(answer);
    sleep(Duration::from_secs(60)).await;
    bed.shutdown.stop();
    bed.only(1);
    let resumed = client.get(Some(&last)).await;
    let reading = tokio::spawn(resumed.messages());
    sleep(Duration::from_secs(120)).await;
    bed.gate.add_permits(1);
    let messages = reading.await.unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].data["result"]["content"][0]["text"], "count_and_wait");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_the_grace_of_its_server_is_answered_at_another() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    drop(answer);
    bed.shutdown.stop();
    bed.only(1);
    let messages = client.get(Some(&last)).await.messages().await;
    assert_eq!((messages.len(), &messages[0].data["error"]["code"]), (1, &json!(1008)));
    assert_eq!(bed.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_shuts_down_is_cancelled_at_another() {
    let bed = Bed::with(|limits| limits.grace = Duration::from_secs(600));
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    answer.message().await.unwrap();
    bed.shutdown.stop();
    sleep(Duration::from_secs(60)).await;
    bed.only(1);
    assert_eq!(client.cancel(1).await, 202);
    assert_eq!(timeout(Duration::from_secs(60), answer.message()).await, Ok(None));
    assert_eq!(bed.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_server_long_dead_ends_at_once() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    bed.kill(0);
    sleep(Duration::from_secs(20)).await;
    for restarted in [false, true] {
        bed.only(1);
        if restarted {
            bed.kill(1);
            bed.restart(1);
        }
        let resumed = client.get(Some(&last)).await.messages();
        // A server that has just started cannot tell at once which others are alive.
        let patience = Duration::from_secs(if restarted { 12 } else { 1 });
        let messages = timeout(patience, resumed).await.unwrap();
        assert_eq!(messages[0].data["error"]["code"], -32603);
    }
}

/// Restarts do not matter: the liveness that one process observed must not be lost with it.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_dead_server_ends_in_time_while_the_others_restart() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    sleep(Duration::from_secs(60)).await;
    bed.kill(0);
    let died = Instant::now();
    let messages = loop {
        for node in [1, 2] {
            bed.kill(node);
            bed.restart(node);
        }
        bed.only(1);
        let resumed = client.get(Some(&last)).await.messages();
        if let Ok(messages) = timeout(Duration::from_secs(6), resumed).await {
            break messages;
        }
        assert!(died.elapsed() <= Duration::from_secs(20), "nobody ends it");
    };
    assert_eq!(messages[0].data["error"]["code"], -32603);
    assert!(died.elapsed() <= Duration::from_secs(20), "{:?}", died.elapsed());
}

#[tokio::test(start_paused = true)]
async fn how_a_call_ended_is_stored_before_its_server_ends() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    bed.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    drop(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = tokio::spawn(wharf_transport::server::http::serve(bed.node().0, listener));
    bed.shutdown.stop();
    bed.settle().await;
    bed.gate.add_permits(1);
    serving.await.unwrap();
    bed.kill(0);
    bed.only(1);
    let resumed = client.get(Some(&last)).await.messages().await;
    assert_eq!(resumed[0].data["result"]["content"][0]["text"], "count_and_wait");
}
