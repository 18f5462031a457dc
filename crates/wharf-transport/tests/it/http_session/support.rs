//! Test server and client.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, request::Builder};
use serde_json::{Value, json};
use tokio::sync::{Semaphore, broadcast};
use tower_service::Service as _;
use wharf_model::{
    BoxFuture, ClientRequest, Deadlines, Error, Implementation, LogLevel, Method, Notification,
    Outbox, Outcome, Principal, RemoteAddress, Reply, Service, ToolResult,
};
use wharf_transport::{
    LineLimits, ServerContext, Shutdown,
    server::http::{Http, HttpLimits, HttpService},
};
use wharf_wire::ServerProtocol;

use wharf_testbed::cluster_stores::ClusterStores;

use super::decoded_response::{StreamNames, TestResponse};

pub(crate) const NEWEST: &str = "2025-11-25";
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";
pub(crate) const BOTH: &str = "application/json, text/event-stream";

/// Replies to `now` at once, to `gate` when the test opens it, and so on.
#[derive(Clone)]
struct SessionService {
    gate: Arc<Semaphore>,
    changes: broadcast::Sender<String>,
    calls: Arc<AtomicUsize>,
}

/// Counts a call while it is in flight.
struct SessionCallGuard(Arc<AtomicUsize>);

impl SessionCallGuard {
    fn new(calls: Arc<AtomicUsize>) -> Self {
        calls.fetch_add(1, Ordering::SeqCst);
        SessionCallGuard(calls)
    }
}

impl Drop for SessionCallGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for SessionService {
    fn call(&self, request: wharf_model::Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let SessionService { gate, changes, calls } = self.clone();
        let alive = SessionCallGuard::new(calls);
        let name = request.target().into_owned();
        let arguments: Value = serde_json::from_str(request.arguments()).unwrap();
        let mut changes = changes.subscribe();
        let pass = async move || gate.acquire().await.unwrap().forget();
        Box::pin(async move {
            let _alive = alive;
            match (request.method, &*name) {
                (Method::Discover, _) => {
                    match request.peer().info.as_ref().map(|it| &*it.name) {
                        Some("slow") => pass().await,
                        Some("unwanted") => return Error::overloaded(Duration::ZERO).into(),
                        _ => {}
                    }
                    return Reply::Discover(Box::default()).into();
                }
                (Method::Listen, _) => loop {
                    let uri = changes.recv().await.unwrap();
                    outbox.notify(Notification::ResourceUpdated { uri: uri.into() });
                    outbox.wait_for_capacity().await;
                },
                (_, "gate") => pass().await,
                (_, "count") => count(&outbox, arguments["to"].as_u64().unwrap()).await,
                (_, "count_and_wait") => {
                    count(&outbox, arguments["to"].as_u64().unwrap()).await;
                    pass().await;
                }
                (_, "wait_and_count") => {
                    pass().await;
                    count(&outbox, arguments["to"].as_u64().unwrap()).await;
                }
                // It never waits for anything but the client.
                (_, "flood") => loop {
                    outbox.notify(Notification::Progress {
                        progress: 1.0,
                        total: None,
                        message: None,
                    });
                    outbox.wait_for_capacity().await;
                },
                (_, "ask") => {
                    let answer = outbox.ask(ClientRequest::Roots).await;
                    return match answer {
                        Ok(answer) => ToolResult::text(answer).into(),
                        Err(error) => ToolResult::error(error.kind.name()).into(),
                    };
                }
                (_, "tick") => {
                    for _ in 0..arguments["to"].as_u64().unwrap() {
                        tokio::time::sleep(Duration::from_millis(100)).await;
                        count(&outbox, 1).await;
                    }
                }
                (_, "let_go") => {
                    count(&outbox, arguments["to"].as_u64().unwrap()).await;
                    outbox.release_connection();
                    pass().await;
                    count(&outbox, 1).await;
                }
                (_, "long") => {
                    pass().await;
                    return ToolResult::text(
                        "x".repeat(arguments["bytes"].as_u64().unwrap() as usize),
                    )
                    .into();
                }
                (_, "panic") => {
                    tokio::task::yield_now().await;
                    panic!("on purpose");
                }
                (_, "busy") => {
                    pass().await;
                    return Error::overloaded(Duration::from_millis(1500)).into();
                }
                (_, "who") => {
                    let who = request.principal().map(|it| it.id().to_owned());
                    return ToolResult::text(who.unwrap_or_default()).into();
                }
                (_, "nonce") => {
                    let wait = arguments["wait"].as_u64().unwrap();
                    tokio::time::sleep(Duration::from_millis(wait)).await;
                    return ToolResult::text(arguments["nonce"].to_string()).into();
                }
                _ => {}
            }
            ToolResult::text(name).into()
        })
    }
}

/// Sends this many notifications, one per poll.
async fn count(outbox: &Outbox, to: u64) {
    for number in 1..=to {
        outbox.notify(Notification::Progress {
            progress: number as f64,
            total: None,
            message: Some("x".repeat(100)),
        });
        outbox.wait_for_capacity().await;
        tokio::task::yield_now().await;
    }
}

/// One or several servers with the test service.
#[derive(Clone)]
pub(crate) struct SessionServer {
    service: SessionService,
    pub(crate) gate: Arc<Semaphore>,
    /// Stops the first server.
    pub(crate) shutdown: Shutdown,
    make: Arc<dyn Fn(Shutdown) -> HttpService + Send + Sync>,
    /// The servers, which share their stores if there are several.
    nodes: Arc<Mutex<Vec<Option<HttpService>>>>,
    /// Notified when a server is killed.
    killed: Arc<broadcast::Sender<usize>>,
    /// Index of the next server.
    turn: Arc<AtomicUsize>,
    names: StreamNames,
    pub(crate) ports: ClusterStores,
}

impl SessionServer {
    pub(crate) fn new() -> SessionServer {
        SessionServer::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut HttpLimits)) -> SessionServer {
        SessionServer::with_all(change, |_| {})
    }

    pub(crate) fn with_all(
        change: impl FnOnce(&mut HttpLimits),
        change_lines: impl FnOnce(&mut LineLimits),
    ) -> SessionServer {
        let (gate, shutdown) = (Arc::new(Semaphore::new(0)), Shutdown::new());
        let service = SessionService {
            gate: gate.clone(),
            changes: broadcast::Sender::new(4096),
            calls: Arc::default(),
        };
        let (mut limits, mut lines) = (HttpLimits::default(), LineLimits::default());
        change(&mut limits);
        change_lines(&mut lines);
        let wire =
            ServerProtocol::new(Implementation::new("toy", "1")).default_log_level(LogLevel::Debug);
        let host = ServerContext::new(Arc::new(wire), service.clone())
            .deadlines(Deadlines::NONE)
            .limits(lines)
            .http_limits(limits);
        let ports = ClusterStores::new();
        let host = Arc::new(host);
        let shared = ports.clone();
        let make = move |stop| {
            let mut http = Http::new().health();
            if super::NODES > 1 {
                http = http.stores(shared.stores());
            }
            HttpService::new(host.clone(), http, stop)
        };
        let stop = |node| if node == 0 { shutdown.clone() } else { Shutdown::new() };
        let nodes = (0..super::NODES).map(|node| Some(make(stop(node)))).collect();
        SessionServer {
            service,
            gate,
            shutdown,
            nodes: Arc::new(Mutex::new(nodes)),
            killed: Arc::new(broadcast::Sender::new(64)),
            make: Arc::new(make),
            turn: Arc::default(),
            names: StreamNames::default(),
            ports,
        }
    }

    /// An event's id as the servers write it.
    pub(crate) fn real(&self, client: &SessionClient, id: &str) -> String {
        self.names.real(client.session.as_deref().unwrap_or_default(), id)
    }

    /// Number of subscriptions that run without a reader: 0 if several servers share the session.
    pub(crate) fn unread_subscriptions(&self) -> usize {
        usize::from(super::NODES == 1)
    }

    /// Sends all further requests to this server.
    pub(crate) fn only(&self, node: usize) {
        self.turn.store(node + super::NODES * 1_000_000, Ordering::SeqCst);
    }

    /// Kills a server.
    pub(crate) fn kill_node(&self, node: usize) {
        let killed = self.nodes.lock().unwrap()[node].take();
        let _ = self.killed.send(node);
        drop(killed);
    }

    /// Replaces a killed server by a new one.
    pub(crate) fn restart(&self, node: usize) {
        self.nodes.lock().unwrap()[node] = Some((self.make)(Shutdown::new()));
    }

    /// Next server in turn, and its index.
    pub(crate) fn node(&self) -> (HttpService, usize) {
        let nodes = self.nodes.lock().unwrap();
        loop {
            let turn = self.turn.load(Ordering::SeqCst);
            if turn < super::NODES * 1_000_000 {
                self.turn.store(turn + 1, Ordering::SeqCst);
            }
            let number = turn % nodes.len();
            if let Some(node) = &nodes[number] {
                return (node.clone(), number);
            }
        }
    }

    /// A client with an open session.
    pub(crate) async fn client(&self, revision: &str) -> SessionClient {
        let mut client = self.client_without_session(revision);
        client.open().await;
        client
    }

    /// A client without a session.
    pub(crate) fn client_without_session(&self, revision: &str) -> SessionClient {
        let (server, revision) = (self.clone(), revision.to_owned());
        SessionClient { server, revision, session: None, principal: None, address: None }
    }

    /// Publishes the change of a resource.
    pub(crate) fn change(&self, number: u64) {
        // There may be no subscriber.
        let _ = self.service.changes.send(format!("toy:{number}"));
    }

    /// Number of calls in flight, including subscriptions.
    pub(crate) fn calls(&self) -> usize {
        self.service.calls.load(Ordering::SeqCst)
    }

    /// Lets all other tasks run until they wait.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[derive(Clone)]
pub(crate) struct SessionClient {
    pub(crate) server: SessionServer,
    pub(crate) revision: String,
    pub(crate) session: Option<String>,
    pub(crate) principal: Option<&'static str>,
    pub(crate) address: Option<RemoteAddress>,
}

impl SessionClient {
    pub(crate) async fn open(&mut self) {
        let reply = self.initialize("test").await;
        assert_eq!((reply.status, &*reply.kind), (200, JSON), "{reply:?}");
        self.session = reply.session;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(initialized).await.status, 202);
        self.server.settle().await;
    }

    pub(crate) async fn initialize(&self, name: &str) -> TestResponse {
        self.post(self.hello(name)).await
    }

    pub(crate) fn hello(&self, name: &str) -> Value {
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": {"roots": {}},
            "clientInfo": {"name": name, "version": "1"},
        });
        json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
    }

    pub(crate) async fn tool(&self, id: u64, name: &str) -> TestResponse {
        self.post(tool(id, name, json!({}))).await
    }

    pub(crate) async fn post(&self, message: Value) -> TestResponse {
        self.post_as(BOTH, message).await
    }

    pub(crate) async fn post_as(&self, accept: &str, message: Value) -> TestResponse {
        let request = self.request("POST").header("accept", accept);
        let request = request.header("content-type", JSON);
        self.send(request, message.to_string()).await
    }

    pub(crate) async fn get(&self, last: Option<&str>) -> TestResponse {
        let request = self.request("GET").header("accept", EVENTS);
        let request = match last {
            Some(last) => {
                let session = self.session.clone().unwrap_or_default();
                request.header("last-event-id", self.server.names.real(&session, last))
            }
            None => request,
        };
        self.send(request, String::new()).await
    }

    pub(crate) async fn delete(&self) -> TestResponse {
        self.send(self.request("DELETE"), String::new()).await
    }

    /// Responds to a server-to-client request.
    pub(crate) async fn answer(&self, ask: &Value, result: Value) -> u16 {
        self.post(json!({"jsonrpc": "2.0", "id": ask["id"], "result": result})).await.status
    }

    pub(crate) async fn cancel(&self, id: u64) -> u16 {
        self.post(cancelled(id)).await.status
    }

    pub(crate) fn request(&self, verb: &str) -> Builder {
        let mut request = Request::builder().method(verb).uri("/mcp").header("host", "localhost");
        if let Some(session) = &self.session {
            request = request.header("mcp-session-id", session);
            request = request.header("mcp-protocol-version", &self.revision);
        }
        if let Some(principal) = self.principal {
            request = request.extension(Principal::new(principal));
        }
        if let Some(address) = self.address {
            request = request.extension(address);
        }
        request
    }

    pub(crate) async fn send(&self, request: Builder, body: String) -> TestResponse {
        self.try_send(request, body).await.unwrap()
    }

    /// Sends a request; `None` if its server is killed before it responds.
    pub(crate) async fn try_send(&self, request: Builder, body: String) -> Option<TestResponse> {
        let mut killed = self.server.killed.subscribe();
        let (mut node, number) = self.server.node();
        let reply = node.call(request.body(body).unwrap());
        drop(node);
        let is_killed = async { while killed.recv().await.unwrap() != number {} };
        tokio::select! {
            biased;
            () = is_killed => None,
            reply = reply => {
                let session = self.session.clone().unwrap_or_default();
                Some(TestResponse::new(reply.unwrap(), self.server.names.clone(), session))
            }
        }
    }
}

pub(crate) fn tool(id: u64, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "token"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

pub(crate) fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}
