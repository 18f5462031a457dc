//! Resumability: streams that are cut, and the events that a reconnecting client receives.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;

use crate::http_session::{
    decoded_response::TestResponse,
    support::{NEWEST, SessionClient, SessionServer, tool},
};

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", NEWEST];
/// Notifications of a call before its reply.
const NOTIFICATIONS: u64 = 6;

fn ids(stream: u64, from: u64, to: u64) -> Vec<String> {
    (from..=to).map(|event| format!("{stream}-{event}")).collect()
}

async fn rest(client: &SessionClient, last: &str) -> Vec<String> {
    let messages = client.get(Some(last)).await.messages().await;
    messages.into_iter().map(|event| event.id).collect()
}

/// TS#943: event ids did not name their stream. cloudflare/agents#1607: the reply was deleted before its delivery.
#[tokio::test(start_paused = true)]
async fn a_call_cut_at_any_event_is_resumed_there() {
    let server = SessionServer::new();
    for revision in REVISIONS {
        let client = server.client(revision).await;
        for cut in 0..=NOTIFICATIONS as usize + 1 {
            let mut answer = client.post(tool(1, "count", json!({"to": NOTIFICATIONS}))).await;
            let stream = cut as u64 + 1;
            let seen = answer.ids(cut).await;
            assert_eq!(seen, ids(stream, 1, cut as u64));
            drop(answer);
            let last = format!("{stream}-{cut}");
            let expected = ids(stream, cut as u64 + 1, NOTIFICATIONS + 1);
            assert_eq!(rest(&client, &last).await, expected, "{revision} {cut}");
            // The rest is still available after further cuts.
            assert_eq!(rest(&client, &last).await, expected);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_cut_while_it_waits_goes_on_and_is_resumed() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for cut in 0..=NOTIFICATIONS as usize {
        let stream = cut as u64 + 1;
        let mut answer = client.post(tool(1, "count_and_wait", json!({"to": NOTIFICATIONS}))).await;
        answer.ids(cut).await;
        drop(answer);
        server.settle().await;
        // While the call is in flight, and again after its end.
        let mut resumed = client.get(Some(&format!("{stream}-{cut}"))).await;
        assert_eq!(
            resumed.ids(NOTIFICATIONS as usize - cut).await,
            ids(stream, cut as u64 + 1, NOTIFICATIONS)
        );
        drop(resumed);
        server.gate.add_permits(1);
        server.settle().await;
        assert_eq!(
            rest(&client, &format!("{stream}-{NOTIFICATIONS}")).await,
            ids(stream, NOTIFICATIONS + 1, NOTIFICATIONS + 1)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_can_be_cut_again_and_again() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for pieces in [[1, 2, 3], [3, 1, 1], [0, 4, 2], [2, 0, 0]] {
        let mut answer = client.post(tool(1, "count", json!({"to": NOTIFICATIONS}))).await;
        let mut last = answer.next().await.unwrap().id;
        let stream: u64 = last.split_once('-').unwrap().0.parse().unwrap();
        let mut seen = Vec::new();
        for piece in pieces {
            seen.extend(answer.ids(piece).await);
            last = seen.last().unwrap_or(&last).clone();
            drop(answer);
            answer = client.get(Some(&last)).await;
        }
        seen.extend(answer.messages().await.into_iter().map(|event| event.id));
        assert_eq!(seen, ids(stream, 1, NOTIFICATIONS + 1));
    }
}

#[tokio::test(start_paused = true)]
async fn the_sessions_own_stream_cut_at_any_event_is_resumed_there() {
    for revision in REVISIONS {
        let server = SessionServer::new();
        let client = server.client(revision).await;
        let mut own = client.get(None).await;
        (1..=5).for_each(|number| server.change(number));
        let all = own.ids(5).await;
        assert_eq!(all, ids(0, 1, 5));
        drop(own);
        for cut in 0..=5 {
            let mut resumed = client.get(Some(&format!("0-{cut}"))).await;
            assert_eq!(resumed.ids(5 - cut).await, all[cut..]);
            assert!(resumed.is_silent().await);
        }
        // Events that arrive without a reader are kept as well.
        server.change(6);
        server.settle().await;
        let mut resumed = client.get(Some("0-4")).await;
        server.change(7);
        let uris = [5, 6, 7].map(|number| format!("toy:{number}"));
        for uri in uris {
            assert_eq!(resumed.message().await.unwrap().data["params"]["uri"], uri);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_comes_back_without_an_id_gets_what_was_never_sent() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.change(1);
    server.settle().await;
    let mut own = client.get(None).await;
    assert_eq!(own.next().await.unwrap().id, "0-0");
    assert_eq!(own.ids(1).await, ["0-1"]);
    drop(own);
    server.change(2);
    server.settle().await;
    let mut own = client.get(None).await;
    // The first event id is the one to resume from.
    assert_eq!(own.next().await.unwrap().id, "0-1");
    assert_eq!(own.ids(1).await, ["0-2"]);
    assert!(own.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn an_unread_change_is_kept_once() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    server.change(1);
    let last = own.ids(1).await.remove(0);
    drop(own);
    for number in [1, 2, 1, 1, 2, 3] {
        server.change(number);
        server.settle().await;
    }
    let mut own = client.get(Some(&last)).await;
    for number in [1, 2, 3] {
        let message = own.message().await.unwrap();
        assert_eq!(message.data["params"]["uri"], format!("toy:{number}"));
    }
    assert!(own.is_silent().await);
    // A change that was already read is sent again.
    server.change(1);
    assert_eq!(own.message().await.unwrap().data["params"]["uri"], "toy:1");
}

#[tokio::test(start_paused = true)]
async fn a_second_stream_is_refused_and_the_first_survives() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut first = client.get(None).await;
    for _ in 0..3 {
        assert_eq!(client.get(None).await.status, 409);
    }
    server.change(1);
    assert_eq!(first.ids(1).await, ["0-1"]);
    drop(first);
    assert_eq!(client.get(None).await.status, 200);
}

/// Reads a stream, and reconnects after each end as the server requests, until a reply arrives. Counts the requests.
async fn read_until_reply(
    client: SessionClient,
    mut answer: TestResponse,
    requests: Arc<AtomicUsize>,
) -> Vec<String> {
    let (mut last, mut retry, mut seen) = (String::new(), 1000, Vec::new());
    loop {
        while let Some(event) = answer.next().await {
            retry = event.retry.unwrap_or(retry);
            if !event.id.is_empty() {
                last = event.id;
            }
            if !event.data.is_null() {
                seen.push(last.clone());
            }
            if event.data["result"].is_object() {
                return seen;
            }
        }
        tokio::time::sleep(Duration::from_millis(retry)).await;
        requests.fetch_add(1, Ordering::SeqCst);
        answer = client.get(Some(&last)).await;
        assert_eq!(answer.status, 200);
    }
}

/// rust-sdk#659: the session's own stream and a call's stream that was resumed displaced each other without end.
#[tokio::test(start_paused = true)]
async fn reconnecting_readers_of_two_streams_come_to_rest() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let (of_own, of_calls) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
    let own = client.get(None).await;
    let own = tokio::spawn(read_until_reply(client.clone(), own, of_own.clone()));
    let mut calls = Vec::new();
    for id in 1..=2 {
        let answer = client.post(tool(id, "let_go", json!({"to": 2}))).await;
        calls.push(tokio::spawn(read_until_reply(client.clone(), answer, of_calls.clone())));
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    server.gate.add_permits(2);
    for (stream, call) in (1..).zip(calls) {
        assert_eq!(call.await.unwrap(), ids(stream, 1, 4));
    }
    // Each call's stream was closed once.
    assert_eq!((of_own.load(Ordering::SeqCst), of_calls.load(Ordering::SeqCst)), (0, 2));
    // A client that has not noticed the end of a call's stream disturbs no other reader.
    for _ in 0..3 {
        assert_eq!(rest(&client, "1-4").await, [""; 0]);
    }
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!((of_own.load(Ordering::SeqCst), of_calls.load(Ordering::SeqCst)), (0, 2));
    assert!(!own.is_finished());
    own.abort();
}

#[tokio::test(start_paused = true)]
async fn the_latest_reader_takes_over() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut first = client.get(None).await;
    server.change(1);
    assert_eq!(first.ids(1).await, ["0-1"]);
    let mut second = client.get(Some("0-1")).await;
    assert_eq!(first.next().await, None);
    drop(first);
    server.change(2);
    assert_eq!(second.ids(1).await, ["0-2"]);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 2}))).await;
    assert_eq!(answer.ids(2).await, ids(1, 1, 2));
    let mut resumed = client.get(Some("1-1")).await;
    assert_eq!(answer.next().await, None);
    drop(answer);
    assert_eq!(resumed.ids(1).await, ["1-2"]);
    server.gate.add_permits(1);
    assert_eq!(resumed.ids(1).await, ["1-3"]);
    assert_eq!(resumed.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_reader_ends_when_another_takes_over() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut first = client.get(None).await;
    first.next().await.unwrap();
    let waiting = tokio::spawn(async move { first.next().await });
    server.settle().await;
    let _second = client.get(Some("0-0")).await;
    server.settle().await;
    assert!(waiting.is_finished());
}

#[tokio::test(start_paused = true)]
async fn nothing_is_replayed_for_an_id_that_was_never_given() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let other = server.client(NEWEST).await;
    assert_eq!(client.post(tool(1, "count", json!({"to": 2}))).await.messages().await.len(), 3);
    for id in [
        "2-0",
        "1-4",
        "0-1",
        "1",
        "1-",
        "-1",
        "1-1-1",
        "01-1",
        "1-01",
        "+1-1",
        " 1-1 x",
        "1_1",
        "",
        "18446744073709551616-1",
        "x-1",
    ] {
        assert_eq!(client.get(Some(id)).await.status, 400, "{id}");
    }
    let two = client.request("GET").header("last-event-id", "1-1").header("last-event-id", "1-2");
    assert_eq!(client.send(two, String::new()).await.status, 400);
    // In another session the stream number belongs to another stream, or to none.
    assert_eq!(other.get(Some("1-1")).await.status, 400);
    assert_eq!(rest(&client, "1-1").await, ids(1, 2, 3));
    let mut foreign = other.get(Some("0-0")).await;
    assert!(foreign.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn streams_are_replayed_one_at_a_time() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let first = client.post(tool(1, "count", json!({"to": 2}))).await;
    let second = client.post(tool(2, "count", json!({"to": 3}))).await;
    server.change(1);
    drop((first, second));
    server.settle().await;
    assert_eq!(rest(&client, "1-0").await, ids(1, 1, 3));
    assert_eq!(rest(&client, "2-0").await, ids(2, 1, 4));
    let mut own = client.get(Some("0-0")).await;
    assert_eq!(own.ids(1).await, ["0-1"]);
    assert!(own.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_disconnect_before_the_response_does_not_cancel_the_call() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let call = tool(1, "wait_and_count", json!({"to": 2}));
    let left = tokio::time::timeout(std::time::Duration::from_secs(1), client.post(call)).await;
    assert!(left.is_err());
    assert_eq!(server.calls(), 2);
    server.gate.add_permits(1);
    server.settle().await;
    assert_eq!(server.calls(), 1);
    assert_eq!(client.tool(1, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_server_to_client_request_can_be_answered_after_a_reconnect() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut answer = client.tool(1, "ask").await;
    assert_eq!(answer.next().await.unwrap().id, "1-0");
    drop(answer);
    let mut resumed = client.get(Some("1-0")).await;
    let ask = resumed.message().await.unwrap();
    assert_eq!((&*ask.id, &ask.data["method"]), ("1-1", &json!("roots/list")));
    drop(resumed);
    client.answer(&ask.data, json!({"roots": []})).await;
    assert_eq!(rest(&client, "1-1").await, ["1-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_release_the_connection_and_the_client_reconnects() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for (said, stream) in [(0, 1), (2, 2)] {
        let mut answer = client.post(tool(1, "let_go", json!({"to": said}))).await;
        assert_eq!(answer.next().await.unwrap().id, format!("{stream}-0"));
        assert_eq!(answer.ids(said as usize).await, ids(stream, 1, said));
        let retry = answer.next().await.unwrap();
        assert_eq!((&*retry.id, retry.retry), ("", Some(1000)));
        assert_eq!(answer.next().await, None);
        drop(answer);
        // A client that reconnects early waits.
        let mut resumed = client.get(Some(&format!("{stream}-{said}"))).await;
        assert!(resumed.is_silent().await);
        server.gate.add_permits(1);
        assert_eq!(resumed.ids(2).await, ids(stream, said + 1, said + 2));
        assert_eq!(resumed.next().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn connections_of_older_clients_are_not_released() {
    let server = SessionServer::new();
    for revision in ["2025-03-26", "2025-06-18"] {
        let client = server.client(revision).await;
        let mut answer = client.post(tool(1, "let_go", json!({"to": 1}))).await;
        assert_eq!(answer.ids(1).await, ["1-1"]);
        assert!(answer.is_silent().await);
        server.gate.add_permits(1);
        assert_eq!(answer.messages().await.len(), 2);
    }
}

/// Many clients on many threads, each cut repeatedly while its call runs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_that_are_cut_while_they_are_written_lose_nothing() {
    let server = SessionServer::new();
    let mut clients = tokio::task::JoinSet::new();
    for seed in 1..=16_usize {
        let server = server.clone();
        clients.spawn(async move {
            let client = server.client(NEWEST).await;
            let mut answer = client.post(tool(1, "count", json!({"to": 200}))).await;
            let mut last = answer.next().await.unwrap().id;
            let mut seen = Vec::new();
            for round in 0.. {
                let mut piece = (seed * 31 + round * 17) % 13;
                while piece > 0 && seen.len() < 201 {
                    last = answer.message().await.unwrap().id;
                    seen.push(last.clone());
                    piece -= 1;
                }
                if seen.len() == 201 {
                    break;
                }
                // The old response is still open when the client reconnects.
                answer = client.get(Some(&last)).await;
            }
            assert_eq!(answer.next().await, None);
            assert_eq!(seen, ids(1, 1, 201));
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
}
