//! Sessions in which each request reaches another server.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use wharf_model::RemoteAddress;

use crate::http_cluster::support::{NEWEST, SessionClient, SessionServer, tool};

const REVISIONS: [&str; 3] = ["2025-03-26", "2025-06-18", NEWEST];
/// Notifications of a call before its reply.
const NOTIFICATIONS: u64 = 6;

fn ids(stream: &str, from: u64, to: u64) -> Vec<String> {
    (from..=to).map(|event| format!("{stream}-{event}")).collect()
}

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap()
}

async fn rest(client: &SessionClient, last: &str) -> Vec<String> {
    let messages = client.get(Some(last)).await.messages().await;
    messages.into_iter().map(|event| event.id).collect()
}

#[tokio::test(start_paused = true)]
async fn a_call_cut_at_any_event_is_resumed_at_any_server() {
    let server = SessionServer::new();
    for revision in REVISIONS {
        let client = server.client(revision).await;
        for cut in 1..=NOTIFICATIONS as usize + 1 {
            let mut answer = client.post(tool(1, "count", json!({"to": NOTIFICATIONS}))).await;
            let stream = cut.to_string();
            assert_eq!(answer.ids(cut).await, ids(&stream, 1, cut as u64));
            drop(answer);
            let expected = ids(&stream, cut as u64 + 1, NOTIFICATIONS + 1);
            // The rest is still available after further cuts, at any server.
            for _ in 0..4 {
                let last = format!("{stream}-{cut}");
                assert_eq!(rest(&client, &last).await, expected, "{revision} {cut}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_on_is_followed_from_any_server() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for node in 0..3 {
        server.only(0);
        let stream = (node + 1).to_string();
        let call = tool(1, "count_and_wait", json!({"to": NOTIFICATIONS}));
        let mut answer = client.post(call).await;
        assert_eq!(answer.next().await.unwrap().id, format!("{stream}-0"));
        server.only(node);
        let mut resumed = client.get(Some(&format!("{stream}-0"))).await;
        assert_eq!(resumed.ids(NOTIFICATIONS as usize).await, ids(&stream, 1, NOTIFICATIONS));
        // The latest reader takes over.
        server.settle().await;
        let mut left = 0;
        while answer.message().await.is_some() {
            left += 1;
        }
        assert!(left <= NOTIFICATIONS);
        server.gate.add_permits(1);
        assert_eq!(resumed.ids(1).await, ids(&stream, NOTIFICATIONS + 1, NOTIFICATIONS + 1));
        assert_eq!(resumed.next().await, None);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_is_followed_without_bus_messages() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.tool(1, "gate").await;
    let last = answer.next().await.unwrap().id;
    server.ports.deaf(true);
    server.only(1);
    let mut resumed = client.get(Some(&last)).await;
    server.gate.add_permits(1);
    assert_eq!(text(&resumed.message().await.unwrap().data), "gate");
    assert_eq!(resumed.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_latest_reader_takes_over_the_stream() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut first = client.tool(1, "gate").await;
    let last = first.next().await.unwrap().id;
    let mut readers = vec![first];
    for node in [1, 2, 0, 1, 1, 0, 0, 2] {
        server.only(node);
        readers.push(client.get(Some(&last)).await);
        server.settle().await;
    }
    let mut newest = readers.pop().unwrap();
    for mut reader in readers {
        assert_eq!(reader.next().await, None);
    }
    server.gate.add_permits(1);
    assert_eq!(text(&newest.message().await.unwrap().data), "gate");
    assert_eq!(newest.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn client_responses_are_forwarded_to_the_owning_server() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for deaf in [false, true] {
        server.ports.deaf(deaf);
        server.only(0);
        let mut first = client.tool(1, "ask").await;
        let first_ask = first.message().await.unwrap().data;
        server.only(1);
        let mut second = client.tool(2, "ask").await;
        let second_ask = second.message().await.unwrap().data;
        assert_ne!(first_ask["id"], second_ask["id"]);
        // JavaScript clients do not support larger integers.
        assert!(first_ask["id"].as_u64().unwrap() < 1 << 53);
        server.only(2);
        assert_eq!(client.answer(&second_ask, json!({"roots": [2]})).await, 202);
        assert_eq!(text(&second.message().await.unwrap().data), r#"{"roots":[2]}"#);
        let error = json!({"code": -32000, "message": "no"});
        let refusal = json!({"jsonrpc": "2.0", "id": first_ask["id"], "error": error});
        assert_eq!(client.post(refusal).await.status, 202);
        assert_eq!(first.message().await.unwrap().data["result"]["isError"], true);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_response_is_forwarded_after_minutes_of_silence() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for silence in [0, 50, 61, 70, 600, 1200] {
        sleep(Duration::from_secs(silence)).await;
        server.only(0);
        let mut call = client.tool(1, "ask").await;
        let ask = call.message().await.unwrap().data;
        server.only(1);
        assert_eq!(client.answer(&ask, json!({"roots": [silence]})).await, 202);
        let expected = json!({"roots": [silence]}).to_string();
        assert_eq!(text(&call.message().await.unwrap().data), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_response_too_long_for_the_mailbox_fails_the_request() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut call = client.tool(1, "ask").await;
    let ask = call.message().await.unwrap().data;
    server.only(1);
    assert_eq!(client.answer(&ask, json!({"roots": ["x".repeat(1 << 20)]})).await, 202);
    assert_eq!(call.message().await.unwrap().data["result"]["isError"], true);
}

#[tokio::test(start_paused = true)]
async fn mailbox_messages_for_an_unknown_process_are_not_stored() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    // By then the liveness of all servers is known.
    sleep(Duration::from_secs(60)).await;
    let before = server.ports.mailboxes();
    for node in 1..=10_u64 {
        let ask = json!({"id": node << 20});
        assert_eq!(client.answer(&ask, json!({"roots": []})).await, 202);
    }
    assert_eq!(server.ports.mailboxes(), before);
}

#[tokio::test(start_paused = true)]
async fn cancellations_are_forwarded_to_the_owning_server() {
    let server = SessionServer::new();
    let (client, other) = (server.client(NEWEST).await, server.client(NEWEST).await);
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    server.only(1);
    assert_eq!(other.cancel(1).await, 202);
    server.settle().await;
    assert_eq!(server.calls(), 1);
    assert_eq!(client.cancel(1).await, 202);
    assert_eq!(answer.next().await, None);
    assert_eq!(server.calls(), 0);
    server.only(2);
    assert_eq!(rest(&client, &last).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn cancellations_are_forwarded_without_bus_messages() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    answer.message().await.unwrap();
    server.ports.deaf(true);
    server.only(1);
    assert_eq!(client.cancel(1).await, 202);
    assert_eq!(timeout(Duration::from_secs(60), answer.message()).await, Ok(None));
    assert_eq!(server.calls(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_event_id_does_not_replace_the_reader() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut own = client.get(None).await;
    own.next().await.unwrap();
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": 1}))).await;
    let last = answer.message().await.unwrap().id;
    let stream = server.real(&client, &last).split_once('-').unwrap().0.to_owned();
    for node in [0, 1, 0] {
        server.only(node);
        for wrong in [format!("{stream}-2"), format!("{stream}-99"), "0-x".into(), "77-1".into()] {
            let request = client.request("GET").header("accept", "text/event-stream");
            let refused = client.send(request.header("last-event-id", &wrong), String::new()).await;
            assert_eq!(refused.status, 400, "{node} {wrong}");
        }
        server.settle().await;
    }
    server.change(1);
    assert_eq!(own.ids(1).await, ["0-1"]);
    server.gate.add_permits(1);
    assert_eq!(text(&answer.message().await.unwrap().data), "count_and_wait");
}

/// Reads the session's GET stream until nothing more arrives; returns the changes in order.
async fn changes(client: &SessionClient, last: &mut Option<String>, most: usize) -> Vec<String> {
    let mut heard = Vec::new();
    loop {
        let mut own = client.get(last.as_deref()).await;
        // A store failure prevents the stream from being opened.
        if own.status == 503 {
            sleep(Duration::from_secs(1)).await;
            continue;
        }
        while heard.len() < most {
            let Ok(event) = timeout(Duration::from_secs(60), own.message()).await else { break };
            let event = event.unwrap();
            heard.push(event.data["params"]["uri"].as_str().unwrap().to_owned());
            *last = Some(event.id);
        }
        return heard;
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_the_store_appended_twice_are_delivered_once() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    own.next().await.unwrap();
    server.ports.fickle();
    let reading = tokio::spawn(async move { while own.message().await.is_some() {} });
    for number in 1..=40 {
        server.change(number);
        sleep(Duration::from_secs(5)).await;
    }
    let told: Vec<_> = (1..=40).map(|number| format!("toy:{number}")).collect();
    // A reconnecting client receives each change once, wherever the stream was cut.
    for piece in [40, 13, 7, 3, 1] {
        let (mut heard, mut last) = (Vec::new(), Some("0-0".to_owned()));
        while heard.len() < told.len() {
            let more = changes(&client, &mut last, piece).await;
            assert!(!more.is_empty(), "{piece}: {heard:?}");
            heard.extend(more);
        }
        assert_eq!(heard, told, "{piece}");
        assert!(changes(&client, &mut last, 1).await.is_empty());
    }
    reading.abort();
}

#[tokio::test(start_paused = true)]
async fn the_sessions_own_stream_moves_between_servers() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    assert_eq!(own.next().await.unwrap().id, "0-0");
    for round in 0..4 {
        server.change(round);
        assert_eq!(own.ids(1).await, [format!("0-{}", round + 1)]);
        assert_eq!(server.calls(), 1, "one server listens");
        let moved = match round {
            // Without an id it begins at the current end of the stream.
            1 => client.get(None).await,
            _ => client.get(Some(&format!("0-{}", round + 1))).await,
        };
        server.settle().await;
        assert_eq!(own.next().await, None);
        own = moved;
        if round == 1 {
            assert_eq!(own.next().await.unwrap().id, "0-2");
        }
    }
    let again: Vec<_> = client.get(Some("0-1")).await.ids(3).await;
    assert_eq!(again, ids("0", 2, 4));
}

#[tokio::test(start_paused = true)]
async fn the_sessions_own_stream_goes_on_after_a_long_silence() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    own.next().await.unwrap();
    for change in 1..=3 {
        server.change(change);
        assert_eq!(own.message().await.unwrap().data["params"]["uri"], format!("toy:{change}"));
    }
    for change in 4..=6 {
        // Long enough for the events to expire in the store.
        let reading = tokio::spawn(async move { own.message().await });
        sleep(Duration::from_secs(2 * 3600)).await;
        server.change(change);
        let event = reading.await.unwrap().unwrap();
        assert_eq!(
            (event.id.as_str(), event.data["params"]["uri"].as_str()),
            ("0-1", Some(&*format!("toy:{change}")))
        );
        own = client.get(Some(&event.id)).await;
    }
    drop(own);
    // A client that reconnects with an expired id receives all later events.
    let missed = client.get(Some("0-3")).await.message().await.unwrap();
    assert_eq!(missed.data["params"]["uri"], "toy:6");
}

#[tokio::test(start_paused = true)]
async fn a_client_receives_nothing_before_initialized() {
    let server = SessionServer::new();
    let mut client = server.client_without_session(NEWEST);
    client.session = client.initialize("test").await.session;
    let mut own = client.get(None).await;
    own.next().await.unwrap();
    server.change(1);
    assert!(own.is_silent().await);
    let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(client.post(initialized).await.status, 202);
    let waiting = tokio::spawn(async move { own.message().await });
    server.settle().await;
    server.change(2);
    assert_eq!(waiting.await.unwrap().unwrap().data["params"]["uri"], "toy:2");
}

#[tokio::test(start_paused = true)]
async fn deleting_a_session_ends_it_everywhere() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut own = client.get(None).await;
    own.next().await.unwrap();
    server.only(1);
    let mut speaking = client.post(tool(2, "count_and_wait", json!({"to": 1}))).await;
    let last = speaking.message().await.unwrap().id;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.tool(3, "gate").await }
    });
    server.settle().await;
    server.only(2);
    let mut resumed = client.get(Some(&last)).await;
    server.only(0);
    assert_eq!(client.delete().await.status, 204);
    for stream in [&mut own, &mut speaking, &mut resumed] {
        assert_eq!(stream.next().await, None);
    }
    assert_eq!(waiting.await.unwrap().status, 404);
    server.settle().await;
    assert_eq!((server.calls(), server.ports.sessions(), server.ports.streams()), (0, 0, 0));
    for node in 0..3 {
        server.only(node);
        assert_eq!(client.tool(1, "now").await.status, 404);
        assert_eq!(client.get(Some(&last)).await.status, 404);
        assert_eq!(client.delete().await.status, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_lives_while_any_server_uses_it() {
    let minute = Duration::from_secs(60);
    let server = SessionServer::with(|limits| limits.session_idle = 10 * minute);
    let (client, listening) = (server.client(NEWEST).await, server.client(NEWEST).await);
    let mut own = listening.get(None).await;
    let reading = tokio::spawn(async move { while own.next().await.is_some() {} });
    for _ in 0..9 {
        sleep(8 * minute).await;
        assert_eq!(client.tool(1, "now").await.status, 200);
    }
    for _ in 0..3 {
        assert_eq!(listening.tool(1, "now").await.status, 200);
    }
    reading.abort();
    sleep(13 * minute).await;
    assert_eq!(server.ports.sessions(), 0);
    for _ in 0..3 {
        assert_eq!(client.tool(1, "now").await.status, 404);
        assert_eq!(listening.tool(1, "now").await.status, 404);
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_visible_only_to_its_owner_at_any_server() {
    let server = SessionServer::new();
    let mut alice = server.client_without_session(NEWEST);
    alice.principal = Some("alice");
    alice.open().await;
    let mut answer = alice.tool(1, "gate").await;
    let last = answer.next().await.unwrap().id;
    for thief in [Some("bob"), None] {
        let thief = SessionClient { principal: thief, ..alice.clone() };
        for node in 0..3 {
            server.only(node);
            assert_eq!(thief.tool(2, "now").await.status, 404);
            assert_eq!(thief.get(Some(&last)).await.status, 404);
            assert_eq!(thief.get(None).await.status, 404);
            assert_eq!(thief.cancel(1).await, 404);
            assert_eq!(thief.delete().await.status, 404);
        }
    }
    for node in 0..3 {
        server.only(node);
        assert_eq!(text(&alice.tool(3, "who").await.json().await), "alice");
    }
    let kept = server.ports.text();
    let name = alice.session.clone().unwrap();
    assert!(!kept.contains("alice") && !kept.contains(&name), "{kept}");
}

#[tokio::test(start_paused = true)]
async fn sessions_are_limited_per_caller_and_anonymous_callers_share_a_limit() {
    let server =
        SessionServer::with(|limits| (limits.sessions, limits.anonymous_sessions) = (2, 5));
    for (principal, most) in [(Some("alice"), 2), (None, 5), (Some("bob"), 2)] {
        let mut client = server.client_without_session(NEWEST);
        client.principal = principal;
        for _ in 0..most {
            client.open().await;
            client.session = None;
        }
        let refused = client.initialize("test").await;
        assert_eq!((refused.status, refused.session), (503, None), "{principal:?}");
    }
    assert_eq!(server.ports.sessions(), 9);
    // Streams that no client resumed expire.
    sleep(Duration::from_secs(3600)).await;
    server.client(NEWEST).await;
}

#[tokio::test(start_paused = true)]
async fn an_anonymous_caller_leaves_sessions_for_other_addresses() {
    let server = SessionServer::with(|limits| limits.anonymous_sessions = 32);
    let at = |last: u8| {
        let mut client = server.client_without_session(NEWEST);
        client.address = Some(RemoteAddress(([192, 0, 2, last], 5000).into()));
        client
    };
    let mut hog = at(1);
    let mut opened = 0;
    let refused = loop {
        let answer = hog.initialize("test").await;
        if answer.status != 200 || opened > 8 {
            break answer;
        }
        (hog.session, opened) = (answer.session, opened + 1);
        let session = hog.session.take();
        // An unauthenticated client may reconnect from another address, to any process.
        let moved = SessionClient { session, ..at(2) };
        assert_eq!(moved.tool(1, "now").await.status, 200);
    };
    assert_eq!((opened, refused.status), (2, 503));
    at(2).open().await;
    // A principal cannot use the session of an anonymous caller.
    let mut victim = at(3);
    victim.open().await;
    victim.principal = Some("mallory");
    assert_eq!(victim.tool(1, "now").await.status, 404);
}

#[tokio::test(start_paused = true)]
async fn all_addresses_together_stay_within_the_limit_of_anonymous_sessions() {
    let server = SessionServer::with(|limits| limits.anonymous_sessions = 64);
    let mut opened = 0;
    for last in 0..=255 {
        let mut client = server.client_without_session(NEWEST);
        client.address = Some(RemoteAddress(([192, 0, 2, last], 5000).into()));
        for _ in 0..5 {
            opened += usize::from(client.initialize("test").await.status == 200);
        }
    }
    assert_eq!((opened, server.ports.sessions()), (64, 64));
}

#[tokio::test(start_paused = true)]
async fn only_the_newest_streams_that_have_ended_are_kept() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for number in 1..=100 {
        let answer = client.post(tool(number, "count", json!({"to": 1}))).await;
        assert_eq!(answer.messages().await.len(), 2);
    }
    server.settle().await;
    assert_eq!(server.ports.streams(), 3 * 16);
    // A request without a stream leaves no stream behind.
    server.gate.add_permits(10);
    for number in 1..=10 {
        assert_eq!(client.tool(number, "gate").await.json().await["id"], number);
    }
    assert_eq!(server.ports.streams(), 3 * 16);
    assert_eq!(rest(&client, "100-1").await, ["100-2"]);
    assert_eq!(client.get(Some("1-1")).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_stream_read_by_another_server_is_not_evicted() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    server.only(0);
    let mut answer = client.post(tool(1, "count_and_wait", json!({"to": NOTIFICATIONS}))).await;
    let last = answer.next().await.unwrap().id;
    server.only(1);
    let resumed = client.get(Some(&last)).await;
    server.settle().await;
    server.gate.add_permits(1);
    server.only(0);
    for number in 2..=40 {
        let answer = client.post(tool(number, "count", json!({"to": 1}))).await;
        assert_eq!(answer.messages().await.len(), 2);
    }
    server.settle().await;
    assert_eq!(resumed.messages().await.len() as u64, NOTIFICATIONS + 1);
}

/// Many clients, all cut repeatedly and concurrently.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_clients_never_see_each_others_events() {
    let server = SessionServer::new();
    let mut clients = tokio::task::JoinSet::new();
    for seed in 1..=8_usize {
        let server = server.clone();
        clients.spawn(async move {
            let client = server.client(NEWEST).await;
            let mut call = tool(seed as u64, "count", json!({"to": 100}));
            call["params"]["_meta"]["progressToken"] = json!(seed);
            let mut answer = client.post(call).await;
            let mut last = answer.next().await.unwrap().id;
            let mut seen = 0;
            for round in 0.. {
                let mut piece = (seed * 31 + round * 17) % 13;
                while piece > 0 && seen < 101 {
                    let event = answer.message().await.unwrap();
                    seen += 1;
                    assert_eq!(event.id, format!("1-{seen}"));
                    match seen {
                        101 => assert_eq!(event.data["id"], seed),
                        _ => assert_eq!(event.data["params"]["progressToken"], seed),
                    }
                    last = event.id;
                    piece -= 1;
                }
                if seen == 101 {
                    break;
                }
                // The old response is still open when the client reconnects.
                answer = client.get(Some(&last)).await;
            }
            assert_eq!(answer.next().await, None);
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
}
