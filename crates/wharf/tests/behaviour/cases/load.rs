//! Many clients, many calls, slow readers. The tests count messages; none measures a time.

use std::collections::HashSet;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncWriteExt, BufReader, Lines},
    task::JoinSet,
    time::timeout,
};

use crate::{
    client::{Client, only_text},
    harness::{Harness, PATIENCE, Reader, Writer},
};

pub async fn each_of_many_clients_gets_its_own_answers(harness: Harness, revision: &'static str) {
    let mut clients = JoinSet::new();
    for index in 0..64_u64 {
        let mut client = harness.client(revision).await;
        clients.spawn(async move {
            // All clients use the same ids; only the nonce shows which client a response belongs to.
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

/// Reader and writer of a client that only pipelines requests.
struct Pipe {
    reader: Lines<BufReader<Reader>>,
    writer: Option<Writer>,
}

impl Pipe {
    /// Writes all requests without waiting, and reads concurrently. Expects one reply for each, with its number as
    /// text.
    async fn pump(&mut self, requests: Vec<String>) {
        let count = requests.len();
        let mut writer = self.writer.take().expect("one pump at a time");
        let writing = tokio::spawn(async move {
            for request in requests {
                writer.write_all(request.as_bytes()).await.unwrap();
            }
            writer.flush().await.unwrap();
            writer
        });
        let mut seen = HashSet::new();
        while seen.len() < count {
            let reply: Value = serde_json::from_str(&self.line().await.unwrap()).unwrap();
            let id = reply["id"].as_str().unwrap().to_owned();
            assert_eq!(only_text(&reply["result"]), &id[1..], "{reply}");
            assert!(seen.insert(id), "twice: {reply}");
        }
        self.writer = Some(writing.await.unwrap());
    }

    /// Closes the client's end and expects no further message.
    async fn close(mut self) {
        self.writer.take().expect("nothing pumps").shutdown().await.unwrap();
        assert_eq!(self.line().await, None);
    }

    async fn line(&mut self) -> Option<String> {
        timeout(PATIENCE, self.reader.next_line()).await.expect("patience").unwrap()
    }
}

/// Numbered requests, and a pipelining client that sends them.
fn pipe(
    client: Client,
    count: usize,
    tool: &str,
    arguments: fn(usize) -> Value,
) -> (Pipe, Vec<String>) {
    let request = |index| {
        let call = json!({"name": tool, "arguments": arguments(index)});
        format!("{}\n", client.request(&json!(format!("n{index}")), "tools/call", call))
    };
    let requests = (0..count).map(request).collect();
    let (reader, writer) = client.into_parts();
    (Pipe { reader, writer: Some(writer) }, requests)
}

fn echo(index: usize) -> Value {
    json!({"text": index.to_string()})
}

pub async fn thousands_of_calls_in_a_row_each_get_one_reply(
    harness: Harness,
    revision: &'static str,
) {
    // Fewer calls if each is an HTTP request with headers; the load on the server is the same.
    let count = if harness.transport.is_streamable() { 2_000 } else { 10_000 };
    let (mut pipe, requests) = pipe(harness.client(revision).await, count, "echo", echo);
    pipe.pump(requests).await;
    pipe.close().await;
}

/// More calls than the limit of calls in flight: the server pauses and resumes reading, and no call is lost.
pub async fn two_thousand_slow_calls_at_once_each_get_one_reply(
    harness: Harness,
    revision: &'static str,
) {
    let nap = |index: usize| json!({"milliseconds": index % 7, "nonce": index.to_string()});
    let (mut pipe, requests) = pipe(harness.client(revision).await, 2_000, "nap", nap);
    pipe.pump(requests).await;
    pipe.close().await;
}

/// After a warm-up of a thousand calls, ten thousand more must not raise the peak memory of the server.
#[cfg(target_os = "linux")]
pub async fn memory_stays_flat_over_ten_thousand_calls(harness: Harness, revision: &'static str) {
    const MARGIN: u64 = 4 << 10;
    let (mut pipe, requests) = pipe(harness.client(revision).await, 10_000, "echo", echo);
    let child = harness.child();
    let id = child.id().expect("a running child");
    let peak = || {
        let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap()
    };
    pipe.pump(requests[..1_000].to_vec()).await;
    let before = peak();
    pipe.pump(requests).await;
    let after = peak();
    assert!(after < before + MARGIN, "from {before} kB to {after} kB");
}

pub async fn a_client_that_does_not_read_holds_the_handler_back(
    harness: Harness,
    revision: &'static str,
) {
    const LINES: u64 = 20_000;
    let mut deaf = harness.client(revision).await;
    deaf.log_level = Some("debug");
    let chatter = json!({"name": "chatter", "arguments": {"lines": LINES}});
    let id = deaf.start("tools/call", chatter).await;
    let mut other = harness.client(revision).await;
    let mut said = [0, 1];
    // Waits until the handler is blocked and sends nothing more.
    while said[0] != said[1] || said[1] == 0 {
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        let counts: Value = serde_json::from_str(&other.text("counts", json!({})).await).unwrap();
        said = [said[1], counts["said"].as_u64().unwrap()];
    }
    assert!(said[1] < LINES / 2, "{} lines piled up", said[1]);
    // Once the client reads, all messages arrive.
    assert_eq!(only_text(&deaf.reply(&id).await.unwrap()), LINES.to_string());
    assert_eq!(deaf.notifications.len() as u64, LINES);
}
