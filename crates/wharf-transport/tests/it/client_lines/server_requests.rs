//! Server-to-client requests of legacy servers.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};
use wharf_model::{BoxFuture, ClientRequest, Error};
use wharf_transport::client::UnsolicitedRequestHandler;

use crate::client_lines::{
    scripted_peer::{legacy, modern},
    support::{StreamCall, TraceLog, call_text, options, tool, until},
};

fn question(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "roots/list"})
}

/// Responds when the test allows it.
struct GatedHandler(Arc<Semaphore>);

impl UnsolicitedRequestHandler for GatedHandler {
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>> {
        assert_eq!(ask, ClientRequest::Roots);
        let gate = self.0.clone();
        Box::pin(async move {
            gate.acquire().await.unwrap().forget();
            Ok(r#"{"roots":[{"uri":"file:///orphan"}]}"#.into())
        })
    }
}

fn roots(answer: &Value) -> &Value {
    &answer["result"]["roots"][0]["uri"]
}

#[tokio::test(start_paused = true)]
async fn pings_are_answered_and_unknown_requests_refused_during_a_call() {
    let (mut peer, link) = legacy(options()).await;
    let calling = tokio::spawn(async move { call_text(&link, "x").await });
    let call = peer.expect("tools/call").await;
    peer.send(json!({"jsonrpc": "2.0", "id": "a", "method": "ping"})).await;
    assert_eq!(peer.read().await, json!({"jsonrpc": "2.0", "id": "a", "result": {}}));
    peer.send(json!({"jsonrpc": "2.0", "id": call["id"], "method": "no/such"})).await;
    let refused = peer.read().await;
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&call["id"], &json!(-32601)));
    peer.reply_text(&call, "x").await;
    calling.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_question_goes_to_the_only_call_or_else_to_the_orphans() {
    let mut options = options();
    let gate = Arc::new(Semaphore::new(100));
    options.unsolicited_requests = Arc::new(GatedHandler(gate));
    let (mut peer, link) = legacy(options).await;
    peer.send(question(1)).await;
    assert_eq!(roots(&peer.read().await), "file:///orphan");
    let spawn = || {
        let link = link.clone();
        tokio::spawn(async move { call_text(&link, "x").await })
    };
    let one = spawn();
    let call = peer.expect("tools/call").await;
    peer.send(question(2)).await;
    assert_eq!(roots(&peer.read().await), "file:///quay");
    let other = spawn();
    let second = peer.expect("tools/call").await;
    peer.send(question(3)).await;
    assert_eq!(roots(&peer.read().await), "file:///orphan");
    peer.reply_text(&call, "one").await;
    peer.reply_text(&second, "two").await;
    one.await.unwrap().unwrap();
    other.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_question_taken_back_is_not_answered_and_makes_room() {
    let mut options = options();
    options.limits.asks = 2;
    let gate = Arc::new(Semaphore::new(0));
    options.unsolicited_requests = Arc::new(GatedHandler(gate.clone()));
    let (mut peer, _link) = legacy(options).await;
    peer.send(question(1)).await;
    peer.send(question(2)).await;
    peer.send(question(3)).await;
    let refused = peer.read().await;
    assert_eq!(refused["id"], 3);
    assert!(refused["error"]["message"].as_str().unwrap().contains("2 requests"), "{refused}");
    let params = json!({"requestId": 1});
    peer.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    peer.send(question(4)).await;
    gate.add_permits(2);
    let mut ids = [peer.read().await["id"].as_u64(), peer.read().await["id"].as_u64()];
    ids.sort_unstable();
    assert_eq!(ids, [Some(2), Some(4)]);
    assert!(timeout(Duration::from_secs(60), peer.read()).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_question_of_a_call_that_is_given_up_ends_with_it() {
    let (mut peer, link) = legacy(options()).await;
    let mut calling = StreamCall::start(&link, tool("x"));
    assert!(timeout(Duration::from_secs(1), calling.next()).await.is_err());
    peer.expect("tools/call").await;
    peer.send(question(1)).await;
    // The call is not polled, so the request stays open until it ends.
    assert!(timeout(Duration::from_secs(1), peer.read()).await.is_err());
    drop(calling);
    let mut ends = [peer.read().await, peer.read().await];
    ends.sort_by_key(|it| it.get("method").is_some());
    assert!(ends[0]["error"].is_object(), "{ends:?}");
    assert_eq!(ends[1]["method"], "notifications/cancelled");
}

#[tokio::test(start_paused = true)]
async fn a_modern_client_answers_no_requests() {
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let (mut peer, _link) = modern(options).await;
    peer.send(question(1)).await;
    peer.send(json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await;
    peer.send(json!({"jsonrpc": "2.0", "id": 3, "method": "no/such"})).await;
    until(|| trail.count("# ignored") == 3).await;
    assert!(timeout(Duration::from_secs(60), peer.read()).await.is_err());
}

/// Responds at once, and counts.
#[derive(Debug, Default)]
struct CountingHandler(AtomicUsize);

impl UnsolicitedRequestHandler for CountingHandler {
    fn ask(&self, _: ClientRequest) -> BoxFuture<Result<String, Error>> {
        self.0.fetch_add(1, Ordering::SeqCst);
        Box::pin(std::future::ready(Ok(format!(r#"{{"roots":[],"x":"{}"}}"#, "x".repeat(10_000)))))
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_takes_no_answers_gets_no_more() {
    let mut options = options();
    (options.limits.asks, options.limits.outgoing) = (4, 4);
    let counting = Arc::new(CountingHandler::default());
    options.unsolicited_requests = counting.clone();
    let trail = TraceLog::on(&mut options);
    let (mut peer, _link) = legacy(options).await;
    for id in 1..=200 {
        peer.send(question(id)).await;
        trail.until(&format!("< {}", question(id))).await;
    }
    assert!(counting.0.load(Ordering::SeqCst) < 100, "{counting:?}");
    // Reading continues once the peer reads.
    while let Ok(Some(_)) = timeout(Duration::from_secs(1), peer.next()).await {}
    peer.send(question(5000)).await;
    assert_eq!(peer.read().await["id"], 5000);
}
