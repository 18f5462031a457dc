//! End of sessions: by the client, by expiry, by eviction, and with the server.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::http_session::support::{NEWEST, SessionServer, tool};

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
    // The calls end without any further request.
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
    // One more fits; then the longest idle one is evicted.
    clients.push(server.client(NEWEST).await);
    clients.push(server.client(NEWEST).await);
    let mut status = Vec::new();
    for client in &clients {
        status.push(client.tool(1, "now").await.status);
    }
    assert_eq!(status, [200, 404, 200, 200, 200]);
    // A session in its handshake takes no place of these.
    assert_eq!(abandoned.tool(1, "now").await.status, 200);
    assert_eq!(clients[0].tool(1, "now").await.status, 404);
}

/// Regression: each new caller's session was evicted for the next one, before its handshake ended.
#[tokio::test(start_paused = true)]
async fn sessions_in_the_handshake_are_not_evicted_for_each_other() {
    let server = SessionServer::with(|limits| limits.sessions = 4);
    let mut clients = Vec::new();
    for _ in 0..4 {
        clients.push(server.client(NEWEST).await);
        sleep(Duration::from_secs(1)).await;
    }
    let mut newcomers = Vec::new();
    for _ in 0..3 {
        let mut newcomer = server.client_without_session(NEWEST);
        newcomer.session = newcomer.initialize("test").await.session;
        newcomers.push(newcomer);
    }
    let mut status = Vec::new();
    for client in newcomers.iter().chain(&clients) {
        status.push(client.tool(1, "now").await.status);
    }
    // Sessions that were idle for longest are evicted for them.
    assert_eq!(status, [200, 200, 200, 404, 404, 404, 200]);
}

#[tokio::test(start_paused = true)]
async fn sessions_that_are_only_opened_evict_no_session_in_use_and_no_other_callers_handshake() {
    let server = SessionServer::with(|limits| limits.sessions = 4);
    let as_caller = |name: &'static str| {
        let mut client = server.client_without_session(NEWEST);
        client.principal = Some(name);
        client
    };
    let mut clients = [as_caller("alice"), as_caller("alice"), as_caller("alice")];
    for client in &mut clients {
        client.open().await;
    }
    let mut bob = as_caller("bob");
    bob.session = bob.initialize("test").await.session;
    for name in ["mallory", "alice"] {
        for _ in 0..100 {
            assert_eq!(as_caller(name).initialize("test").await.status, 200);
        }
    }
    for client in clients.iter().chain([&bob]) {
        assert_eq!(client.tool(1, "now").await.status, 200, "{:?}", client.principal);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_whose_first_request_finds_all_sessions_in_use_can_repeat_it() {
    let server = SessionServer::with(|limits| limits.sessions = 1);
    let first = server.client(NEWEST).await;
    let mut second = server.client_without_session(NEWEST);
    second.session = second.initialize("test").await.session;
    let stream = first.get(None).await;
    let refused = second.tool(1, "now").await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")));
    drop(stream);
    assert_eq!(second.tool(1, "now").await.status, 200);
    assert_eq!(first.tool(1, "now").await.status, 404);
    // A session in its handshake can be deleted too, and takes no place of others.
    let mut third = server.client_without_session(NEWEST);
    third.session = third.initialize("test").await.session;
    assert_eq!((third.delete().await.status, third.delete().await.status), (204, 404));
    assert_eq!(second.tool(1, "now").await.status, 200);
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
    // The limit is that of established sessions: all end their handshakes before any is counted.
    for session in &sessions {
        session.tool(1, "now").await;
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
async fn ended_sessions_release_all_memory() {
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
