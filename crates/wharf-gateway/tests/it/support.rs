//! Upstream servers that can be made unreachable, and requests to a gateway.

use std::{
    future::{pending, ready},
    sync::{
        Arc, Weak,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::value::RawValue;
use wharf_client::{
    CallError, CallOptions, ClientHandle, ClientHandlerBuilder, ClientTransport, ConnectError,
    ControlRequest, NotificationListener, ServerInfo, local,
};
use wharf_gateway::{Gateway, UpstreamConnector};
use wharf_model::{
    ActiveCall, BoxFuture, Deadlines, Discovery, Error, Implementation, Lock, Method, Outbox,
    Outcome, Reply, Request, RequestBuilder, RequestExtensions, Service, ToolResult,
};
use wharf_server::{Router, Tool};
use wharf_testbed::TokioTimer;

/// Condition of an upstream server.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) enum Health {
    #[default]
    Up,
    /// Connections and calls fail.
    Down,
    /// Tool calls fail, everything else works.
    ToolsCrash,
    /// Nothing is answered.
    Hangs,
}

/// Upstream server in this process.
#[derive(Clone)]
pub(crate) struct TestServer(Arc<TestState>);

struct TestState {
    router: Router,
    health: Lock<Health>,
    connections: AtomicUsize,
    lists: AtomicUsize,
    /// Resources of the newest subscription.
    subscribed: Lock<Vec<String>>,
    /// Runs once, after the answer to the next `tools/list`.
    on_list: Lock<Option<OnList>>,
}

type OnList = Box<dyn FnOnce(&TestServer) + Send>;

impl TestServer {
    pub(crate) fn new(router: Router) -> Self {
        let (health, connections, lists, subscribed, on_list) = Default::default();
        let state = TestState { router, health, connections, lists, subscribed, on_list };
        TestServer(Arc::new(state))
    }

    /// A server with tools of these names, which return `SERVER NAME`.
    pub(crate) fn with_tools(server: &'static str, names: &[&'static str]) -> Self {
        let tool = |name: &&'static str| {
            let name = *name;
            Tool::new(name, move || async move { format!("{server} {name}") })
        };
        let builder = names.iter().map(tool).fold(Router::builder(), |it, tool| it.add(tool));
        TestServer::new(builder.build().unwrap())
    }

    pub(crate) fn set(&self, health: Health) {
        *self.0.health.lock() = health;
    }

    pub(crate) fn router(&self) -> &Router {
        &self.0.router
    }

    pub(crate) fn connections(&self) -> usize {
        self.0.connections.load(Ordering::Relaxed)
    }

    /// Number of `tools/list` requests.
    pub(crate) fn lists(&self) -> usize {
        self.0.lists.load(Ordering::Relaxed)
    }

    /// Returns the resources of the newest subscription.
    pub(crate) fn subscribed(&self) -> Vec<String> {
        self.0.subscribed.lock().clone()
    }

    pub(crate) fn on_list(&self, run: impl FnOnce(&TestServer) + Send + 'static) {
        *self.0.on_list.lock() = Some(Box::new(run));
    }

    async fn connect(self) -> Result<ClientHandle, ConnectError> {
        self.0.connections.fetch_add(1, Ordering::Relaxed);
        let health = *self.0.health.lock();
        match health {
            Health::Down => return Err(ConnectError::of_outcome(unreachable_server())),
            Health::Hangs => {}
            _ => return Ok(self.open().await),
        }
        pending().await
    }

    async fn open(&self) -> ClientHandle {
        let info = Implementation::new("test", "1.0.0");
        let inner = local(Arc::new(self.0.router.clone()), info).await.unwrap();
        let transport = Arc::new(TestTransport { inner, server: self.clone() });
        let handler = Arc::new(ClientHandlerBuilder::new());
        ClientHandle::new(transport, Arc::new(TokioTimer), CallOptions::default(), handler)
    }
}

impl From<&TestServer> for UpstreamConnector {
    fn from(server: &TestServer) -> Self {
        let server = server.clone();
        UpstreamConnector::new(move || server.clone().connect())
    }
}

fn unreachable_server() -> Error {
    let source = std::io::Error::other("secret-host:1234 refused");
    CallError::transport("http://secret-host:1234 is unreachable", false, source)
        .into_outcome_error()
}

struct TestTransport {
    inner: Arc<dyn ClientTransport>,
    server: TestServer,
}

impl Service for TestTransport {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let state = &self.server.0;
        if let Some(filter) = &request.filter {
            *state.subscribed.lock() = filter.read(|it| it.uris.iter().cloned().collect());
        }
        if request.method == Method::ListTools {
            state.lists.fetch_add(1, Ordering::Relaxed);
        }
        match *state.health.lock() {
            Health::Down => Box::pin(ready(unreachable_server().into())),
            Health::ToolsCrash if request.method == Method::CallTool => {
                Box::pin(ready(unreachable_server().into()))
            }
            Health::Hangs => Box::pin(pending()),
            _ => {
                let is_list = request.method == Method::ListTools;
                let (call, server) = (self.inner.call(request, outbox), self.server.clone());
                Box::pin(async move {
                    let outcome = call.await;
                    let run = is_list.then(|| server.0.on_list.lock().take()).flatten();
                    if let Some(run) = run {
                        run(&server);
                    }
                    outcome
                })
            }
        }
    }
}

impl ClientTransport for TestTransport {
    fn about(&self) -> Arc<ServerInfo> {
        self.inner.about()
    }

    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>> {
        self.inner.request(method, params, outbox)
    }

    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>> {
        self.inner.run(control)
    }

    fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
        self.inner.add_listener(listener);
    }

    fn scope(&self) -> RequestExtensions {
        self.inner.scope()
    }

    fn close(&self) -> BoxFuture<()> {
        self.inner.close()
    }
}

/// Sends a request to the gateway, as a client that answers no requests.
pub(crate) async fn send(gateway: &Gateway, request: RequestBuilder) -> Outcome {
    let (request, timer) = (request.build(), Arc::new(TokioTimer));
    ActiveCall::start(gateway, request, timer, Deadlines::default()).run_alone().await
}

/// Returns the JSON of the result; panics on an error.
pub(crate) async fn result(gateway: &Gateway, request: RequestBuilder) -> serde_json::Value {
    match send(gateway, request).await {
        Outcome::Complete(reply) => reply.to_json().unwrap().unwrap(),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn error(gateway: &Gateway, request: RequestBuilder) -> Error {
    match send(gateway, request).await {
        Outcome::Failed(error) => *error,
        other => panic!("{other:?}"),
    }
}

/// Returns one member of all items of a list.
pub(crate) async fn list(gateway: &Gateway, method: Method, list: &str, key: &str) -> Vec<String> {
    let found = result(gateway, RequestBuilder::new(method)).await;
    let items = found[list].as_array().unwrap();
    items.iter().map(|it| it[key].as_str().unwrap().to_owned()).collect()
}

pub(crate) async fn tools(gateway: &Gateway) -> Vec<String> {
    list(gateway, Method::ListTools, "tools", "name").await
}

pub(crate) async fn discover(gateway: &Gateway) -> Discovery {
    match send(gateway, RequestBuilder::new(Method::Discover)).await {
        Outcome::Complete(Reply::Discover(discovery)) => *discovery,
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn call(gateway: &Gateway, tool: &str) -> ToolResult {
    match send(gateway, RequestBuilder::new(Method::CallTool).target(tool)).await {
        Outcome::Complete(Reply::Tool(result)) => result,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

/// Lets this time pass for everything that runs.
pub(crate) async fn pass(time: Duration) {
    tokio::time::sleep(time).await;
    // Tasks that became ready at the same moment run before the test goes on.
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}
