//! Servers that are killed without notice.

use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, sleep, timeout};

use crate::http_cluster::support::{NEWEST, SessionServer, tool};

#[tokio::test(start_paused = true)]
async fn a_stream_whose_server_died_is_resumed_and_ended_at_another() {
    let server = SessionServer::new();
    let client = server.client("2025-03-26").await;
    for (message, batch) in [
        (tool(7, "count_and_wait", json!({"to": 5})), false),
        (json!([tool(8, "count_and_wait", json!({"to": 5})), tool(9, "gate", json!({}))]), true),
    ] {
        let node = usize::from(batch);
        server.only(node);
        let mut answer = client.post(message).await;
        let last = answer.ids(3).await.pop().unwrap();
        sleep(Duration::from_secs(60)).await;
        server.kill_node(node);
        drop(answer);
        server.only(2);
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
async fn a_silent_server_is_not_considered_dead() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.tool(1, "gate").await;
    let last = answer.next().await.unwrap().id;
    server.only(1);
    let mut resumed = client.get(Some(&last)).await;
    assert!(resumed.is_silent().await);
    // A server that could not send its heartbeat, because the stores were unavailable, is not dead either.
    server.ports.away(true);
    let waiting = tokio::spawn(async move { resumed.message().await });
    sleep(Duration::from_secs(300)).await;
    server.ports.away(false);
    sleep(Duration::from_secs(60)).await;
    server.gate.add_permits(1);
    let reply = waiting.await.unwrap().unwrap().data;
    assert_eq!(reply["result"]["content"][0]["text"], "gate");
}

#[tokio::test(start_paused = true)]
async fn a_session_survives_the_server_that_opened_it() {
    let server = SessionServer::new();
    server.only(0);
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    own.next().await.unwrap();
    server.change(1);
    assert_eq!(own.ids(1).await, ["0-1"]);
    server.kill_node(0);
    assert_eq!(own.next().await, None);
    server.only(1);
    assert_eq!(client.tool(1, "now").await.status, 200);
    let mut own = client.get(Some("0-1")).await;
    server.change(2);
    assert_eq!(own.ids(1).await, ["0-2"]);
    server.kill_node(1);
    server.only(2);
    assert_eq!(client.get(Some("0-0")).await.ids(2).await, ["0-1", "0-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_was_considered_dead_sends_nothing_more() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 2}))).await;
    let last = answer.ids(2).await.pop().unwrap();
    sleep(Duration::from_secs(60)).await;
    // The heartbeats of the server are lost, and the others consider it dead.
    server.ports.forget_nodes(true);
    server.only(1);
    let resumed = client.get(Some(&last)).await.messages().await;
    assert_eq!((resumed.len(), &resumed[0].data["error"]["code"]), (1, &json!(-32603)));
    server.ports.forget_nodes(false);
    server.gate.add_permits(1);
    sleep(Duration::from_secs(60)).await;
    // The call has ended, and its output came too late.
    assert_eq!(server.calls(), 0);
    let again = client.get(Some(&last)).await.messages().await;
    assert_eq!(again, resumed);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_shuts_down_lives_until_its_last_call_is_over() {
    let server = SessionServer::with(|limits| limits.grace = Duration::from_secs(600));
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    drop(answer);
    sleep(Duration::from_secs(60)).await;
    server.shutdown.stop();
    server.only(1);
    let resumed = client.get(Some(&last)).await;
    let reading = tokio::spawn(resumed.messages());
    sleep(Duration::from_secs(120)).await;
    server.gate.add_permits(1);
    let messages = reading.await.unwrap();
    assert_eq!(messages.len(), 1);
    assert_eq!(messages[0].data["result"]["content"][0]["text"], "count_and_wait");
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_the_shutdown_timeout_is_answered_by_another_server() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    drop(answer);
    server.shutdown.stop();
    server.only(1);
    let messages = client.get(Some(&last)).await.messages().await;
    assert_eq!((messages.len(), &messages[0].data["error"]["code"]), (1, &json!(1008)));
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_a_server_that_shuts_down_is_cancelled_at_another() {
    let server = SessionServer::with(|limits| limits.grace = Duration::from_secs(600));
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    answer.message().await.unwrap();
    server.shutdown.stop();
    sleep(Duration::from_secs(60)).await;
    server.only(1);
    assert_eq!(client.cancel(1).await, 202);
    assert_eq!(timeout(Duration::from_secs(60), answer.message()).await, Ok(None));
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_stream_of_a_server_long_dead_ends_at_once() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    server.kill_node(0);
    sleep(Duration::from_secs(20)).await;
    for restarted in [false, true] {
        server.only(1);
        if restarted {
            server.kill_node(1);
            server.restart(1);
        }
        let resumed = client.get(Some(&last)).await.messages();
        // A server that has just started cannot tell at once which others are alive.
        let patience = Duration::from_secs(if restarted { 12 } else { 1 });
        let messages = timeout(patience, resumed).await.unwrap();
        assert_eq!(messages[0].data["error"]["code"], -32603);
    }
}

/// The liveness that one process has observed must not be lost when it restarts.
#[tokio::test(start_paused = true)]
async fn a_call_of_a_dead_server_ends_in_time_while_the_others_restart() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    sleep(Duration::from_secs(60)).await;
    server.kill_node(0);
    let died = Instant::now();
    let messages = loop {
        for node in [1, 2] {
            server.kill_node(node);
            server.restart(node);
        }
        server.only(1);
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
async fn the_outcome_of_a_call_is_stored_before_its_server_exits() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    drop(answer);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let serving = tokio::spawn(wharf_transport::server::http::serve(server.node().0, listener));
    server.shutdown.stop();
    server.settle().await;
    server.gate.add_permits(1);
    serving.await.unwrap();
    server.kill_node(0);
    server.only(1);
    let resumed = client.get(Some(&last)).await.messages().await;
    assert_eq!(resumed[0].data["result"]["content"][0]["text"], "count_and_wait");
}
