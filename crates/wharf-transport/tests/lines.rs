//! The limits of one connection, each at its number and one past it, with a service made by hand.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf, WriteHalf},
    sync::Semaphore,
    task::JoinHandle,
    time::timeout,
};
use wharf_model::{
    Ask, BoxFuture, Deadlines, Filter, Implementation, Method, Notification, Outbox, Outcome,
    Reply, Request, Scope, Service, ToolResult,
};
use wharf_transport::{Host, LineLimits, Shutdown, TokioTimer, memory};
use wharf_wire::Wire;

/// Answers `now` at once, `gate` when the test opens it, and `ask` when the client has answered.
#[derive(Clone)]
struct Toy {
    gate: Arc<Semaphore>,
}

impl Service for Toy {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let gate = self.gate.clone();
        let name = request.target().into_owned();
        Box::pin(async move {
            match (request.method, &*name) {
                (Method::Discover, _) => Reply::Discover(Box::default()).into(),
                (Method::Listen, _) => {
                    outbox.notify(Notification::Acknowledged(Filter::default()));
                    std::future::pending().await
                }
                (_, "gate") => {
                    gate.acquire().await.unwrap().forget();
                    ToolResult::text("open").into()
                }
                (_, "ask") => match outbox.ask(Ask::Roots).await {
                    Ok(answer) => ToolResult::text(answer).into(),
                    Err(error) => ToolResult::error(error.to_string()).into(),
                },
                (_, "flood") => loop {
                    outbox.notify(Notification::Progress {
                        progress: 1.0,
                        total: None,
                        message: Some("x".repeat(1000)),
                    });
                    outbox.room().await;
                },
                _ => ToolResult::text("now").into(),
            }
        })
    }
}

struct Bed {
    gate: Arc<Semaphore>,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

impl Bed {
    fn new(change: impl FnOnce(&mut LineLimits)) -> Bed {
        let gate = Arc::new(Semaphore::new(0));
        let mut limits = LineLimits::default();
        change(&mut limits);
        let host = Host {
            wire: Arc::new(Wire::new(Implementation::new("toy", "1"))),
            service: Arc::new(Toy { gate: gate.clone() }),
            timer: Arc::new(TokioTimer),
            deadlines: Deadlines::default(),
            limits,
        };
        let shutdown = Shutdown::new();
        let ((reader, writer), serving) =
            memory::connect(Arc::new(host), Scope::new(), shutdown.clone());
        let reader = BufReader::new(reader).lines();
        Bed { gate, shutdown, serving, reader, writer }
    }

    async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn call(&mut self, id: u64, method: &str, mut params: Value) {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
            "progressToken": id,
        });
        self.send(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})).await;
    }

    async fn tool(&mut self, id: u64, name: &str) {
        self.call(id, "tools/call", json!({"name": name})).await;
    }

    async fn legacy(&mut self) {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"roots": {}},
            "clientInfo": {"name": "t", "version": "1"},
        });
        self.send(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
            .await;
        assert_eq!(self.next().await.unwrap()["id"], 0);
        self.send(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
    }

    async fn next(&mut self) -> Option<Value> {
        let line = self.reader.next_line().await.unwrap()?;
        Some(serde_json::from_str(&line).unwrap())
    }

    async fn id(&mut self) -> Value {
        self.next().await.unwrap()["id"].clone()
    }

    /// Whether nothing comes, however long one waits.
    async fn is_stuck(&mut self) -> bool {
        timeout(Duration::from_secs(1), self.reader.next_line()).await.is_err()
    }
}

#[tokio::test(start_paused = true)]
async fn reading_stops_at_the_limit_of_calls_and_goes_on_when_one_ends() {
    let mut bed = Bed::new(|limits| limits.calls = 2);
    bed.tool(1, "gate").await;
    bed.tool(2, "now").await;
    assert_eq!(bed.id().await, 2);
    bed.tool(3, "gate").await;
    bed.tool(4, "now").await;
    assert!(bed.is_stuck().await);
    bed.gate.add_permits(1);
    let mut ids = [bed.id().await, bed.id().await];
    ids.sort_by_key(|id| id.as_u64());
    assert!(ids[1] == 4 && (ids[0] == 1 || ids[0] == 3), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_is_not_locked_out_for_long_by_the_limit_of_calls() {
    let mut bed = Bed::new(|limits| limits.calls = 1);
    bed.tool(1, "gate").await;
    bed.tool(2, "now").await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    bed.send(cancel).await;
    let refused = bed.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(1008)), "{refused}");
    bed.tool(3, "now").await;
    assert_eq!(bed.id().await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_never_locked_out_by_the_limit_of_calls() {
    let mut bed = Bed::new(|limits| limits.calls = 1);
    bed.legacy().await;
    let call = |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    bed.send(call(1, "ask")).await;
    let ask = bed.next().await.unwrap();
    assert_eq!(ask["method"], "roots/list");
    bed.send(call(2, "now")).await;
    let refused = bed.next().await.unwrap();
    assert_eq!(refused["error"]["code"], 1008, "{refused}");
    bed.send(json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"roots": []}})).await;
    assert_eq!(bed.id().await, 1);
    bed.send(call(3, "now")).await;
    assert_eq!(bed.id().await, 3);
}

#[tokio::test(start_paused = true)]
async fn one_listen_too_many_is_refused_and_takes_no_calls_place() {
    let mut bed = Bed::new(|limits| (limits.listens, limits.calls) = (2, 1));
    for id in [1, 2] {
        bed.call(id, "subscriptions/listen", json!({"notifications": {}})).await;
        let told = bed.next().await.unwrap();
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    }
    bed.call(3, "subscriptions/listen", json!({"notifications": {}})).await;
    let refused = bed.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(1008)));
    bed.tool(4, "now").await;
    assert_eq!(bed.id().await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_its_grace_is_dropped() {
    let mut bed = Bed::new(|limits| limits.grace = Duration::from_secs(5));
    bed.tool(1, "gate").await;
    bed.tool(2, "now").await;
    assert_eq!(bed.id().await, 2);
    bed.shutdown.stop();
    assert_eq!(bed.next().await, None);
    bed.serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_within_its_grace_is_answered() {
    let mut bed = Bed::new(|_| {});
    bed.tool(1, "gate").await;
    bed.tool(2, "now").await;
    assert_eq!(bed.id().await, 2);
    bed.shutdown.stop();
    tokio::time::sleep(Duration::from_secs(4)).await;
    bed.gate.add_permits(1);
    assert_eq!(bed.id().await, 1);
    assert_eq!(bed.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_flood_neither_blocks_other_calls_nor_survives_its_cancellation() {
    let mut bed = Bed::new(|_| {});
    bed.tool(1, "flood").await;
    assert_eq!(bed.next().await.unwrap()["method"], "notifications/progress");
    bed.tool(2, "now").await;
    while bed.next().await.unwrap()["id"] != 2 {}
    let params = json!({"requestId": 1});
    bed.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    bed.tool(3, "now").await;
    while bed.next().await.unwrap()["id"] != 3 {}
    // What was queued before still comes; then there is silence.
    while timeout(Duration::from_secs(1), bed.next()).await.is_ok() {}
    bed.tool(4, "now").await;
    assert_eq!(bed.id().await, 4);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_server_ends_the_connection() {
    let mut bed = Bed::new(|_| {});
    bed.tool(1, "gate").await;
    bed.tool(2, "now").await;
    assert_eq!(bed.id().await, 2);
    bed.serving.abort();
    assert_eq!(bed.next().await, None);
}
