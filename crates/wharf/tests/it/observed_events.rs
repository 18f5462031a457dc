//! A real server emits every event, and its gauges return to zero.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use wharf::{
    Client, Endpoint, Server, Tool,
    client::ClientHandlerBuilder,
    http::HttpLimits,
    model::ElicitResult,
    observe::{Metrics, MetricsFormat, ObservedEvent, Observer},
    prelude::Ctx,
    server::{CallLimits, KeyRing, Limits, LineLimits},
    store::memory_stores,
    tasks::TaskMode,
};
use wharf_testbed::cluster_stores::ClusterStores;

use crate::upstream_program;

const PATIENCE: Duration = Duration::from_secs(60);

/// Collects the names of events.
#[derive(Clone, Default)]
struct EventNames(Arc<Mutex<Vec<String>>>);

impl Observer for EventNames {
    fn event(&self, event: &ObservedEvent<'_>) {
        let text = match event {
            ObservedEvent::Task(task) => format!("Task {:?}", task.change),
            ObservedEvent::Upstream { change, .. } => format!("Upstream {change:?}"),
            event => format!("{event:?}"),
        };
        let words = text.split([' ', '(', '{']).filter(|word| !word.is_empty());
        let count = if text.starts_with("Task") || text.starts_with("Upstream") { 2 } else { 1 };
        let name = words.take(count).collect::<Vec<_>>().join(" ");
        let mut names = self.0.lock().unwrap();
        if !names.contains(&name) {
            names.push(name);
        }
    }
}

impl EventNames {
    async fn has(&self, name: &str) {
        wait_for(
            || self.0.lock().unwrap().iter().any(|it| it == name),
            || format!("no event {name}: {:?}", self.0.lock().unwrap()),
        )
        .await;
    }
}

async fn wait_for(is_true: impl Fn() -> bool, problem: impl Fn() -> String) {
    let waiting = async {
        while !is_true() {
            // Lets a paused clock advance, so that an event that is missing fails the test.
            sleep(Duration::from_millis(1)).await;
        }
    };
    let ended = timeout(PATIENCE, waiting).await;
    assert!(ended.is_ok(), "{}", problem());
}

/// Server on TCP and HTTP with metrics.
struct ObservedServer {
    endpoint: Endpoint,
    metrics: Metrics,
    events: EventNames,
    tcp: std::net::SocketAddr,
    http: std::net::SocketAddr,
}

impl ObservedServer {
    async fn start() -> Self {
        let (metrics, events) = (Metrics::new(), EventNames::default());
        let calls = CallLimits::default().concurrent(1).queue(1);
        let lines = LineLimits::default().write(Duration::from_millis(200));
        let http = HttpLimits::default().session_idle(Duration::from_secs(1));
        let limits = Limits::default().calls(calls).lines(lines).http(http);
        let server = Server::new("observed", "1.0.0")
            .limits(limits)
            .store(memory_stores())
            .observe(metrics.clone())
            .observe(events.clone())
            .add(Tool::new("echo", async || "hello"))
            .add(Tool::new("crash", async || -> String { panic!("boom") }))
            .add(Tool::new("hang", async || pending::<String>().await))
            .add(Tool::new("talk", async |ctx: Ctx| {
                ctx.progress(1.0).await;
                pending::<String>().await
            }))
            .add(
                Tool::new("job", async |ctx: Ctx| {
                    ctx.step("one", async { 1 }).await;
                    "done"
                })
                .task(TaskMode::optional()),
            )
            .add(
                Tool::new("crash_job", async || -> String { panic!("boom") })
                    .task(TaskMode::optional()),
            );
        let endpoint = server.build().unwrap();
        let listener = Endpoint::listen_tcp("127.0.0.1:0").await.unwrap();
        let tcp = listener.local_addr().unwrap();
        let serving = endpoint.clone();
        tokio::spawn(async move { serving.serve_listener(listener).await });
        let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
        let http = listener.local_addr().unwrap();
        let serving = endpoint.clone();
        tokio::spawn(async move { serving.serve_http_on(listener).await });
        ObservedServer { endpoint, metrics, events, tcp, http }
    }

    /// Returns the value of a series; zero if there is none.
    fn value(&self, series: &str) -> f64 {
        let text = self.metrics.render(MetricsFormat::Prometheus);
        let value = text.lines().find_map(|line| line.strip_prefix(series)?.trim().parse().ok());
        value.unwrap_or_default()
    }

    async fn is(&self, series: &str, value: f64) {
        let problem = || {
            let text = self.metrics.render(MetricsFormat::Prometheus);
            format!("{series} is not {value}:\n{text}")
        };
        wait_for(|| (self.value(series) - value).abs() < 0.5, problem).await;
    }

    async fn line(&self) -> TcpStream {
        TcpStream::connect(self.tcp).await.unwrap()
    }

    async fn post(&self, headers: &str, body: &str) -> TcpStream {
        let mut stream = TcpStream::connect(self.http).await.unwrap();
        let request = format!(
            "POST /mcp HTTP/1.1\r\nhost: {}\r\naccept: application/json, text/event-stream\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
            self.http,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        stream
    }
}

fn call(tool: &str) -> String {
    let meta = json!({
        "progressToken": "t",
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let params = json!({"name": tool, "arguments": {}, "_meta": meta});
    json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}).to_string()
}

fn headers(tool: &str) -> String {
    format!("mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: {tool}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_streams_and_calls_in_flight_return_to_zero() {
    let server = ObservedServer::start().await;
    // A disconnect ends the connection and its call.
    let mut line = server.line().await;
    line.write_all(format!("{}\n", call("hang")).as_bytes()).await.unwrap();
    server.is("wharf_sessions{transport=\"tcp\"}", 1.0).await;
    server.is("wharf_requests_in_flight", 1.0).await;
    drop(line);
    server.is("wharf_requests_in_flight", 0.0).await;
    server.is("wharf_sessions{transport=\"tcp\"}", 0.0).await;
    // A cancellation ends the call, and a panic as well.
    let mut line = server.line().await;
    line.write_all(format!("{}\n", call("hang")).as_bytes()).await.unwrap();
    server.is("wharf_requests_in_flight", 1.0).await;
    let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
    line.write_all(format!("{cancel}\n{}\n", call("crash")).as_bytes()).await.unwrap();
    let mut reply = [0; 10];
    line.read_exact(&mut reply).await.unwrap();
    server.is("wharf_requests_in_flight", 0.0).await;
    drop(line);
    server.is("wharf_sessions{transport=\"tcp\"}", 0.0).await;
    // A stream over HTTP ends with its connection.
    let stream = server.post(&headers("talk"), &call("talk")).await;
    server.is("wharf_streams{transport=\"http\"}", 1.0).await;
    drop(stream);
    server.is("wharf_streams{transport=\"http\"}", 0.0).await;
    server.is("wharf_requests_in_flight", 0.0).await;
    server.is("wharf_requests_waiting", 0.0).await;
    // A session over HTTP expires.
    let initialize = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "c", "version": "1"}}});
    let session = server.post("", &initialize.to_string()).await;
    server.is("wharf_sessions{transport=\"http\"}", 1.0).await;
    drop(session);
    server.is("wharf_sessions{transport=\"http\"}", 0.0).await;
    let ended = "mcp_server_session_duration_seconds_count{network_transport=\"tcp\",network_protocol_name=\"http\",mcp_protocol_version=\"2025-11-25\",error_type=\"expired\"}";
    server.is(ended, 1.0).await;
    server.endpoint.shutdown();
}

#[tokio::test(flavor = "multi_thread")]
async fn every_event_comes_from_a_real_server() {
    let server = ObservedServer::start().await;
    let events = server.events.clone();
    // Bytes, sessions and rejections.
    let mut line = server.line().await;
    line.write_all(b"{nonsense\n").await.unwrap();
    server.is("wharf_rejected_total{reason=\"parse_error\"}", 1.0).await;
    for name in ["SessionStarted", "Received", "Refused", "Sent"] {
        events.has(name).await;
    }
    assert!(server.value("wharf_bytes_total{direction=\"received\"}") > 0.0);
    assert!(server.value("wharf_bytes_total{direction=\"sent\"}") > 0.0);
    drop(line);
    events.has("SessionEnded").await;
    // The queue: one call runs, one waits, one is rejected.
    let stream = server.post(&headers("talk"), &call("talk")).await;
    events.has("StreamOpened").await;
    let waiting = server.post(&headers("echo"), &call("echo")).await;
    server.is("wharf_requests_waiting", 1.0).await;
    let _rejected = server.post(&headers("echo"), &call("echo")).await;
    server.is("wharf_queue_rejected_total", 1.0).await;
    drop((stream, waiting));
    for name in ["StreamClosed", "Queue", "QueueFull"] {
        events.has(name).await;
    }
    // A client that does not read.
    let (mut unread, theirs) = tokio::io::duplex(16);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = server.endpoint.clone();
    let serving = tokio::spawn(async move { serving.serve_stream(reader, writer).await });
    unread.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
    serving.await.unwrap();
    server.is("wharf_slow_clients_closed_total", 1.0).await;
    events.has("SlowClientClosed").await;
    // Tasks and their store.
    server.is("wharf_requests_in_flight", 0.0).await;
    let task = server.endpoint.spawn_task("job", json!({})).await.unwrap();
    task.wait().await.unwrap();
    for change in ["Created", "Started", "Step", "Ended", "Stopped"] {
        events.has(&format!("Task {change}")).await;
    }
    server.is("wharf_tasks_ended_total{state=\"completed\"}", 1.0).await;
    // A panic is the result of its task.
    let crashed = server.endpoint.spawn_task("crash_job", json!({})).await.unwrap();
    assert!(crashed.wait().await.unwrap().is_error);
    server.is("wharf_tasks_ended_total{state=\"completed\",error_type=\"panic\"}", 1.0).await;
    server.is("wharf_tasks{state=\"working\"}", 0.0).await;
    events.has("StoreOperation").await;
    let inserted = "wharf_store_operation_seconds_count{op=\"tasks.insert\",outcome=\"ok\"}";
    server.is(inserted, 2.0).await;
    server.endpoint.shutdown();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_proxy_reports_its_upstream() {
    let upstream = ObservedServer::start().await;
    let (metrics, events) = (Metrics::new(), EventNames::default());
    let url = format!("tcp://{}", upstream.tcp);
    let client = Client::connect(url.as_str()).await.unwrap();
    let server = Server::from(client).observe(metrics.clone()).observe(events.clone());
    let _proxy = server.build().unwrap();
    let up = format!("wharf_upstream_up{{mcp_upstream=\"{url}\"}} ");
    let has = |value: &str| {
        let line = format!("{up}{value}");
        metrics.render(MetricsFormat::Prometheus).lines().any(|it| it == line)
    };
    assert!(has("1"), "{}", metrics.render(MetricsFormat::Prometheus));
    events.has("Upstream Up").await;
    upstream.endpoint.shutdown();
    wait_for(|| has("0"), || metrics.render(MetricsFormat::Prometheus)).await;
    events.has("Upstream Down").await;
}

#[tokio::test(start_paused = true)]
async fn an_outage_of_the_store_and_its_effect_on_tasks_are_events() {
    let (stores, events) = (ClusterStores::new(), EventNames::default());
    let key: KeyRing = "11".repeat(32).parse().unwrap();
    let ask = async |ctx: Ctx| {
        let form = json!({"type": "object", "properties": {"sure": {"type": "boolean"}}});
        let _ = ctx.ask_form("sure", "Sure?", form).await;
        pending::<String>().await
    };
    let endpoint = Server::new("cluster", "1.0.0")
        .store(stores.stores())
        .state_cipher(key)
        .observe(events.clone())
        .add(Tool::new("ask", ask).task(TaskMode::required()))
        .build()
        .unwrap();
    let handler = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    let client = Client::builder().handler(handler).connect(&endpoint).await.unwrap();
    let _task = client.call_task("ask", json!({})).await.unwrap();
    events.has("Task InputRequired").await;
    stores.away(true);
    // Longer than the lease.
    sleep(Duration::from_secs(60)).await;
    events.has("StoreFailed").await;
    events.has("Task Stopped").await;
    stores.away(false);
    events.has("StoreRecovered").await;
    events.has("Task TakenOver").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_restart_and_the_end_of_an_upstream_program_are_events() {
    let (metrics, events) = (Metrics::new(), EventNames::default());
    let client = Client::connect(upstream_program::command()).await.unwrap();
    let server = Server::from(client.clone()).observe(metrics.clone()).observe(events.clone());
    let _proxy = server.build().unwrap();
    upstream_program::restart(&client).await;
    for change in ["Up", "Down", "Restarting"] {
        events.has(&format!("Upstream {change}")).await;
    }
    let text = metrics.render(MetricsFormat::Prometheus);
    let restarts = text.lines().find(|it| it.starts_with("wharf_upstream_restarts_total{"));
    assert!(restarts.is_some_and(|it| it.ends_with(" 1")), "{text}");
    client.close().await;
    events.has("Upstream Closed").await;
}
