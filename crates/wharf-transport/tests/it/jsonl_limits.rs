//! Limits of one connection, each at its value and one beyond it.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader, DuplexStream, Lines, ReadHalf,
        WriteHalf, duplex, split,
    },
    sync::Semaphore,
    task::JoinHandle,
    time::{sleep, timeout},
};
use wharf_model::{
    BoxFuture, ClientRequest, Error, Implementation, Method, Notification, Outbox, Outcome, Reply,
    Request, RequestExtensions, Service, SubscriptionFilter, ToolResult,
};
use wharf_transport::{ServerContext, Shutdown, serve_lines, server::in_memory};
use wharf_wire::{MessageLimits, ServerProtocol};

/// Replies to `now` at once, to `gate` when the test opens it, and to `ask` when the client has
/// responded.
#[derive(Clone)]
struct LineService {
    gate: Arc<Semaphore>,
}

impl Service for LineService {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let gate = self.gate.clone();
        let name = request.target().into_owned();
        Box::pin(async move {
            match (request.method, &*name) {
                (Method::Discover, _) => Reply::Discover(Box::default()).into(),
                (Method::Listen, _) if gate.is_closed() => Error::overloaded(Duration::ZERO).into(),
                (Method::Listen, _) => {
                    outbox.notify(Notification::Acknowledged(SubscriptionFilter::default()));
                    std::future::pending().await
                }
                (_, "gate") => {
                    gate.acquire().await.unwrap().forget();
                    ToolResult::text("open").into()
                }
                // Handlers must not block. One that does delays the calls behind it, but not its
                // own reply, which `waits` depends on here.
                (_, "blocks") => {
                    std::thread::sleep(Duration::from_millis(20));
                    ToolResult::text("blocked").into()
                }
                (_, "waits") => {
                    while gate.available_permits() == 0 {
                        std::thread::yield_now();
                    }
                    ToolResult::text("seen").into()
                }
                (_, "ask") => match outbox.ask(ClientRequest::Roots).await {
                    Ok(answer) => ToolResult::text(answer).into(),
                    Err(error) => ToolResult::error(error.to_string()).into(),
                },
                (_, "flood") => loop {
                    outbox.notify(Notification::Progress {
                        progress: 1.0,
                        total: None,
                        message: Some("x".repeat(1000)),
                    });
                    outbox.wait_for_capacity().await;
                },
                // Opens the gate when it starts, and sends much output.
                (_, "loud") => {
                    gate.add_permits(1);
                    outbox.notify(Notification::Progress {
                        progress: 1.0,
                        total: None,
                        message: Some("x".repeat(100_000)),
                    });
                    std::future::pending().await
                }
                // Runs beside the reader, and opens the gate when it ends.
                (_, "torrent") => {
                    tokio::task::yield_now().await;
                    for _ in 0..10_000 {
                        outbox.notify(Notification::Progress {
                            progress: 1.0,
                            total: None,
                            message: Some("x".repeat(20_000)),
                        });
                        outbox.wait_for_capacity().await;
                    }
                    gate.add_permits(1);
                    ToolResult::text("through").into()
                }
                (_, "echo") => ToolResult::text("x".repeat(1000)).into(),
                _ => ToolResult::text("now").into(),
            }
        })
    }
}

struct LineConnection {
    gate: Arc<Semaphore>,
    shutdown: Shutdown,
    serving: JoinHandle<()>,
    reader: Lines<BufReader<ReadHalf<DuplexStream>>>,
    writer: WriteHalf<DuplexStream>,
}

/// A server context with the test service, and the service's gate.
fn host(change: impl FnOnce(&mut ServerContext)) -> (Arc<ServerContext>, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let mut host = ServerContext::new(
        Arc::new(ServerProtocol::new(Implementation::new("toy", "1"))),
        LineService { gate: gate.clone() },
    );
    change(&mut host);
    (Arc::new(host), gate)
}

/// A modern request.
fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": id,
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

fn tool_call(id: u64, name: &str) -> Value {
    modern(id, "tools/call", json!({"name": name}))
}

impl LineConnection {
    fn new(change: impl FnOnce(&mut ServerContext)) -> LineConnection {
        let (host, gate) = host(change);
        let shutdown = Shutdown::new();
        let ((reader, writer), serving) =
            in_memory::connect(host, RequestExtensions::new(), shutdown.clone());
        let reader = BufReader::new(reader).lines();
        LineConnection { gate, shutdown, serving, reader, writer }
    }

    async fn send(&mut self, message: Value) {
        self.writer.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }

    async fn call(&mut self, id: u64, method: &str, params: Value) {
        self.send(modern(id, method, params)).await;
    }

    async fn tool(&mut self, id: u64, name: &str) {
        self.send(tool_call(id, name)).await;
    }

    async fn legacy(&mut self, revision: &str) {
        let params = json!({
            "protocolVersion": revision,
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

    /// True if the server repeatedly stops reading `message` while its replies are not read.
    async fn is_held_back(&mut self, message: &str) -> bool {
        let sending = async {
            for _ in 0..1000 {
                self.writer.write_all(message.as_bytes()).await.unwrap();
            }
        };
        timeout(Duration::from_secs(1), sending).await.is_err()
    }

    /// True if no message arrives within a long time.
    async fn is_stuck(&mut self) -> bool {
        timeout(Duration::from_secs(1), self.reader.next_line()).await.is_err()
    }
}

#[tokio::test(start_paused = true)]
async fn reading_stops_at_the_limit_of_calls_and_goes_on_when_one_ends() {
    let mut connection = LineConnection::new(|host| host.limits.calls = 2);
    connection.tool(1, "gate").await;
    connection.tool(2, "now").await;
    assert_eq!(connection.id().await, 2);
    connection.tool(3, "gate").await;
    connection.tool(4, "now").await;
    assert!(connection.is_stuck().await);
    connection.gate.add_permits(1);
    let mut ids = [connection.id().await, connection.id().await];
    ids.sort_by_key(|id| id.as_u64());
    assert!(ids[1] == 4 && (ids[0] == 1 || ids[0] == 3), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn messages_in_one_read_are_answered_in_order() {
    let mut connection = LineConnection::new(|_| {});
    let hello = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "t", "version": "1"},
    });
    let mut said = vec![
        json!({"jsonrpc": "2.0", "id": "hello", "method": "initialize", "params": hello}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
    ];
    let calls = (0..100).map(|id| legacy_call(&id.to_string(), "now"));
    said.extend(calls);
    // Messages that are not calls, and a pending call, do not interfere.
    said.insert(50, json!({"jsonrpc": "2.0", "id": "ping", "method": "ping"}));
    said.insert(60, legacy_call("gate", "gate"));
    let piece: String = said.iter().map(|message| format!("{message}\n")).collect();
    connection.writer.write_all(piece.as_bytes()).await.unwrap();
    let answered = said.iter().filter_map(|message| message.get("id"));
    for id in answered.filter(|id| *id != "gate") {
        assert_eq!(connection.id().await, *id);
    }
    connection.gate.add_permits(1);
    assert_eq!(connection.id().await, "gate");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_call_that_blocks_does_not_hold_its_own_reply_back() {
    let line = |id: u64, name: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let params = json!({"name": name, "_meta": meta});
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        format!("{call}\n")
    };
    // Quick calls before it make the server decode ahead.
    for quick in [0, 64] {
        let mut connection = LineConnection::new(|_| {});
        let before: String = (10..10 + quick).map(|id| line(id, "now")).collect();
        connection.writer.write_all(before.as_bytes()).await.unwrap();
        for id in 10..10 + quick {
            assert_eq!(connection.id().await, id);
        }
        let piece = line(1, "blocks") + &line(2, "waits");
        connection.writer.write_all(piece.as_bytes()).await.unwrap();
        let first = timeout(Duration::from_secs(10), connection.id()).await;
        connection.gate.add_permits(1);
        assert_eq!(first, Ok(json!(1)), "{quick}");
        assert_eq!(connection.id().await, 2);
    }
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_is_read_soon_at_the_limit_of_calls() {
    let mut connection = LineConnection::new(|host| host.limits.calls = 1);
    connection.tool(1, "gate").await;
    connection.tool(2, "now").await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    connection.send(cancel).await;
    let refused = connection.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(2), &json!(1008)), "{refused}");
    connection.tool(3, "now").await;
    assert_eq!(connection.id().await, 3);
}

#[tokio::test(start_paused = true)]
async fn a_client_response_is_read_at_the_limit_of_calls() {
    let mut connection = LineConnection::new(|host| host.limits.calls = 1);
    connection.legacy("2025-11-25").await;
    let call = |id: u64, name: &str| json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}});
    connection.send(call(1, "ask")).await;
    let ask = connection.next().await.unwrap();
    assert_eq!(ask["method"], "roots/list");
    connection.send(call(2, "now")).await;
    let refused = connection.next().await.unwrap();
    assert_eq!(refused["error"]["code"], 1008, "{refused}");
    connection.send(json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"roots": []}})).await;
    assert_eq!(connection.id().await, 1);
    connection.send(call(3, "now")).await;
    assert_eq!(connection.id().await, 3);
}

#[tokio::test(start_paused = true)]
async fn one_subscription_too_many_is_rejected_and_uses_no_call_slot() {
    let mut connection =
        LineConnection::new(|host| (host.limits.listens, host.limits.calls) = (2, 1));
    for id in [1, 2] {
        connection.call(id, "subscriptions/listen", json!({"notifications": {}})).await;
        let told = connection.next().await.unwrap();
        assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    }
    connection.call(3, "subscriptions/listen", json!({"notifications": {}})).await;
    let refused = connection.next().await.unwrap();
    assert_eq!((&refused["id"], &refused["error"]["code"]), (&json!(3), &json!(1008)));
    connection.tool(4, "now").await;
    assert_eq!(connection.id().await, 4);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_the_shutdown_timeout_is_dropped_and_answered() {
    let mut connection = LineConnection::new(|host| host.limits.grace = Duration::from_secs(5));
    connection.tool(1, "gate").await;
    connection.tool(2, "now").await;
    assert_eq!(connection.id().await, 2);
    connection.shutdown.stop();
    let cut = connection.next().await.unwrap();
    assert_eq!((&cut["id"], &cut["error"]["code"]), (&json!(1), &json!(1008)));
    assert_eq!(connection.next().await, None);
    connection.serving.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_call_that_ends_within_the_shutdown_timeout_is_answered() {
    let mut connection = LineConnection::new(|_| {});
    connection.tool(1, "gate").await;
    connection.tool(2, "now").await;
    assert_eq!(connection.id().await, 2);
    connection.shutdown.stop();
    sleep(Duration::from_secs(4)).await;
    connection.gate.add_permits(1);
    assert_eq!(connection.id().await, 1);
    assert_eq!(connection.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_flood_neither_blocks_other_calls_nor_survives_its_cancellation() {
    let mut connection = LineConnection::new(|_| {});
    connection.tool(1, "flood").await;
    assert_eq!(connection.next().await.unwrap()["method"], "notifications/progress");
    connection.tool(2, "now").await;
    while connection.next().await.unwrap()["id"] != 2 {}
    let params = json!({"requestId": 1});
    connection
        .send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}))
        .await;
    connection.tool(3, "now").await;
    while connection.next().await.unwrap()["id"] != 3 {}
    // Messages that were already queued still arrive, then none.
    while timeout(Duration::from_secs(1), connection.next()).await.is_ok() {}
    connection.tool(4, "now").await;
    assert_eq!(connection.id().await, 4);
}

/// Regression: a call whose messages no longer waited for the client never yielded, so it could not
/// be aborted.
#[tokio::test(start_paused = true)]
async fn a_flood_does_not_outlive_its_client() {
    let (host, gate) = host(|_| ());
    let ((mut asks, input), (output, reads)) = (duplex(4096), duplex(4096));
    let serving =
        tokio::spawn(serve_lines(host, RequestExtensions::new(), input, output, Shutdown::new()));
    asks.write_all(format!("{}\n", tool_call(1, "torrent")).as_bytes()).await.unwrap();
    // Its messages are not read, so it does not progress.
    sleep(Duration::from_secs(1)).await;
    drop(reads);
    serving.await.unwrap();
    assert_eq!(gate.available_permits(), 0, "the call went on to its end");
}

/// Regression: the calls that a client had sent before it disconnected all started at once.
#[tokio::test(start_paused = true)]
async fn calls_of_a_disconnected_client_do_not_start() {
    let (host, gate) = host(|_| ());
    let ((mut asks, input), (output, reads)) = (duplex(1 << 20), duplex(4096));
    let serving =
        tokio::spawn(serve_lines(host, RequestExtensions::new(), input, output, Shutdown::new()));
    let calls: String = (0..200).map(|id| format!("{}\n", tool_call(id, "loud"))).collect();
    asks.write_all(calls.as_bytes()).await.unwrap();
    sleep(Duration::from_secs(1)).await;
    let before = gate.available_permits();
    drop(reads);
    serving.await.unwrap();
    let started = gate.available_permits();
    assert!(before < 20 && started <= before + 8, "{before}, then {started}");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_server_ends_the_connection() {
    let mut connection = LineConnection::new(|_| {});
    connection.tool(1, "gate").await;
    connection.tool(2, "now").await;
    assert_eq!(connection.id().await, 2);
    connection.serving.abort();
    assert_eq!(connection.next().await, None);
}

fn pings(count: u64) -> Vec<Value> {
    (0..count).map(|id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"})).collect()
}

fn legacy_call(id: &str, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
}

fn cancelled(id: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

#[tokio::test(start_paused = true)]
async fn a_client_that_sends_batches_and_reads_nothing_is_held_back() {
    let mut connection = LineConnection::new(|_| {});
    connection.legacy("2025-03-26").await;
    let batch = Value::from(pings(100));
    assert!(connection.is_held_back(&format!("{batch}\n")).await);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_cancels_members_of_batches_and_reads_nothing_is_held_back() {
    let mut connection = LineConnection::new(|_| {});
    connection.legacy("2025-03-26").await;
    let mut members = pings(100);
    members.push(legacy_call("late", "gate"));
    let (batch, cancel) = (Value::from(members), cancelled("late"));
    assert!(connection.is_held_back(&format!("{batch}\n{cancel}\n")).await);
}

#[tokio::test(start_paused = true)]
async fn the_replies_to_one_batch_are_limited_to_the_message_length() {
    let mut connection = LineConnection::new(|host| limit_messages(host, 10_000));
    connection.legacy("2025-03-26").await;
    let members: Vec<_> = (0..90).map(|id| legacy_call(&format!("{id}"), "echo")).collect();
    connection.send(members.into()).await;
    let replies = connection.next().await.unwrap();
    let refused = |reply: &&Value| reply["error"]["code"] == 1008;
    assert_eq!(replies.as_array().map(Vec::len), Some(90));
    assert!(replies[0]["result"].is_object(), "{}", replies[0]);
    assert_eq!(replies.as_array().unwrap().iter().filter(refused).count(), 80);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_notifications_is_answered_with_nothing() {
    let mut connection = LineConnection::new(|_| {});
    connection.legacy("2025-03-26").await;
    connection.send(json!([cancelled("a"), cancelled("b")])).await;
    connection.tool(1, "now").await;
    assert_eq!(connection.id().await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_batch_waits_for_its_members_but_not_for_one_that_was_cancelled() {
    let mut connection = LineConnection::new(|_| {});
    connection.legacy("2025-03-26").await;
    connection.send(json!([legacy_call("a", "gate"), legacy_call("b", "now")])).await;
    assert!(connection.is_stuck().await);
    connection.send(cancelled("a")).await;
    let replies = connection.next().await.unwrap();
    assert_eq!(replies.as_array().map(Vec::len), Some(1));
    assert_eq!(replies[0]["id"], "b");
}

/// Sends a call whose message has `length` bytes of padding.
async fn long_call(connection: &mut LineConnection, id: u64, name: &str, length: usize) {
    let params = json!({"name": name, "arguments": {"text": "x".repeat(length)}});
    connection.call(id, "tools/call", params).await;
}

#[tokio::test(start_paused = true)]
async fn reading_stops_when_calls_hold_too_much_and_goes_on_when_one_ends() {
    let mut connection = LineConnection::new(|host| host.limits.held = 10_000);
    long_call(&mut connection, 1, "gate", 6_000).await;
    connection.tool(2, "now").await;
    assert_eq!(connection.id().await, 2);
    long_call(&mut connection, 3, "gate", 6_000).await;
    connection.tool(4, "now").await;
    assert!(connection.is_stuck().await);
    connection.gate.add_permits(1);
    let ids = [connection.id().await, connection.id().await];
    assert!(ids.contains(&json!(4)), "{ids:?}");
}

#[tokio::test(start_paused = true)]
async fn a_batch_holds_its_message_until_its_last_member_ends() {
    let mut connection = LineConnection::new(|host| host.limits.held = 10_000);
    connection.legacy("2025-03-26").await;
    let mut members = pings(300);
    members.push(legacy_call("late", "gate"));
    connection.send(members.into()).await;
    connection.tool(1, "now").await;
    assert!(connection.is_stuck().await);
    connection.gate.add_permits(1);
    assert!(connection.next().await.unwrap().is_array());
    assert_eq!(connection.id().await, 1);
}

#[tokio::test(start_paused = true)]
async fn lines_longer_than_one_read_can_follow_each_other() {
    let mut connection = LineConnection::new(|_| {});
    for id in 1..20 {
        long_call(&mut connection, id, "now", 200_000).await;
        connection.tool(100 + id, "now").await;
        assert_eq!((connection.id().await, connection.id().await), (json!(id), json!(100 + id)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_rejected_subscription_gets_no_final_message() {
    let mut connection = LineConnection::new(|_| {});
    connection.gate.close();
    connection.call(1, "subscriptions/listen", json!({"notifications": {}})).await;
    assert_eq!(connection.next().await.unwrap()["error"]["code"], 1008);
    connection.tool(2, "now").await;
    assert_eq!(connection.id().await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_gets_one_shutdown_timeout() {
    let grace = Duration::from_secs(60);
    let mut connection = LineConnection::new(|host| host.limits.grace = grace);
    let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
    assert!(connection.is_held_back(&format!("{ping}\n").repeat(100)).await);
    connection.shutdown.stop();
    assert!(timeout(grace * 3 / 2, connection.serving).await.is_ok());
}

/// Regression: the client could keep its connection and its memory without a time limit.
#[tokio::test(start_paused = true)]
async fn a_client_that_never_reads_is_disconnected() {
    let (host, _) = host(|host| host.limits.write = Duration::from_secs(5));
    let (server, mut client) = duplex(64 << 10);
    let (input, output) = split(server);
    let serving =
        tokio::spawn(serve_lines(host, RequestExtensions::new(), input, output, Shutdown::new()));
    client.write_all(format!("{}\n", tool_call(1, "flood")).as_bytes()).await.unwrap();
    sleep(Duration::from_millis(4_900)).await;
    // Reading anything extends the time.
    let mut some = vec![0; 32 << 10];
    client.read_exact(&mut some).await.unwrap();
    sleep(Duration::from_millis(4_900)).await;
    assert!(!serving.is_finished());
    // A second for the client to read what was written.
    sleep(Duration::from_millis(1_200)).await;
    assert!(serving.is_finished());
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).await.unwrap();
    assert!(rest.len() <= 64 << 10, "{}", rest.len());
}

/// As over stdio, the client may be stopped in a debugger.
#[tokio::test(start_paused = true)]
async fn a_client_in_the_same_process_may_stop_reading() {
    let mut connection = LineConnection::new(|_| {});
    connection.tool(1, "flood").await;
    sleep(Duration::from_secs(3600)).await;
    connection.tool(2, "now").await;
    while connection.next().await.unwrap()["id"] != 2 {}
}

#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_end_times_out() {
    // Independent of the number of bytes that arrived before.
    for begun in [1, 100, 100_000] {
        let mut connection = LineConnection::new(|_| {});
        connection.tool(1, "now").await;
        assert_eq!(connection.id().await, 1);
        sleep(Duration::from_secs(3600)).await;
        connection.writer.write_all(&vec![b' '; begun]).await.unwrap();
        sleep(Duration::from_millis(9_900)).await;
        let error = timeout(Duration::from_secs(1), connection.next()).await.unwrap().unwrap();
        assert!(
            error["error"]["message"].as_str().unwrap().contains("too long to arrive"),
            "{error}"
        );
        assert_eq!(connection.next().await, None);
        connection.serving.await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn slow_bytes_do_not_extend_the_timeout() {
    let mut connection = LineConnection::new(|_| {});
    connection.writer.write_all(&[b' '; 50_000]).await.unwrap();
    let began = tokio::time::Instant::now();
    let drip = async {
        while connection.writer.write_all(b" ").await.is_ok() {
            sleep(Duration::from_secs(1)).await;
        }
    };
    let ended = async {
        connection.reader.next_line().await.unwrap();
        began.elapsed()
    };
    let waited = tokio::select! {
        () = drip => began.elapsed(),
        waited = ended => waited,
    };
    assert!(waited < Duration::from_secs(12), "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_long_message_gets_time_for_its_length() {
    let mut connection = LineConnection::new(|host| host.limits.arrival = Duration::from_secs(1));
    for _ in 0..100 {
        connection.writer.write_all(&[b' '; 8 << 10]).await.unwrap();
        sleep(Duration::from_millis(110)).await;
    }
    connection.tool(1, "now").await;
    assert_eq!(connection.id().await, 1);
}

/// Memory for one long message per caller.
fn limit_messages(host: &mut ServerContext, message: usize) {
    let wire = (*host.wire).clone().limits(MessageLimits::default().message(message));
    host.wire = Arc::new(wire);
}

fn limit_to_one_message(host: &mut ServerContext) {
    limit_messages(host, 256 << 10);
    host.limits = host.limits.unfinished(0).messages(0);
}

#[tokio::test(start_paused = true)]
async fn a_batch_is_charged_until_its_last_member_ends() {
    let mut connection = LineConnection::new(limit_to_one_message);
    connection.legacy("2025-03-26").await;
    let mut first = legacy_call("first", "gate");
    first["params"]["arguments"] = json!({"text": "x".repeat(200_000)});
    connection.send(json!([first, legacy_call("last", "gate")])).await;
    // Both are waiting when the first is admitted.
    sleep(Duration::from_millis(10)).await;
    connection.gate.add_permits(1);
    sleep(Duration::from_millis(10)).await;
    assert_eq!(connection.gate.available_permits(), 0);
    long_call(&mut connection, 1, "now", 200_000).await;
    let refused = connection.next().await.unwrap();
    assert!(refused["error"]["message"].as_str().unwrap().contains("no memory"), "{refused}");
    connection.gate.add_permits(1);
    assert!(connection.next().await.unwrap().is_array());
    long_call(&mut connection, 2, "now", 200_000).await;
    assert_eq!(connection.id().await, 2);
}

#[tokio::test(start_paused = true)]
async fn a_long_message_is_not_charged_to_the_call_behind_it() {
    let mut connection = LineConnection::new(limit_to_one_message);
    // Quick calls in one read make the server decode ahead.
    let pings = pings(100).iter().map(|ping| format!("{ping}\n")).collect::<String>();
    connection.legacy("2025-11-25").await;
    connection.writer.write_all(pings.as_bytes()).await.unwrap();
    for _ in 0..100 {
        connection.next().await.unwrap();
    }
    let mut long = legacy_call("long", "now");
    long["params"]["arguments"] = json!({"text": "x".repeat(200_000)});
    let both = format!("{long}\n{}\n", legacy_call("behind", "gate"));
    connection.writer.write_all(both.as_bytes()).await.unwrap();
    assert_eq!(connection.id().await, "long");
    long_call(&mut connection, 1, "now", 200_000).await;
    assert_eq!(connection.id().await, 1);
}
