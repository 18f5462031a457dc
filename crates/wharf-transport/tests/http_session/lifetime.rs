//! End of sessions: by the client, by expiry, by eviction, and with the server.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::support::{NEWEST, SessionServer, tool};

const MINUTE: Duration = Duration::from_secs(60);

#[tokio::test(start_paused = true)]
async fn deleting_a_session_ends_its_calls_requests_and_streams() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    let mut asking = client.tool(1, "ask").await;
    asking.message().await.unwrap();
    let mut speaking = client.post(tool(2, "count_and_wait", json!({"to": 1}))).await;
    speaking.message().await.unwrap();
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.tool(3, "gate").await }
    });
    server.settle().await;
    assert_eq!(server.calls(), 4);
    client.post(tool(4, "count", json!({"to": 1}))).await.messages().await;
    let replayed = client.get(Some("4-0")).await;
    assert_eq!(client.delete().await.status, 204);
    assert_eq!(waiting.await.unwrap().status, 404);
    own.next().await;
    for mut stream in [own, asking, speaking, replayed] {
        assert_eq!(stream.next().await, None);
    }
    server.settle().await;
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_idle_session_expires() {
    let server = SessionServer::with(|limits| limits.session_idle = 10 * MINUTE);
    let client = server.client(NEWEST).await;
    for _ in 0..5 {
        sleep(9 * MINUTE).await;
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
    assert_eq!(server.calls(), 1);
    sleep(12 * MINUTE).await;
    // Without any further request.
    assert_eq!(server.calls(), 0);
    assert_eq!(client.tool(1, "now").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_session_ends_on_time_even_between_two_sweeps() {
    let idle = 10 * MINUTE + MINUTE / 2;
    let server = SessionServer::with(|limits| limits.session_idle = idle);
    let client = server.client(NEWEST).await;
    sleep(idle).await;
    assert_eq!(client.tool(1, "now").await.status, 404);
    server.settle().await;
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_session_with_a_call_or_a_stream_is_not_idle() {
    let server = SessionServer::with(|limits| limits.session_idle = 10 * MINUTE);
    let (calling, listening) = (server.client(NEWEST).await, server.client(NEWEST).await);
    drop(calling.tool(1, "gate").await);
    let own = listening.get(None).await;
    sleep(60 * MINUTE).await;
    assert_eq!(calling.tool(2, "now").await.status, 200);
    assert_eq!(listening.tool(2, "now").await.status, 200);
    server.gate.add_permits(1);
    drop(own);
    sleep(12 * MINUTE).await;
    assert_eq!(calling.tool(2, "now").await.status, 404);
    assert_eq!(listening.tool(2, "now").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn a_session_above_the_limit_is_rejected_with_a_retry_time() {
    let server = SessionServer::with(|limits| limits.sessions = 2);
    let clients = [server.client(NEWEST).await, server.client(NEWEST).await];
    let streams = [clients[0].get(None).await, clients[1].get(None).await];
    for _ in 0..3 {
        let refused = server.client_without_session(NEWEST).initialize("test").await;
        assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")));
        assert_eq!(refused.session, None);
        let refusal = String::from_utf8(refused.whole().await).unwrap();
        assert!(refusal.contains("full"), "{refusal}");
        sleep(MINUTE).await;
    }
    for client in &clients {
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
    clients[0].delete().await;
    server.client(NEWEST).await;
    drop(streams);
}

#[tokio::test(start_paused = true)]
async fn for_one_session_too_many_the_longest_idle_one_ends() {
    let server = SessionServer::with(|limits| limits.sessions = 4);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(server.client(NEWEST).await);
        sleep(Duration::from_secs(1)).await;
    }
    let mut abandoned = server.client_without_session(NEWEST);
    abandoned.session = abandoned.initialize("test").await.session;
    assert_eq!(clients[0].tool(1, "now").await.status, 200);
    // First the one without any request, then the longest idle one.
    clients.push(server.client(NEWEST).await);
    clients.push(server.client(NEWEST).await);
    let mut status = Vec::new();
    for client in clients.iter().chain([&abandoned]) {
        status.push(client.tool(1, "now").await.status);
    }
    assert_eq!(status, [200, 404, 200, 200, 200, 404]);
}

#[tokio::test(start_paused = true)]
async fn a_caller_with_many_sessions_loses_its_own_and_new_callers_get_one() {
    let server = SessionServer::with(|limits| limits.sessions = 100);
    let as_caller = |name: &'static str| {
        let mut client = server.client_without_session(NEWEST);
        client.principal = Some(name);
        client
    };
    let mut alice = as_caller("alice");
    alice.open().await;
    for _ in 0..300 {
        let mut mallory = as_caller("mallory");
        mallory.open().await;
        assert_eq!(mallory.tool(1, "now").await.status, 200);
    }
    assert_eq!(alice.tool(1, "now").await.status, 200);
    let mut bob = as_caller("bob");
    bob.open().await;
    for _ in 0..300 {
        as_caller("mallory").open().await;
    }
    for client in [&alice, &bob] {
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
}

#[tokio::test(start_paused = true)]
async fn sessions_with_much_replay_memory_reduce_the_number_of_sessions() {
    let server =
        SessionServer::with(|limits| (limits.sessions, limits.session_bytes) = (1000, 100_000));
    let mut alice = server.client_without_session(NEWEST);
    alice.principal = Some("alice");
    alice.open().await;
    let mut sessions = Vec::new();
    for number in 0..30 {
        let mut mallory = server.client_without_session(NEWEST);
        mallory.principal = Some("mallory");
        mallory.session = mallory.initialize(&format!("{number:04000}")).await.session;
        sessions.push(mallory);
    }
    let mut alive = 0;
    for session in &sessions {
        alive += usize::from(session.tool(1, "now").await.status == 200);
    }
    assert_eq!(alive, 24);
    assert_eq!(alice.tool(1, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_expired_makes_room_at_once() {
    // Between two sweeps.
    let idle = 10 * MINUTE + MINUTE / 2;
    let server = SessionServer::with(|limits| (limits.sessions, limits.session_idle) = (1, idle));
    server.client(NEWEST).await;
    sleep(idle).await;
    server.client(NEWEST).await;
}

#[tokio::test(start_paused = true)]
async fn sessions_that_come_and_go_leave_nothing() {
    let server = SessionServer::with(|limits| limits.sessions = 1);
    for _ in 0..200 {
        let client = server.client(NEWEST).await;
        let own = client.get(None).await;
        drop(client.post(tool(1, "count_and_wait", json!({"to": 3}))).await);
        assert_eq!(client.delete().await.status, 204);
        drop(own);
    }
    server.settle().await;
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn when_the_server_stops_listening_ends_and_calls_finish() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    own.next().await;
    let mut asking = client.tool(1, "ask").await;
    asking.message().await.unwrap();
    let mut waiting = client.tool(2, "gate").await;
    waiting.next().await;
    server.shutdown.stop();
    assert_eq!(own.next().await, None);
    let failed = asking.message().await.unwrap().data;
    assert_eq!(failed["result"]["content"][0]["text"], "connection_closed");
    assert_eq!(asking.next().await, None);
    assert_eq!(server.calls(), 1);
    server.gate.add_permits(1);
    assert_eq!(waiting.message().await.unwrap().data["id"], 2);
    assert_eq!(waiting.next().await, None);
    // A client that connects now does not hang.
    let late = server.client(NEWEST).await;
    assert_eq!(late.get(None).await.messages().await, []);
    server.settle().await;
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn streams_end_when_the_endpoint_is_dropped() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    own.next().await;
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    answer.message().await.unwrap();
    drop((client, server));
    assert_eq!(own.next().await, None);
    assert_eq!(answer.next().await, None);
}
