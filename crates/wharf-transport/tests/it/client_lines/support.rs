//! Test service, its server, and client helpers.

use std::{
    future::poll_fn,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::value::to_raw_value;
use tokio::{
    io::{DuplexStream, ReadHalf, WriteHalf},
    sync::broadcast,
    task::JoinHandle,
    time::timeout,
};
use wharf_client::ClientTransport;
use wharf_model::{
    ActiveCall, BoxFuture, ClientCapabilities, ClientRequest, Deadlines, Discovery, Error,
    ErrorKind, Event, Implementation, InputMode, InputRequired, ListCapability,
    LiveSubscriptionFilter, LogLevel, Method, Notification, Outbox, Outcome, Reply, Request,
    RequestBuilder, RequestExtensions, ResourcesCapability, ServerCapabilities, Service,
    SubscriptionFilter, ToolResult,
};
use wharf_transport::{
    ServerContext, Shutdown, TokioTimer,
    client::{ClientTransportOptions, TraceEvent, connect_stream},
    server::in_memory,
};
use wharf_wire::{ClientIdentity, ServerProtocol};

/// Behaves as the name of the called tool describes.
pub(crate) struct StreamService {
    changes: broadcast::Sender<Notification>,
    under_way: Arc<AtomicUsize>,
    listens: Arc<AtomicUsize>,
}

/// Counts a call while it is in flight, however it ends.
struct StreamCallGuard(Arc<AtomicUsize>);

impl StreamCallGuard {
    fn new(count: &Arc<AtomicUsize>) -> Self {
        count.fetch_add(1, Ordering::SeqCst);
        StreamCallGuard(count.clone())
    }
}

impl Drop for StreamCallGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

fn progress(progress: f64) -> Notification {
    Notification::Progress { progress, total: Some(2.0), message: None }
}

fn log(text: &str) -> Notification {
    let data = to_raw_value(text).unwrap();
    Notification::Log { level: LogLevel::Warning, logger: None, data }
}

fn discovery() -> Discovery {
    let lists = ListCapability::default().list_changed(true);
    let resources = ResourcesCapability::default().list_changed(true).subscribe(true);
    let capabilities = ServerCapabilities::default()
        .tools(lists.clone())
        .prompts(lists)
        .resources(resources)
        .logging(true)
        .completions(true);
    Discovery::default().capabilities(capabilities).instructions("be gentle".to_owned())
}

impl Service for StreamService {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let name = request.target().into_owned();
        let mut changes = self.changes.subscribe();
        let count = if request.method == Method::Listen { &self.listens } else { &self.under_way };
        let counted = StreamCallGuard::new(count);
        Box::pin(async move {
            let _counted = counted;
            match (request.method, &*name) {
                (Method::Discover, _) => Reply::Discover(Box::new(discovery())).into(),
                (Method::Listen, _) => {
                    let filter = request.filter.clone().unwrap();
                    outbox
                        .notify(Notification::Acknowledged(filter.read(SubscriptionFilter::clone)));
                    while let Ok(change) = changes.recv().await {
                        if filter.read(|filter| filter.includes(&change)) {
                            outbox.notify(change);
                        }
                    }
                    Reply::Listened.into()
                }
                (_, "talk") => {
                    outbox.notify(progress(1.0));
                    outbox.notify(log("half way"));
                    outbox.notify(progress(2.0));
                    ToolResult::text("said").into()
                }
                (_, "ask") if request.asks == InputMode::Suspend => {
                    let requests = vec![("where".to_owned(), ClientRequest::Roots)];
                    let state = Some("sealed".to_owned());
                    Outcome::InputRequired(Box::new(InputRequired::new(requests, state)))
                }
                (_, "ask") => match outbox.ask(ClientRequest::Roots).await {
                    Ok(answer) => ToolResult::text(answer).into(),
                    Err(error) => ToolResult::error(error.to_string()).into(),
                },
                (_, "hang") => std::future::pending().await,
                (_, "crash") => {
                    eprintln!("the toy breaks");
                    std::process::exit(3)
                }
                (_, "fail") => Error::new(ErrorKind::RateLimited).into(),
                (_, name) => ToolResult::text(format!("{name} {}", request.arguments())).into(),
            }
        })
    }
}

/// The server, and handles to control it.
pub(crate) struct StreamServer {
    pub(crate) host: Arc<ServerContext>,
    pub(crate) shutdown: Shutdown,
    changes: broadcast::Sender<Notification>,
    under_way: Arc<AtomicUsize>,
    listens: Arc<AtomicUsize>,
}

impl StreamServer {
    pub(crate) fn new() -> StreamServer {
        let (changes, _) = broadcast::channel(64);
        let (under_way, listens) = (Arc::default(), Arc::default());
        let service = StreamService {
            changes: changes.clone(),
            under_way: Arc::clone(&under_way),
            listens: Arc::clone(&listens),
        };
        let host = Arc::new(ServerContext::new(
            Arc::new(ServerProtocol::new(Implementation::new("toy", "1"))),
            service,
        ));
        StreamServer { host, shutdown: Shutdown::new(), changes, under_way, listens }
    }

    /// An in-process connection: the client's end, and the server's task.
    pub(crate) fn pipe(
        &self,
    ) -> ((ReadHalf<DuplexStream>, WriteHalf<DuplexStream>), JoinHandle<()>) {
        in_memory::connect(self.host.clone(), RequestExtensions::new(), self.shutdown.clone())
    }

    pub(crate) async fn link(&self, options: ClientTransportOptions) -> Arc<dyn ClientTransport> {
        let ((reader, writer), _) = self.pipe();
        connect_stream((reader, writer), options).await.unwrap()
    }

    /// Publishes a change; completes when there is a subscriber.
    pub(crate) async fn change(&self, change: Notification) {
        until(|| self.listens.load(Ordering::SeqCst) > 0).await;
        let _ = self.changes.send(change);
    }

    pub(crate) async fn until_calls(&self, count: usize) {
        until(|| self.under_way.load(Ordering::SeqCst) == count).await;
    }

    pub(crate) async fn until_listens(&self, count: usize) {
        until(|| self.listens.load(Ordering::SeqCst) == count).await;
    }
}

/// Waits for the condition; fails after a generous timeout.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let waiting = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(Duration::from_secs(60), waiting).await.unwrap();
}

/// Options of a client that supports roots.
pub(crate) fn options() -> ClientTransportOptions {
    let capabilities: ClientCapabilities =
        serde_json::from_value(serde_json::json!({"roots": {"listChanged": true}})).unwrap();
    let info = Implementation::new("tester", "1");
    ClientTransportOptions::new(ClientIdentity { info, capabilities, ..ClientIdentity::default() })
}

pub(crate) fn pinned(date: &str) -> ClientTransportOptions {
    let mut options = options();
    options.revisions = wharf_wire::AllowedRevisions::One(date.parse().unwrap());
    options
}

/// Trace of a transport, one event per line: `>` sent, `<` received, `#` noted.
#[derive(Clone, Default)]
pub(crate) struct TraceLog(Arc<Mutex<Vec<String>>>);

impl TraceLog {
    pub(crate) fn on(options: &mut ClientTransportOptions) -> TraceLog {
        let trail = TraceLog::default();
        let lines = trail.0.clone();
        options.trace = Some(Arc::new(move |what: TraceEvent<'_>| {
            let line = match what {
                TraceEvent::Sent(message) => format!("> {}", String::from_utf8_lossy(message)),
                TraceEvent::Received(message) => format!("< {}", String::from_utf8_lossy(message)),
                TraceEvent::Note(note) => format!("# {note}"),
                other => format!("{other:?}"),
            };
            lines.lock().unwrap().push(line);
        }));
        trail
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, part: &str) -> usize {
        self.all().iter().filter(|line| line.contains(part)).count()
    }

    /// Completes when a line contains `part`.
    pub(crate) async fn until(&self, part: &str) {
        until(|| self.count(part) > 0).await;
    }
}

pub(crate) fn tool(name: &str) -> Request {
    let mut request = RequestBuilder::new(Method::CallTool).target(name).build();
    request.progress = true;
    request.log_level = Some(LogLevel::Debug);
    request.asks = InputMode::Deliver;
    request
}

pub(crate) fn listening(filter: SubscriptionFilter) -> Request {
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(LiveSubscriptionFilter::new(filter));
    request
}

/// A call, polled as its user would.
pub(crate) struct StreamCall(ActiveCall);

impl StreamCall {
    pub(crate) fn start(link: &Arc<dyn ClientTransport>, request: Request) -> StreamCall {
        let deadlines = match request.method {
            Method::Listen => Deadlines::NONE,
            _ => Deadlines::default().idle(Some(Duration::from_secs(60))),
        };
        StreamCall(
            ActiveCall::start(&**link, request, Arc::new(TokioTimer), deadlines).for_caller(),
        )
    }

    /// Next event. Server-to-client requests are answered with one root.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            let next = poll_fn(|cx| self.0.poll_event(cx));
            match timeout(Duration::from_secs(600), next).await.unwrap() {
                Event::ClientRequest(id, ClientRequest::Roots) => {
                    let roots = r#"{"roots":[{"uri":"file:///quay"}]}"#.to_owned();
                    self.0.response_sender().deliver(id, Ok(roots));
                }
                event => return event,
            }
        }
    }

    /// Next notification, abbreviated.
    pub(crate) async fn next_notification(&mut self) -> String {
        match self.next().await {
            Event::Notify(notification) => short(&notification),
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn end(mut self) -> (Vec<String>, Outcome) {
        let mut received = Vec::new();
        loop {
            match self.next().await {
                Event::Notify(notification) => received.push(short(&notification)),
                Event::Done(outcome) => return (received, outcome),
                _ => {}
            }
        }
    }
}

pub(crate) fn short(notification: &Notification) -> String {
    match notification {
        Notification::Progress { progress, .. } => format!("progress {progress}"),
        Notification::Log { data, .. } => format!("log {data}"),
        Notification::ResourceUpdated { uri } => format!("updated {uri}"),
        Notification::Acknowledged(filter) => serde_json::to_string(filter).unwrap(),
        other => format!("{other:?}"),
    }
}

/// Calls a tool and returns its outcome.
pub(crate) async fn call(
    link: &Arc<dyn ClientTransport>,
    request: Request,
) -> (Vec<String>, Outcome) {
    StreamCall::start(link, request).end().await
}

/// Text of a tool's result.
pub(crate) async fn call_text(
    link: &Arc<dyn ClientTransport>,
    name: &str,
) -> Result<String, Error> {
    let (_, outcome) = call(link, tool(name)).await;
    match outcome {
        Outcome::Complete(Reply::Tool(result)) => {
            Ok(serde_json::to_value(&result).unwrap()["content"][0]["text"]
                .as_str()
                .unwrap()
                .to_owned())
        }
        Outcome::Failed(error) => Err(*error),
        other => panic!("{other:?}"),
    }
}
