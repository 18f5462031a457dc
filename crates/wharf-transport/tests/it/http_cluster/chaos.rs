//! Servers that are killed at random times, and stores with random outages.

use std::time::Duration;

use serde_json::json;
use tokio::{task::JoinSet, time::sleep};

use crate::http_cluster::{
    decoded_response::TestResponse,
    support::{BOTH, EVENTS, JSON, NEWEST, SessionClient, SessionServer, tool},
};

const SEEDS: u64 = 10;
/// Notifications of a call, one every tenth of a second.
const TICKS: u64 = 40;

/// Pseudo-random numbers, the same in every run.
struct SeededRng(u64);

impl SeededRng {
    fn below(&mut self, most: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Retries until a running server with available stores responds.
async fn retry_until_answered(client: &SessionClient, last: &str) -> TestResponse {
    loop {
        let real = client.server.real(client, last);
        let request = client.request("GET").header("accept", EVENTS).header("last-event-id", real);
        match client.try_send(request, String::new()).await {
            Some(answer) if answer.status == 200 => return answer,
            Some(answer) => assert_eq!(answer.status, 503),
            None => {}
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Makes a call and reads its stream to the end across all cuts. False if it failed, or ended with
/// the error that its server is gone.
async fn call(client: &SessionClient, id: u64, dice: &mut SeededRng) -> bool {
    let request = client.request("POST").header("accept", BOTH).header("content-type", JSON);
    let message = tool(id, "tick", json!({ "to": TICKS })).to_string();
    let Some(mut answer) = client.try_send(request, message).await else { return false };
    if answer.status != 200 {
        assert_eq!(answer.status, 503);
        return false;
    }
    // A server that was killed in between has sent the first event id, or the stream cannot be
    // found.
    let Some(first) = answer.next().await else { return false };
    let mut last = first.id;
    let mut seen = 0;
    loop {
        let cut = dice.below(12) == 0;
        let next = if cut { None } else { answer.message().await };
        let Some(event) = next else {
            answer = retry_until_answered(client, &last).await;
            continue;
        };
        seen += 1;
        let stream = last.split_once('-').unwrap().0.to_owned();
        assert_eq!(event.id, format!("{stream}-{seen}"), "lost or repeated");
        last = event.id;
        if event.data["id"] == id {
            assert_eq!(answer.next().await, None);
            // A second replay yields the same events.
            let again = retry_until_answered(client, &format!("{stream}-0")).await.messages().await;
            assert_eq!(again.len(), seen);
            assert_eq!(again[seen - 1].data, event.data);
            return event.data.get("result").is_some_and(|_| seen as u64 == TICKS + 1);
        }
        assert_eq!(event.data["method"], "notifications/progress");
    }
}

async fn clients(server: &SessionServer, seed: u64) -> (usize, usize) {
    let mut clients = JoinSet::new();
    for number in 0..3 {
        let client = server.client(NEWEST).await;
        clients.spawn(async move {
            let mut dice = SeededRng(seed * 10 + number);
            let mut whole = 0;
            for id in 1..=4 {
                whole += usize::from(call(&client, id, &mut dice).await);
            }
            whole
        });
    }
    let all = clients.len() * 4;
    let mut whole = 0;
    while let Some(ended) = clients.join_next().await {
        whole += ended.unwrap();
    }
    (whole, all)
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_or_repeated_when_servers_end() {
    let (mut whole, mut all) = (0, 0);
    for seed in 0..SEEDS {
        let server = SessionServer::new();
        let killing = tokio::spawn({
            let (server, mut dice) = (server.clone(), SeededRng(seed));
            async move {
                sleep(Duration::from_secs(2)).await;
                loop {
                    sleep(Duration::from_millis(500 + dice.below(8000))).await;
                    let node = dice.below(3) as usize;
                    server.kill_node(node);
                    server.restart(node);
                }
            }
        });
        let counts = clients(&server, seed).await;
        (whole, all) = (whole + counts.0, all + counts.1);
        killing.abort();
    }
    // Some calls must have survived, and some must have failed, or the test proves nothing.
    assert!(whole > all / 4 && whole < all, "{whole} of {all}");
}

#[tokio::test(start_paused = true)]
async fn no_event_is_lost_or_repeated_during_store_outages() {
    let (mut whole, mut all) = (0, 0);
    for seed in 0..SEEDS {
        let server = SessionServer::new();
        let cutting = tokio::spawn({
            let (server, mut dice) = (server.clone(), SeededRng(seed));
            async move {
                sleep(Duration::from_secs(2)).await;
                loop {
                    server.ports.away(true);
                    sleep(Duration::from_millis(dice.below(3000))).await;
                    server.ports.away(false);
                    // From half-way on, the outcome is unknown.
                    if dice.below(4) == 0 {
                        server.ports.fickle();
                    }
                    server.ports.deaf(dice.below(2) == 0);
                    sleep(Duration::from_millis(dice.below(5000))).await;
                }
            }
        });
        let counts = clients(&server, seed).await;
        (whole, all) = (whole + counts.0, all + counts.1);
        cutting.abort();
    }
    assert!(whole > all / 8, "{whole} of {all}");
}
