//! Limits of a session and its streams.

use std::time::Duration;

use serde_json::json;
use tokio::time::sleep;

use crate::bed::{Bed, Client, NEWEST, tool};

#[tokio::test(start_paused = true)]
async fn one_call_too_many_is_refused_and_says_when_to_try_again() {
    let bed = Bed::with(|limits| limits.session_calls = 2);
    let client = bed.client(NEWEST).await;
    let calls = [client.tool(1, "gate").await, client.tool(2, "gate").await];
    let refused = client.tool(3, "now").await;
    assert_eq!((refused.status, refused.retry_after.as_deref()), (503, Some("1")));
    let refused = refused.json().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(1008)));
    assert_eq!(bed.client(NEWEST).await.tool(3, "now").await.status, 200);
    bed.gate.add_permits(1);
    bed.settle().await;
    assert_eq!(client.tool(3, "now").await.status, 200);
    drop(calls);
}

#[tokio::test(start_paused = true)]
async fn calls_may_hold_only_so_much_of_their_messages() {
    let bed = Bed::with_all(|_| {}, |lines| lines.held = 10_000);
    let client = bed.client(NEWEST).await;
    let long = |id| tool(id, "gate", json!({"text": "x".repeat(6_000)}));
    let calls = [client.post(long(1)).await, client.post(long(2)).await];
    assert_eq!(client.tool(3, "now").await.status, 503);
    bed.gate.add_permits(2);
    bed.settle().await;
    assert_eq!(client.tool(3, "now").await.status, 200);
    drop(calls);
}

#[tokio::test(start_paused = true)]
async fn a_batch_holds_its_message_until_its_last_call_ends() {
    let bed = Bed::with_all(|_| {}, |lines| lines.held = 10_000);
    let client = bed.client("2025-03-26").await;
    let long = tool(2, "now", json!({"text": "x".repeat(12_000)}));
    let answer = client.post(json!([tool(1, "gate", json!({})), long])).await;
    assert_eq!(client.tool(3, "now").await.status, 503);
    bed.gate.add_permits(1);
    assert_eq!(answer.messages().await.len(), 1);
    assert_eq!(client.tool(3, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_call_waits_for_a_client_that_reads_slowly() {
    let bed = Bed::with_all(|_| {}, |lines| lines.output = 1_000);
    let client = bed.client(NEWEST).await;
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
async fn a_client_that_does_not_read_is_sent_away_and_can_come_back() {
    let bed = Bed::with_all(|_| {}, |lines| lines.output = 1_000);
    let client = bed.client(NEWEST).await;
    let mut answer = client.post(tool(1, "count", json!({"to": 100}))).await;
    let last = answer.next().await.unwrap().id;
    tokio::time::sleep(Duration::from_secs(9)).await;
    assert_eq!(bed.calls(), 2, "the call waits for its reader");
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(bed.calls(), 1, "the call has gone on without it");
    let seen = answer.messages().await.len();
    assert!(seen < 20, "{seen}");
    let ids: Vec<_> =
        client.get(Some(&last)).await.messages().await.into_iter().map(|it| it.id).collect();
    let expected: Vec<_> = (1..=101).map(|number| format!("1-{number}")).collect();
    assert_eq!(ids, expected);
}

async fn kept(client: &Client, stream: u64) -> Vec<String> {
    let messages = client.get(Some(&format!("{stream}-0"))).await.messages().await;
    messages.into_iter().map(|event| event.id).collect()
}

async fn count_unread(bed: &Bed, client: &Client, to: u64) {
    let answer = client.post(tool(1, "count", json!({"to": to}))).await;
    drop(answer);
    bed.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_its_newest_events() {
    for (most, said) in [(1_000, 998), (1_000, 999), (1_000, 1_000), (1_000, 2_500), (3, 10)] {
        let bed = Bed::with(|limits| limits.replay_events = most);
        let client = bed.client(NEWEST).await;
        count_unread(&bed, &client, said).await;
        let first = (said + 2).saturating_sub(most as u64).max(1);
        let expected: Vec<_> = (first..=said + 1).map(|number| format!("1-{number}")).collect();
        assert_eq!(kept(&client, 1).await, expected, "{most} {said}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stream_keeps_only_so_many_bytes() {
    let bed = Bed::with(|limits| limits.replay_bytes = 10_000);
    let client = bed.client(NEWEST).await;
    count_unread(&bed, &client, 500).await;
    let kept = kept(&client, 1).await;
    assert!((10..100).contains(&kept.len()), "{}", kept.len());
    assert_eq!(kept.last().unwrap(), "1-501");
}

#[tokio::test(start_paused = true)]
async fn an_answer_is_kept_however_long_it_is() {
    let bed = Bed::with(|limits| limits.replay_bytes = 1_000);
    let client = bed.client(NEWEST).await;
    let mut answer = client.post(tool(1, "long", json!({"bytes": 100_000}))).await;
    assert_eq!(answer.next().await.unwrap().id, "1-0");
    drop(answer);
    bed.gate.add_permits(1);
    bed.settle().await;
    assert_eq!(kept(&client, 1).await, ["1-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_session_keeps_only_its_newest_finished_streams() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    for _ in 0..20 {
        count_unread(&bed, &client, 1).await;
    }
    for stream in 1..=20 {
        let status = client.get(Some(&format!("{stream}-0"))).await.status;
        assert_eq!(status, if stream > 4 { 200 } else { 400 }, "{stream}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_streams_together_keep_only_so_much_and_the_oldest_go_first() {
    let bed = Bed::with(|limits| limits.replay_total = 10_000);
    let clients = [bed.client(NEWEST).await, bed.client(NEWEST).await];
    for _ in 0..3 {
        for client in &clients {
            count_unread(&bed, client, 10).await;
        }
    }
    let mut statuses = Vec::new();
    for stream in 1..=3 {
        for client in &clients {
            statuses.push(client.get(Some(&format!("{stream}-0"))).await.status);
        }
    }
    // Once one is available, all that ended later are.
    let first = statuses.iter().position(|status| *status == 200).unwrap();
    assert!(first > 0 && statuses[first..].iter().all(|status| *status == 200), "{statuses:?}");
    assert_eq!(kept(&clients[1], 3).await.len(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_is_read_is_not_forgotten_for_others() {
    let bed = Bed::with(|limits| limits.replay_total = 5_000);
    let client = bed.client(NEWEST).await;
    count_unread(&bed, &client, 10).await;
    let mut reading = client.get(Some("1-0")).await;
    for _ in 0..3 {
        count_unread(&bed, &client, 10).await;
    }
    assert_eq!(reading.ids(11).await.len(), 11);
    assert_eq!(reading.next().await, None);
    drop(reading);
    // It expires once it is no longer read.
    for _ in 0..3 {
        count_unread(&bed, &client, 10).await;
    }
    assert_eq!(client.get(Some("1-0")).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_ends_unread_can_be_forgotten_for_others() {
    let bed = Bed::with(|limits| limits.replay_total = 5_000);
    let client = bed.client(NEWEST).await;
    for _ in 0..3 {
        let answer = client.post(tool(1, "count_and_wait", json!({"to": 10}))).await;
        drop(answer);
        bed.settle().await;
        bed.gate.add_permits(1);
        bed.settle().await;
    }
    assert_eq!(client.get(Some("1-0")).await.status, 400);
    assert_eq!(kept(&client, 3).await.len(), 11);
}

#[tokio::test(start_paused = true)]
async fn a_stream_that_has_ended_is_kept_for_its_time_only() {
    let minute = Duration::from_secs(60);
    let bed = Bed::with(|limits| limits.replay_time = minute);
    let client = bed.client(NEWEST).await;
    count_unread(&bed, &client, 1).await;
    sleep(minute / 2).await;
    count_unread(&bed, &client, 1).await;
    assert_eq!(client.get(Some("1-0")).await.status, 200);
    sleep(minute * 3 / 4).await;
    // Expiry is checked when another one ends.
    count_unread(&bed, &client, 1).await;
    assert_eq!(client.get(Some("1-0")).await.status, 400);
    assert_eq!(kept(&client, 2).await.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_a_reader_has_yet_to_read_is_never_dropped() {
    let bed = Bed::with(|limits| limits.replay_total = 1);
    let client = bed.client(NEWEST).await;
    let answer = client.post(tool(1, "count", json!({"to": 100}))).await;
    bed.settle().await;
    assert_eq!(answer.messages().await.len(), 101);
}

#[tokio::test(start_paused = true)]
async fn what_is_forgotten_is_given_back() {
    let bed = Bed::with(|limits| limits.replay_total = 200_000);
    let client = bed.client(NEWEST).await;
    for _ in 0..200 {
        count_unread(&bed, &client, 10).await;
    }
    for stream in 185..=200 {
        assert_eq!(kept(&client, stream).await.len(), 11);
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_kept_is_given_back() {
    let bed = Bed::with(|limits| limits.replay_total = 100_000);
    for _ in 0..100 {
        let client = bed.client(NEWEST).await;
        count_unread(&bed, &client, 100).await;
        assert_eq!(kept(&client, 1).await.len(), 101);
        client.delete().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_never_stops_speaking_holds_nobody_up() {
    let bed = Bed::new();
    let client = bed.client(NEWEST).await;
    let answer = client.tool(1, "flood").await;
    drop(answer);
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(client.tool(2, "now").await.status, 200);
    assert_eq!(client.cancel(1).await, 202);
    bed.settle().await;
    assert_eq!(bed.calls(), 1);
}
