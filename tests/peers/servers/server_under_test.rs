//! Server under test, and the runner of its checks.

use std::sync::Arc;

use wharf::{
    Client, ProtocolVersion, ToolResult,
    client::{ClientBuilder, ClientHandler, Subscription, Target},
    model::{BoxFuture, Notification},
};

use crate::client_requests::RecordedRequests;
use crate::start::RunningServer;
use crate::trace::Trace;
use crate::{LIMIT, checks, everything, known_failures, resumption, skills, tasks};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Server {
    /// npm `@modelcontextprotocol/server`.
    TypeScript2,
    /// npm `@modelcontextprotocol/server` with skills, and nothing else.
    TypeScript2Skills,
    /// PyPI `mcp`.
    Python,
    /// PyPI `fastmcp`.
    FastMcp,
    /// The crate `rmcp`.
    Rmcp,
    /// npm `@modelcontextprotocol/server-everything`.
    Everything,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    Legacy,
    Modern,
}

impl Era {
    pub(crate) fn newest(self) -> &'static str {
        match self {
            Era::Legacy => "2025-11-25",
            Era::Modern => "2026-07-28",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TestTransport {
    Stdio,
    Http,
    /// HTTP+SSE of 2024-11-05.
    Sse,
    /// HTTP to a Wharf proxy, which connects to the server over stdio in the legacy era.
    ProxyToLegacy,
    /// HTTP to a Wharf proxy, which connects to the server over stdio in the modern era.
    ProxyToModern,
}

impl TestTransport {
    /// Era behind the proxy.
    fn behind(self) -> Option<Era> {
        match self {
            TestTransport::Stdio | TestTransport::Http | TestTransport::Sse => None,
            TestTransport::ProxyToLegacy => Some(Era::Legacy),
            TestTransport::ProxyToModern => Some(Era::Modern),
        }
    }
}

/// Check with its name.
pub(crate) type Check = (&'static str, fn(Arc<TestTarget>) -> BoxFuture<()>);

/// Running server with a connected client.
pub(crate) struct TestTarget {
    pub(crate) server: Server,
    pub(crate) era: Era,
    pub(crate) over: TestTransport,
    pub(crate) client: Client,
    pub(crate) asked: Arc<RecordedRequests>,
    trace: Trace,
    running: RunningServer,
}

impl TestTarget {
    /// Connects another client; a stdio server is started again.
    pub(crate) async fn connect_again(&self, revision: Option<&str>) -> wharf::Result<Client> {
        self.connect_to(self.running.target(), revision).await
    }

    pub(crate) async fn connect_to(
        &self,
        target: impl Into<Target>,
        revision: Option<&str>,
    ) -> wharf::Result<Client> {
        Ok(builder(&self.asked, &self.trace, revision)?.connect(target).await?)
    }

    /// URL of the server, if it has one.
    pub(crate) fn url(&self) -> String {
        self.running.target().to_string()
    }

    pub(crate) async fn call(&self, tool: &str, arguments: impl serde::Serialize) -> ToolResult {
        self.client.call(tool, arguments).await.unwrap()
    }

    /// Calls a tool that succeeds and returns its text.
    pub(crate) async fn text(&self, tool: &str, arguments: impl serde::Serialize) -> String {
        let result = self.call(tool, arguments).await;
        assert!(!result.is_error, "{result:?}");
        text(&result)
    }
}

/// First text of a result.
pub(crate) fn text(result: &ToolResult) -> String {
    result.content.iter().find_map(|item| item.as_text()).unwrap_or_default().to_owned()
}

/// Waits for the next change and returns its subject: a resource URI, or `tools`.
pub(crate) async fn next_change(changes: &mut Subscription) -> String {
    match changes.next().await.expect("it goes on").unwrap() {
        Notification::ToolsChanged => "tools".to_owned(),
        Notification::ResourceUpdated { uri } => uri.to_string(),
        other => panic!("{other:?}"),
    }
}

fn builder(
    asked: &Arc<RecordedRequests>,
    trace: &Trace,
    revision: Option<&str>,
) -> wharf::Result<ClientBuilder> {
    let trace = trace.clone();
    let mut builder = Client::builder()
        .name("wharf-peers", "1.0.0")
        .handler(asked.answers())
        .trace(move |traced| trace.see(&traced))
        .timeout(LIMIT)
        .total(LIMIT);
    if let Some(revision) = revision {
        builder = builder.protocol_version(revision.parse::<ProtocolVersion>()?);
    }
    Ok(builder)
}

/// Runs all checks of the server in sequence; fails if a check fails.
pub(crate) async fn run_checks(server: Server, era: Era, over: TestTransport) {
    let (asked, trace) = (Arc::new(RecordedRequests::default()), Trace::default());
    let running = match over.behind() {
        None => RunningServer::start(server, over).unwrap(),
        Some(behind) => {
            // The proxy announces the capabilities of its own client, since the proxy itself answers no server
            // requests.
            let can = asked.answers().capabilities();
            let back = Client::builder()
                .capabilities(can)
                .protocol_version(behind.newest().parse().unwrap());
            let server = RunningServer::start(server, TestTransport::Stdio).unwrap();
            RunningServer::behind(back.connect(server.target()).await.unwrap()).await.unwrap()
        }
    };
    let client = builder(&asked, &trace, Some(era.newest())).unwrap().connect(running.target());
    let client = tokio::time::timeout(LIMIT, client).await.expect("connects in time").unwrap();
    let target = Arc::new(TestTarget { server, era, over, client, asked, trace, running });
    let mut failed = Vec::new();
    for (name, check) in checks_of(server, era, over).into_iter().flatten() {
        target.trace.clear();
        let passed = run_check(check(target.clone())).await;
        match (passed, known_failures::find(&target, name)) {
            (true, None) => println!("ok {name}"),
            (false, Some(gap)) => println!("lacks {name}: {}", gap.why),
            (true, Some(gap)) => {
                failed.push(format!("{name} is said to lack ({}), but works", gap.why))
            }
            (false, None) => {
                println!("FAILED {name}");
                target.trace.print();
                failed.push((*name).to_owned());
            }
        }
    }
    target.client.close().await;
    assert!(failed.is_empty(), "{server:?} {era:?} over {over:?}: {failed:#?}");
}

fn checks_of(server: Server, era: Era, over: TestTransport) -> Vec<&'static [Check]> {
    if server == Server::TypeScript2Skills {
        return vec![skills::ALL];
    }
    let of_era = match (server, era) {
        (Server::Everything, _) => everything::ALL,
        (_, Era::Legacy) => checks::LEGACY,
        (_, Era::Modern) => checks::MODERN,
    };
    let of_all = if server == Server::Everything { &[] } else { checks::ALL };
    // Only over these transports do streams outlive their connections.
    let resumption =
        if (era, over) == (Era::Legacy, TestTransport::Http) { resumption::ALL } else { &[] };
    let tasks = if server == Server::Everything { tasks::ALL } else { &[] };
    vec![of_era, of_all, tasks, resumption]
}

/// Runs a check with a timeout; returns true if it passes. The reason of a failure is printed.
async fn run_check(check: BoxFuture<()>) -> bool {
    let mut task = tokio::spawn(check);
    let ended = tokio::time::timeout(LIMIT, &mut task).await;
    if ended.is_err() {
        println!("no end after {LIMIT:?}");
        task.abort();
    }
    matches!(ended, Ok(Ok(())))
}

/// List of checks, named after their functions.
macro_rules! list_checks {
    ($list:ident: $($name:ident)*) => {
        pub(crate) const $list: &[$crate::server_under_test::Check] =
            &[$((stringify!($name), |target| Box::pin(async move { $name(&target).await }))),*];
    };
}
pub(crate) use list_checks;
