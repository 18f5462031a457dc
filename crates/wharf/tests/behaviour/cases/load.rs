//! Many clients, many calls, slow readers. Counts only: no test here measures a time.

use std::collections::HashSet;

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, task::JoinSet, time::timeout};

use crate::{
    bed::{Bed, PATIENCE},
    client::{Client, only_text},
};

pub async fn each_of_many_clients_gets_its_own_answers(bed: Bed, revision: &'static str) {
    let mut clients = JoinSet::new();
    for index in 0..64_u64 {
        let mut client = bed.client(revision).await;
        clients.spawn(async move {
            // Every client uses the same ids; only the nonce tells whose answer it is.
            for round in 0..4 {
                let nonce = format!("client {index}, round {round}");
                let delay = (index * 7919 + round * 104_729) % 13;
                let arguments = json!({"milliseconds": delay, "nonce": nonce});
                assert_eq!(client.text("nap", arguments).await, nonce);
            }
        });
    }
    let served = clients.join_all().await.len();
    assert_eq!(served, 64);
}

/// Writes every call without waiting, while another task reads; each id must come back once.
async fn pipeline(client: Client, count: usize, tool: &str, arguments: fn(usize) -> Value) {
    let requests: Vec<String> = (0..count)
        .map(|index| {
            let call = json!({"name": tool, "arguments": arguments(index)});
            format!("{}\n", client.request(&json!(format!("n{index}")), "tools/call", call))
        })
        .collect();
    let (mut reader, mut writer) = client.into_parts();
    let writing = tokio::spawn(async move {
        for request in requests {
            writer.write_all(request.as_bytes()).await.unwrap();
        }
        writer.shutdown().await.unwrap();
    });
    let mut seen = HashSet::new();
    while seen.len() < count {
        let line = timeout(PATIENCE, reader.next_line()).await.expect("patience").unwrap().unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        let id = reply["id"].as_str().unwrap().to_owned();
        assert_eq!(only_text(&reply["result"]), &id[1..], "{reply}");
        assert!(seen.insert(id), "twice: {reply}");
    }
    writing.await.unwrap();
    assert_eq!(timeout(PATIENCE, reader.next_line()).await.expect("patience").unwrap(), None);
}

pub async fn ten_thousand_calls_in_a_row_each_get_one_reply(bed: Bed, revision: &'static str) {
    let client = bed.client(revision).await;
    pipeline(client, 10_000, "echo", |index| json!({"text": index.to_string()})).await;
}

/// More calls than may be under way at once: reading stops and goes on, and none is lost.
pub async fn two_thousand_slow_calls_at_once_each_get_one_reply(bed: Bed, revision: &'static str) {
    let client = bed.client(revision).await;
    let nap = |index: usize| json!({"milliseconds": index % 7, "nonce": index.to_string()});
    pipeline(client, 2_000, "nap", nap).await;
}

pub async fn a_client_that_does_not_read_holds_the_handler_back(bed: Bed, revision: &'static str) {
    const LINES: u64 = 20_000;
    let mut deaf = bed.client(revision).await;
    deaf.log_level = Some("debug");
    let chatter = json!({"name": "chatter", "arguments": {"lines": LINES}});
    let id = deaf.start("tools/call", chatter).await;
    let mut other = bed.client(revision).await;
    let mut said = [0, 1];
    // Until the handler says nothing more.
    while said[0] != said[1] || said[1] == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let counts: Value = serde_json::from_str(&other.text("counts", json!({})).await).unwrap();
        said = [said[1], counts["said"].as_u64().unwrap()];
    }
    assert!(said[1] < LINES / 2, "{} lines piled up", said[1]);
    // As soon as the client reads, all of it comes.
    assert_eq!(only_text(&deaf.reply(&id).await.unwrap()), LINES.to_string());
    assert_eq!(deaf.notifications.len() as u64, LINES);
}
