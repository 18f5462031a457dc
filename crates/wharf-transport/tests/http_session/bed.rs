//! A toy server, a client for it, and a reader of its streams.

use std::{
    collections::VecDeque,
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use http::{Request, Response, request::Builder};
use http_body::Body;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, broadcast},
    time::timeout,
};
use tower_service::Service as _;
use wharf_model::{
    Ask, BoxFuture, Deadlines, Error, Implementation, LogLevel, Method, Notification, Outbox,
    Outcome, Principal, Reply, Service, ToolResult,
};
use wharf_transport::{
    Host, LineLimits, Shutdown, TokioTimer,
    http::{Http, HttpBody, HttpLimits, HttpService},
};
use wharf_wire::Wire;

pub(crate) const NEWEST: &str = "2025-11-25";
pub(crate) const JSON: &str = "application/json";
pub(crate) const EVENTS: &str = "text/event-stream";
pub(crate) const BOTH: &str = "application/json, text/event-stream";

/// Answers `now` at once, `gate` when the test opens it, and so on.
#[derive(Clone)]
struct Toy {
    gate: Arc<Semaphore>,
    changes: broadcast::Sender<String>,
    calls: Arc<AtomicUsize>,
}

/// Counts a call for as long as it lives.
struct Alive(Arc<AtomicUsize>);

impl Alive {
    fn new(calls: Arc<AtomicUsize>) -> Self {
        calls.fetch_add(1, Ordering::SeqCst);
        Alive(calls)
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Service for Toy {
    fn call(&self, request: wharf_model::Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let Toy { gate, changes, calls } = self.clone();
        let alive = Alive::new(calls);
        let name = request.target().into_owned();
        let arguments: Value = serde_json::from_str(request.arguments()).unwrap();
        let mut changes = changes.subscribe();
        let pass = async move || gate.acquire().await.unwrap().forget();
        Box::pin(async move {
            let _alive = alive;
            match (request.method, &*name) {
                (Method::Discover, _) => {
                    if request.peer().info.as_ref().is_some_and(|it| it.name == "slow") {
                        pass().await;
                    }
                    return Reply::Discover(Box::default()).into();
                }
                (Method::Listen, _) => loop {
                    let uri = changes.recv().await.unwrap();
                    outbox.notify(Notification::ResourceUpdated { uri: uri.into() });
                    outbox.room().await;
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
                    outbox.room().await;
                },
                (_, "ask") => {
                    let answer = outbox.ask(Ask::Roots).await;
                    return match answer {
                        Ok(answer) => ToolResult::text(answer).into(),
                        Err(error) => ToolResult::error(error.kind.name()).into(),
                    };
                }
                (_, "let_go") => {
                    count(&outbox, arguments["to"].as_u64().unwrap()).await;
                    outbox.let_go();
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

/// Sends as many notifications, one a poll.
async fn count(outbox: &Outbox, to: u64) {
    for number in 1..=to {
        outbox.notify(Notification::Progress {
            progress: number as f64,
            total: None,
            message: Some("x".repeat(100)),
        });
        outbox.room().await;
        tokio::task::yield_now().await;
    }
}

/// A server.
#[derive(Clone)]
pub(crate) struct Bed {
    toy: Toy,
    pub(crate) gate: Arc<Semaphore>,
    pub(crate) shutdown: Shutdown,
    service: HttpService,
}

impl Bed {
    pub(crate) fn new() -> Bed {
        Bed::with(|_| {})
    }

    pub(crate) fn with(change: impl FnOnce(&mut HttpLimits)) -> Bed {
        Bed::with_all(change, |_| {})
    }

    pub(crate) fn with_all(
        change: impl FnOnce(&mut HttpLimits),
        change_lines: impl FnOnce(&mut LineLimits),
    ) -> Bed {
        let (gate, shutdown) = (Arc::new(Semaphore::new(0)), Shutdown::new());
        let toy = Toy {
            gate: gate.clone(),
            changes: broadcast::Sender::new(4096),
            calls: Arc::default(),
        };
        let (mut limits, mut lines) = (HttpLimits::default(), LineLimits::default());
        change(&mut limits);
        change_lines(&mut lines);
        let wire = Wire::new(Implementation::new("toy", "1")).default_log_level(LogLevel::Debug);
        let host = Host {
            wire: Arc::new(wire),
            service: Arc::new(toy.clone()),
            timer: Arc::new(TokioTimer),
            deadlines: Deadlines { idle: None, total: None },
            limits: lines,
        };
        let http = Http::new().limits(limits);
        let service = HttpService::new(Arc::new(host), http, shutdown.clone());
        Bed { toy, gate, shutdown, service }
    }

    /// A client that has opened a session, and listens.
    pub(crate) async fn client(&self, revision: &str) -> Client {
        let mut client = self.stranger(revision);
        client.open().await;
        client
    }

    /// A client without a session.
    pub(crate) fn stranger(&self, revision: &str) -> Client {
        let (bed, revision) = (self.clone(), revision.to_owned());
        Client { bed, revision, session: None, principal: None }
    }

    /// Says that a resource has changed.
    pub(crate) fn change(&self, number: u64) {
        self.toy.changes.send(format!("toy:{number}")).unwrap();
    }

    /// How many calls there are, listens among them.
    pub(crate) fn calls(&self) -> usize {
        self.toy.calls.load(Ordering::SeqCst)
    }

    /// Lets everybody else run until there is nothing to do but wait.
    pub(crate) async fn settle(&self) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[derive(Clone)]
pub(crate) struct Client {
    pub(crate) bed: Bed,
    pub(crate) revision: String,
    pub(crate) session: Option<String>,
    pub(crate) principal: Option<&'static str>,
}

impl Client {
    pub(crate) async fn open(&mut self) {
        let reply = self.initialize("test").await;
        assert_eq!((reply.status, &*reply.kind), (200, JSON), "{reply:?}");
        self.session = reply.session;
        let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(initialized).await.status, 202);
        self.bed.settle().await;
    }

    pub(crate) async fn initialize(&self, name: &str) -> Answer {
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

    pub(crate) async fn tool(&self, id: u64, name: &str) -> Answer {
        self.post(tool(id, name, json!({}))).await
    }

    pub(crate) async fn post(&self, message: Value) -> Answer {
        self.post_as(BOTH, message).await
    }

    pub(crate) async fn post_as(&self, accept: &str, message: Value) -> Answer {
        let request = self.request("POST").header("accept", accept);
        let request = request.header("content-type", JSON);
        self.send(request, message.to_string()).await
    }

    pub(crate) async fn get(&self, last: Option<&str>) -> Answer {
        let request = self.request("GET").header("accept", EVENTS);
        let request = match last {
            Some(last) => request.header("last-event-id", last),
            None => request,
        };
        self.send(request, String::new()).await
    }

    pub(crate) async fn delete(&self) -> Answer {
        self.send(self.request("DELETE"), String::new()).await
    }

    /// Answers a question.
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
        request
    }

    pub(crate) async fn send(&self, request: Builder, body: String) -> Answer {
        let reply = self.bed.service.clone().call(request.body(body).unwrap()).await;
        Answer::new(reply.unwrap())
    }
}

pub(crate) fn tool(id: u64, name: &str, arguments: Value) -> Value {
    let params = json!({"name": name, "arguments": arguments, "_meta": {"progressToken": "token"}});
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params})
}

pub(crate) fn cancelled(id: u64) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id}})
}

/// A response, of which the body may still be to come.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) session: Option<String>,
    pub(crate) retry_after: Option<String>,
    body: HttpBody,
    text: Vec<u8>,
    events: VecDeque<Event>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: String,
    pub(crate) data: Value,
    pub(crate) retry: Option<u64>,
}

impl Answer {
    fn new(reply: Response<HttpBody>) -> Answer {
        let header = |name| reply.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
        Answer {
            status: reply.status().as_u16(),
            kind: header("content-type").unwrap_or_default(),
            session: header("mcp-session-id"),
            retry_after: header("retry-after"),
            body: reply.into_body(),
            text: Vec::new(),
            events: VecDeque::new(),
        }
    }

    /// The next piece of the body. False at its end.
    async fn read(&mut self) -> bool {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
        let Some(frame) = frame else { return false };
        self.text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        true
    }

    /// The body, whole.
    pub(crate) async fn whole(mut self) -> Vec<u8> {
        while self.read().await {}
        self.text
    }

    /// The body, as JSON.
    pub(crate) async fn json(self) -> Value {
        assert_eq!(self.kind, JSON, "{self:?}");
        serde_json::from_slice(&self.whole().await).unwrap()
    }

    /// The next event, or none at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        assert_eq!((self.status, &*self.kind), (200, EVENTS), "{self:?}");
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if !self.read().await {
                assert_eq!(self.text, b"", "half an event");
                return None;
            }
            self.parse();
        }
    }

    fn parse(&mut self) {
        let text = std::str::from_utf8(&self.text).unwrap();
        let whole = text.rfind("\n\n").map_or(0, |end| end + 2);
        for block in text[..whole].split_terminator("\n\n") {
            let mut event = Event::default();
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => event.id = id.to_owned(),
                    Some(("retry", retry)) => event.retry = Some(retry.parse().unwrap()),
                    Some(("data", "")) => {}
                    Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                    _ => assert_eq!(line, ":"),
                }
            }
            self.events.push_back(event);
        }
        let rest = &text[whole..];
        self.text = if rest == ":\n" { Vec::new() } else { rest.as_bytes().to_vec() };
    }

    /// The next event that carries a message.
    pub(crate) async fn message(&mut self) -> Option<Event> {
        loop {
            let event = self.next().await?;
            if !event.data.is_null() {
                return Some(event);
            }
        }
    }

    /// The messages up to the end of the stream.
    pub(crate) async fn messages(mut self) -> Vec<Event> {
        let mut messages = Vec::new();
        while let Some(event) = self.message().await {
            messages.push(event);
        }
        messages
    }

    /// The ids of the next `count` messages.
    pub(crate) async fn ids(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.message().await.unwrap().id);
        }
        ids
    }

    /// Whether nothing comes, however long one waits.
    pub(crate) async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_secs(3600), self.message()).await.is_err()
    }
}
