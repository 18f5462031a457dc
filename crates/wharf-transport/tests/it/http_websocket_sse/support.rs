//! Test service, the endpoint that serves it, and messages to it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::Semaphore, time::timeout};
use wharf_model::{
    BoxFuture, ClientRequest, Implementation, Method, Notification, Outbox, Outcome, Reply,
    Request, Service, SubscriptionFilter, ToolResult,
};
use wharf_transport::{
    ServerContext, Shutdown,
    server::http::{Http, HttpService},
};
use wharf_wire::{MessageLimits, ServerProtocol};

/// Replies to `now` at once, to `gate` when the test opens it, to `ask` when the client has
/// responded, to `long` with a megabyte, to `nonce-…` with its name. `flood` never stops sending,
/// and `who` returns the caller.
struct EndpointService {
    gate: Arc<Semaphore>,
    running: Arc<AtomicUsize>,
}

/// Counts a call while it is in flight, however it ends.
struct RunningGuard(Arc<AtomicUsize>);

impl RunningGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        RunningGuard(count.clone())
    }
}

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for EndpointService {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let gate = self.gate.clone();
        let running = RunningGuard::new(&self.running);
        let name = request.target().into_owned();
        Box::pin(async move {
            let _running = running;
            match (request.method, &*name) {
                (Method::Discover, _) => Reply::Discover(Box::default()).into(),
                (Method::Listen, _) => {
                    outbox.notify(Notification::Acknowledged(SubscriptionFilter::default()));
                    std::future::pending().await
                }
                (_, "gate") => {
                    gate.acquire().await.unwrap().forget();
                    ToolResult::text("open").into()
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
                (_, "long") => ToolResult::text("é".repeat(1 << 19)).into(),
                (_, "who") => {
                    let who = request.principal().map_or("nobody", |it| it.id()).to_owned();
                    ToolResult::text(who).into()
                }
                (_, nonce) if nonce.starts_with("nonce-") => {
                    tokio::task::yield_now().await;
                    ToolResult::text(nonce).into()
                }
                _ => ToolResult::text("now").into(),
            }
        })
    }
}

/// An endpoint, and handles to control it.
pub(crate) struct TestEndpoint {
    pub(crate) service: HttpService,
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) shutdown: Shutdown,
    running: Arc<AtomicUsize>,
    host: Arc<ServerContext>,
}

impl TestEndpoint {
    pub(crate) fn new(http: Http) -> TestEndpoint {
        TestEndpoint::with(http, |_| {})
    }

    pub(crate) fn with(http: Http, change: impl FnOnce(&mut ServerContext)) -> TestEndpoint {
        let (gate, running) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let wire = ServerProtocol::new(Implementation::new("toy", "1"));
        let service = EndpointService { gate: gate.clone(), running: running.clone() };
        let mut host = ServerContext::new(Arc::new(wire), service);
        change(&mut host);
        let host = Arc::new(host);
        let shutdown = Shutdown::new();
        let service = HttpService::new(host.clone(), http, shutdown.clone());
        TestEndpoint { service, gate, shutdown, running, host }
    }

    /// Completes when this many calls are in flight.
    pub(crate) async fn until_running(&self, count: usize) {
        let reached = async {
            while self.running.load(Ordering::SeqCst) != count {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        timeout(Duration::from_secs(60), reached).await.unwrap();
    }

    /// Completes when no connection is left and the endpoint is dropped.
    pub(crate) async fn until_nothing_is_left(self) {
        let TestEndpoint { service, host, running, .. } = self;
        drop(service);
        let gone = async {
            while Arc::strong_count(&host) > 1 {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        };
        assert!(timeout(Duration::from_secs(60), gone).await.is_ok(), "a connection is left");
        assert_eq!(running.load(Ordering::SeqCst), 0);
    }
}

/// Sets the maximum size of a message.
pub(crate) fn limit_messages(host: &mut ServerContext, message: usize) {
    let wire = (*host.wire).clone().limits(MessageLimits::default().message(message));
    host.wire = Arc::new(wire);
}

/// A modern request.
pub(crate) fn modern(id: u64, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "progressToken": id,
    });
    json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
}

/// A modern tool call.
pub(crate) fn tool(id: u64, name: &str) -> Value {
    modern(id, "tools/call", json!({"name": name}))
}

/// A tool call in a legacy session.
pub(crate) fn legacy_tool(id: u64, name: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": name}})
}

pub(crate) fn initialize(revision: &str) -> Value {
    let params = json!({
        "protocolVersion": revision,
        "capabilities": {"roots": {}},
        "clientInfo": {"name": "t", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

pub(crate) fn initialized() -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
}

/// Text of a tool's result.
pub(crate) fn text_of(reply: &Value) -> &str {
    reply["result"]["content"][0]["text"].as_str().unwrap()
}
