//! Our own server with a test service, over a socket.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::Value;
use tokio::{
    net::TcpListener,
    sync::{Semaphore, broadcast},
};
use wharf_model::{
    BoxFuture, ClientRequest, Deadlines, Discovery, Implementation, ListCapability, LogLevel,
    Method, Notification, Outbox, Outcome, Reply, Request, ResourcesCapability, Service,
    ToolResult,
};
use wharf_transport::{
    ServerContext, Shutdown,
    server::http::{Http, HttpService, serve},
};
use wharf_wire::ServerProtocol;

#[derive(Clone)]
pub(crate) struct HttpServer {
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) changes: broadcast::Sender<Notification>,
    calls: Arc<AtomicUsize>,
    pub(crate) shutdown: Shutdown,
    pub(crate) port: u16,
}

/// Counts a call while it is in flight.
struct HttpCallGuard(Arc<AtomicUsize>);

impl Drop for HttpCallGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for HttpServer {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let server = self.clone();
        if request.method == Method::Listen {
            let filter = request.filter.clone().unwrap_or_default();
            let mut changes = server.changes.subscribe();
            return Box::pin(async move {
                outbox.notify(Notification::Acknowledged(filter.read(Clone::clone)));
                loop {
                    let change = changes.recv().await.unwrap();
                    if filter.read(|it| it.includes(&change)) {
                        outbox.notify(change);
                    }
                }
            });
        }
        server.calls.fetch_add(1, Ordering::SeqCst);
        let alive = HttpCallGuard(server.calls.clone());
        let arguments: Value = serde_json::from_str(request.arguments()).unwrap();
        Box::pin(async move {
            let _alive = alive;
            let to = arguments["to"].as_u64().unwrap_or_default();
            match (request.method, &*request.target()) {
                (Method::Discover, _) => return Reply::Discover(Box::new(discovery())).into(),
                (_, "count") => count(&outbox, to).await,
                (_, "gate") => server.gate.acquire().await.unwrap().forget(),
                (_, "let_go") => {
                    count(&outbox, to).await;
                    outbox.release_connection();
                    server.gate.acquire().await.unwrap().forget();
                    count(&outbox, to).await;
                }
                (_, "ask") => {
                    return match outbox.ask(ClientRequest::Roots).await {
                        Ok(answer) => ToolResult::text(answer).into(),
                        Err(error) => error.into(),
                    };
                }
                (_, name) => return ToolResult::text(name).into(),
            }
            ToolResult::text("done").into()
        })
    }
}

fn discovery() -> Discovery {
    let mut discovery = Discovery::default();
    let (mut lists, mut resources) = (ListCapability::default(), ResourcesCapability::default());
    lists.list_changed = true;
    resources.subscribe = true;
    discovery.capabilities.tools = Some(lists);
    discovery.capabilities.logging = true;
    discovery.capabilities.resources = Some(resources);
    discovery
}

async fn count(outbox: &Outbox, to: u64) {
    for number in 1..=to {
        let progress = number as f64;
        outbox.notify(Notification::Progress { progress, total: None, message: None });
        outbox.wait_for_capacity().await;
        tokio::task::yield_now().await;
    }
}

impl HttpServer {
    pub(crate) async fn serve(http: Http) -> HttpServer {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let server = HttpServer {
            gate: Arc::new(Semaphore::new(0)),
            changes: broadcast::Sender::new(64),
            calls: Arc::default(),
            shutdown: Shutdown::new(),
            port: listener.local_addr().unwrap().port(),
        };
        let wire =
            ServerProtocol::new(Implementation::new("toy", "1")).default_log_level(LogLevel::Debug);
        let host = ServerContext::new(Arc::new(wire), server.clone()).deadlines(Deadlines::NONE);
        let service = HttpService::new(Arc::new(host), http, server.shutdown.clone());
        tokio::spawn(serve(service, listener));
        server
    }

    pub(crate) fn url(&self) -> String {
        self.at("/mcp")
    }

    pub(crate) fn at(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// Waits until this many calls are in flight.
    pub(crate) async fn has_calls(&self, count: usize) {
        for _ in 0..10_000 {
            if self.calls.load(Ordering::SeqCst) == count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("there are not {count} calls, but {}", self.calls.load(Ordering::SeqCst));
    }
}
