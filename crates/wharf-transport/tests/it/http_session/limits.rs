//! Limits of a session and its streams.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::http_session::{
    decoded_response::TestResponse,
    support::{NEWEST, SessionClient, SessionServer, tool},
};

#[tokio::test(start_paused = true)]
async fn a_call_above_the_limit_is_rejected_with_a_retry_time() {
    let server = SessionServer::with(|limits| limits.session_calls = 2);
    let client = server.client(NEWEST).await;
    let calls = [client.tool(1, "gate").await, client.tool(2, "gate").await];
    let refused = client.tool(3, "now").await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")));
    let refused = refused.json().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(1008)));
    assert_eq!(server.client(NEWEST).await.tool(3, "now").await.status, 200);
    server.gate.add_permits(1);
    server.settle().await;
    assert_eq!(client.tool(3, "now").await.status, 200);
    drop(calls);
}

#[tokio::test(start_paused = true)]
async fn calls_may_hold_only_so_much_of_their_messages() {
    let server = SessionServer::with_all(|_| {}, |lines| lines.held = 10_000);
    let client = server.client(NEWEST).await;
    let long = |id| tool(id, "gate", json!({"text": "x".repeat(6_000)}));
    let calls = [client.post(long(1)).await, client.post(long(2)).await];
    assert_eq!(client.tool(3, "now").await.status, 503);
    server.gate.add_permits(2);
    server.settle().await;
    assert_eq!(client.tool(3, "now").await.status, 200);
    drop(calls);
}

#[tokio::test(start_paused = true)]
async fn a_batch_holds_its_message_until_its_last_call_ends() {
    let server = SessionServer::with_all(|_| {}, |lines| lines.held = 10_000);
    let client = server.client("2025-03-26").await;
    let long = tool(2, "now", json!({"text": "x".repeat(12_000)}));
    let answer = client.post(json!([tool(1, "gate", json!({})), long])).await;
    assert_eq!(client.tool(3, "now").await.status, 503);
    server.gate.add_permits(1);
    assert_eq!(answer.messages().await.len(), 1);
    assert_eq!(client.tool(3, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_client_that_reads_slowly() {
    let server = SessionServer::with_all(|_| {}, |lines| lines.output = 1_000);
    let client = server.client(NEWEST).await;
    let mut answer = client.post(tool(1, "count", json!({"to": 300}))).await;
    let messages = {
        let mut ids = Vec::new();
        while let Some(event) = answer.message().await {
            ids.push(event.id);
            if ids.len() % 50 == 0 {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        }
        ids
    };
    let expected: Vec<_> = (1..=301).map(|number| format!("1-{number}")).collect();
    assert_eq!(messages, expected);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_does_not_read_is_disconnected_and_can_reconnect() {
    let server = SessionServer::with_all(|_| {}, |lines| lines.output = 1_000);
    let client = server.client(NEWEST).await;
    let mut answer = client.post(tool(1, "count", json!({"to": 100}))).await;
    let last = answer.next().await.unwrap().id;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(server.calls(), 2, "the call waits for its reader");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(server.calls(), 1, "the call has gone on without it");
    let seen = answer.messages().await.len();
    assert!(seen < 20, "{seen}");
    let ids: Vec<_> =
        client.get(Some(&last)).await.messages().await.into_iter().map(|it| it.id).collect();
    let expected: Vec<_> = (1..=101).map(|number| format!("1-{number}")).collect();
    assert_eq!(ids, expected);
}

async fn kept(client: &SessionClient, stream: u64) -> Vec<String> {
    let messages = client.get(Some(&format!("{stream}-0"))).await.messages().await;
    messages.into_iter().map(|event| event.id).collect()
}

async fn count_unread(server: &SessionServer, client: &SessionClient, to: u64) {
    let answer = client.post(tool(1, "count", json!({"to": to}))).await;
    drop(answer);
    server.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_its_newest_events() {
    for (most, said) in [(1_000, 998), (1_000, 999), (1_000, 1_000), (1_000, 2_500), (3, 10)] {
        let server = SessionServer::with(|limits| limits.replay_events = most);
        let client = server.client(NEWEST).await;
        count_unread(&server, &client, said).await;
        let first = (said + 2).saturating_sub(most as u64).max(1);
        let expected: Vec<_> = (first..=said + 1).map(|number| format!("1-{number}")).collect();
        assert_eq!(kept(&client, 1).await, expected, "{most} {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_only_so_many_bytes() {
    let server = SessionServer::with(|limits| limits.replay_bytes = 10_000);
    let client = server.client(NEWEST).await;
    count_unread(&server, &client, 500).await;
    let kept = kept(&client, 1).await;
    assert!((10..100).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().unwrap(), "1-501");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_however_long_it_is() {
    let server = SessionServer::with(|limits| limits.replay_bytes = 1_000);
    let client = server.client(NEWEST).await;
    let mut answer = client.post(tool(1, "long", json!({"bytes": 100_000}))).await;
    assert_eq!(answer.next().await.unwrap().id, "1-0");
    drop(answer);
    server.gate.add_permits(1);
    server.settle().await;
    assert_eq!(kept(&client, 1).await, ["1-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_only_its_newest_finished_streams() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for _ in 0..20 {
        count_unread(&server, &client, 1).await;
    }
    for stream in 1..=20 {
        let status = client.get(Some(&format!("{stream}-0"))).await.status;
        assert_eq!(status, if stream > 4 { 200 } else { 400 }, "{stream}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_streams_together_keep_only_so_much_and_the_oldest_go_first() {
    let server = SessionServer::with(|limits| limits.replay_total = 20_000);
    let clients = [server.client(NEWEST).await, server.client(NEWEST).await];
    for _ in 0..3 {
        for client in &clients {
            count_unread(&server, client, 10).await;
        }
    }
    let mut statuses = Vec::new();
    for stream in 1..=3 {
        for client in &clients {
            statuses.push(client.get(Some(&format!("{stream}-0"))).await.status);
        }
    }
    // If one stream is available, all streams that ended later are available too.
    let first = statuses.iter().position(|status| *status == 200).unwrap();
    assert!(first > 0 && statuses[first..].iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(kept(&clients[1], 3).await.len(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_stream_being_read_is_not_evicted() {
    let server = SessionServer::with(|limits| limits.replay_total = 10_000);
    let client = server.client(NEWEST).await;
    count_unread(&server, &client, 10).await;
    let mut reading = client.get(Some("1-0")).await;
    for _ in 0..3 {
        count_unread(&server, &client, 10).await;
    }
    assert_eq!(reading.ids(11).await.len(), 11);
    assert_eq!(reading.next().await, None);
    drop(reading);
    // A stream expires once it is no longer read.
    for _ in 0..3 {
        count_unread(&server, &client, 10).await;
    }
    assert_eq!(client.get(Some("1-0")).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn an_unread_ended_stream_can_be_evicted() {
    let server = SessionServer::with(|limits| limits.replay_total = 10_000);
    let client = server.client(NEWEST).await;
    for _ in 0..3 {
        let answer = client.post(tool(1, "count_and_wait", json!({"to": 10}))).await;
        drop(answer);
        server.settle().await;
        server.gate.add_permits(1);
        server.settle().await;
    }
    assert_eq!(client.get(Some("1-0")).await.status, 400);
    assert_eq!(kept(&client, 3).await.len(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_ended_is_kept_for_its_time_only() {
    let minute = Duration::from_secs(60);
    let server = SessionServer::with(|limits| limits.replay_time = minute);
    let client = server.client(NEWEST).await;
    count_unread(&server, &client, 1).await;
    sleep(minute / 2).await;
    count_unread(&server, &client, 1).await;
    assert_eq!(client.get(Some("1-0")).await.status, 200);
    sleep(minute * 3 / 4).await;
    count_unread(&server, &client, 1).await;
    assert_eq!(client.get(Some("1-0")).await.status, 400);
    assert_eq!(kept(&client, 2).await.len(), 2);
}

/// Regression: its memory was kept until another stream ended.
#[tokio::test(start_paused = true)]
async fn a_stream_expires_although_no_other_ends() {
    let minute = Duration::from_secs(60);
    let server = SessionServer::with(|limits| limits.replay_time = minute);
    let client = server.client(NEWEST).await;
    count_unread(&server, &client, 1).await;
    sleep(minute / 2).await;
    assert_eq!(kept(&client, 1).await.len(), 2);
    sleep(minute).await;
    assert_eq!(client.get(Some("1-0")).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn unread_events_of_a_reader_are_never_dropped() {
    let server = SessionServer::with(|limits| limits.replay_total = 1);
    let client = server.client(NEWEST).await;
    let answer = client.post(tool(1, "count", json!({"to": 100}))).await;
    server.settle().await;
    assert_eq!(answer.messages().await.len(), 101);
}

#[tokio::test(start_paused = true)]
async fn dropped_events_free_their_memory() {
    let server = SessionServer::with(|limits| limits.replay_total = 200_000);
    let client = server.client(NEWEST).await;
    for _ in 0..200 {
        count_unread(&server, &client, 10).await;
    }
    for stream in 185..=200 {
        assert_eq!(kept(&client, stream).await.len(), 11);
    }
}

#[tokio::test(start_paused = true)]
async fn replay_memory_is_freed_with_the_session() {
    let server = SessionServer::with(|limits| limits.replay_total = 100_000);
    for _ in 0..100 {
        let client = server.client(NEWEST).await;
        count_unread(&server, &client, 100).await;
        assert_eq!(kept(&client, 1).await.len(), 101);
        client.delete().await;
    }
}

fn as_caller(server: &SessionServer, name: &'static str) -> SessionClient {
    let mut client = server.client_without_session(NEWEST);
    client.principal = Some(name);
    client
}

/// Regression: the oldest streams of all callers were discarded first.
#[tokio::test(start_paused = true)]
async fn streams_of_one_caller_do_not_displace_those_of_others() {
    let server = SessionServer::with(|limits| limits.replay_total = 400_000);
    let mut alice = as_caller(&server, "alice");
    alice.open().await;
    count_unread(&server, &alice, 10).await;
    for _ in 0..10 {
        let mut mallory = as_caller(&server, "mallory");
        mallory.open().await;
        for _ in 0..10 {
            count_unread(&server, &mallory, 50).await;
        }
    }
    assert_eq!(kept(&alice, 1).await.len(), 11);
    // Another caller finds room.
    let mut bob = as_caller(&server, "bob");
    bob.open().await;
    count_unread(&server, &bob, 100).await;
    assert_eq!(kept(&bob, 1).await.len(), 101);
}

/// Regression: each caller had half of the memory that the others left, so a newcomer had almost nothing.
#[tokio::test(start_paused = true)]
async fn a_newcomer_can_resume_its_stream_although_many_callers_have_filled_the_memory() {
    let server = SessionServer::with(|limits| limits.replay_total = 400_000);
    let mut clients = Vec::new();
    for name in 0..20 {
        let mut client = as_caller(&server, &"abcdefghijklmnopqrst"[name..=name]);
        client.open().await;
        for _ in 0..3 {
            count_unread(&server, &client, 50).await;
        }
        clients.push(client);
    }
    let mut newcomer = as_caller(&server, "newcomer");
    newcomer.open().await;
    count_unread(&server, &newcomer, 50).await;
    let events = kept(&newcomer, 1).await;
    assert_eq!((events.len(), events.first().map(String::as_str)), (51, Some("1-1")));
    // The others have lost their oldest streams, and keep about as much as each other.
    for client in clients {
        assert_eq!(client.get(Some("1-0")).await.status, 400);
        assert_eq!(kept(&client, 3).await.len(), 51);
    }
}

/// Lets this caller fill, end and resume 16 streams in each of some sessions. Returns their readers, which read nothing.
async fn resume_unread(
    server: &SessionServer,
    caller: &'static str,
    sessions: usize,
) -> Vec<TestResponse> {
    let mut reading = Vec::new();
    for _ in 0..sessions {
        let mut client = as_caller(server, caller);
        client.open().await;
        for stream in 1..=16 {
            count_unread(server, &client, 50).await;
            reading.push(client.get(Some(&format!("{stream}-0"))).await);
        }
    }
    reading
}

/// Regression: a caller that resumed all its streams without reading them kept the memory.
#[tokio::test(start_paused = true)]
async fn a_newcomer_can_resume_its_stream_although_all_others_are_being_read() {
    let server = SessionServer::with(|limits| limits.replay_total = 200_000);
    let _reading = resume_unread(&server, "mallory", 1).await;
    let mut newcomer = as_caller(&server, "newcomer");
    newcomer.open().await;
    count_unread(&server, &newcomer, 50).await;
    assert_eq!(kept(&newcomer, 1).await.len(), 51);
    count_unread(&server, &newcomer, 50).await;
    assert_eq!(kept(&newcomer, 2).await.len(), 51);
}

/// Regression: streams that were being read were never discarded for another one of their own caller.
#[tokio::test(start_paused = true)]
async fn streams_being_read_stay_within_the_total() {
    // One stream takes about 19 kB.
    let server = SessionServer::with(|limits| limits.replay_total = 200_000);
    let mut reading = resume_unread(&server, "mallory", 3).await;
    reading.extend(resume_unread(&server, "malvina", 3).await);
    let mut complete = 0;
    for response in reading {
        complete += usize::from(response.status == 200 && response.messages().await.len() == 51);
    }
    assert!((5..12).contains(&complete), "{complete} streams were kept");
}

/// Regression: open calls beyond their caller's share displaced the ended streams of all others.
#[tokio::test(start_paused = true)]
async fn open_calls_of_one_caller_do_not_displace_the_streams_of_others() {
    let server = SessionServer::with(|limits| limits.replay_total = 60_000);
    let mut alice = as_caller(&server, "alice");
    alice.open().await;
    count_unread(&server, &alice, 10).await;
    let mut mallory = as_caller(&server, "mallory");
    mallory.open().await;
    let mut unread = Vec::new();
    for id in 1..=100 {
        unread.push(mallory.post(tool(id, "count_and_wait", json!({"to": 5}))).await);
    }
    server.settle().await;
    assert_eq!(kept(&alice, 1).await.len(), 11);
    // Her streams are still kept when another call of hers ends.
    count_unread(&server, &alice, 1).await;
    assert_eq!(kept(&alice, 1).await.len(), 11);
}

/// Regression: the calls of all callers waited for their clients to read each event.
#[tokio::test(start_paused = true)]
async fn a_caller_that_reads_nothing_does_not_delay_the_calls_of_others() {
    let server = SessionServer::with(|limits| limits.replay_total = 400_000);
    let mut mallory = as_caller(&server, "mallory");
    mallory.open().await;
    let mut unread = Vec::new();
    for id in 1..=4 {
        unread.push(mallory.post(tool(id, "count", json!({"to": 500}))).await);
    }
    server.settle().await;
    let mut alice = as_caller(&server, "alice");
    alice.open().await;
    let before = server.calls();
    let answer = alice.post(tool(1, "count", json!({"to": 100}))).await;
    server.settle().await;
    assert_eq!(server.calls(), before, "the call waits for its reader");
    assert_eq!(answer.messages().await.len(), 101);
    // The other caller gets all of its events too.
    for answer in unread {
        assert_eq!(answer.messages().await.len(), 501);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_floods_does_not_delay_others() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let answer = client.tool(1, "flood").await;
    drop(answer);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.tool(2, "now").await.status, 200);
    assert_eq!(client.cancel(1).await, 202);
    server.settle().await;
    assert_eq!(server.calls(), 1);
}
