//! Tasks of a real server, polled by Wharf's client over real transports: in every era with tasks, in one without, and
//! through a proxy.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tokio::time::{sleep, timeout};
use wharf::{
    Client, Ctx, Endpoint, ErrorKind, Server, Tool, ToolError, ToolResult,
    client::{ClientBuilder, ClientHandlerBuilder, Target},
    model::ElicitResult,
    tasks::{TaskMode, TaskOptions, TaskState, TaskStatus},
};

/// Timeout after which a test fails. No test measures a time.
const PATIENCE: Duration = Duration::from_secs(60);

const OLD: &str = "2025-06-18";
const LEGACY: &str = "2025-11-25";
const MODERN: &str = "2026-07-28";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Route {
    Memory,
    Http,
    WebSocket,
    /// Through a proxy, which uses this revision with the server.
    Proxy(&'static str),
}

const ROUTES: [Route; 5] =
    [Route::Memory, Route::Http, Route::WebSocket, Route::Proxy(LEGACY), Route::Proxy(MODERN)];

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Confirm {
    confirmed: bool,
}

async fn deploy(ctx: Ctx) -> Result<String, ToolError> {
    let answer: Confirm = ctx.ask("confirm", "Deploy?").await?;
    Ok(if answer.confirmed { "deployed" } else { "kept" }.to_owned())
}

/// Reports progress until the client has received it.
async fn report_progress(ctx: Ctx, heard: Arc<AtomicBool>) -> &'static str {
    let mut far = 0.0;
    while !heard.swap(false, Ordering::SeqCst) {
        far += 1.0;
        ctx.progress(far).await;
        sleep(Duration::from_millis(20)).await;
    }
    "heard"
}

/// Counts running calls.
struct RunningGuard(Arc<AtomicUsize>);

impl Drop for RunningGuard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Server, route to it, and the number of its endless calls that run.
struct Harness {
    route: Route,
    revision: &'static str,
    endpoint: Endpoint,
    target: Target,
    at_work: Arc<AtomicUsize>,
    /// True once the client has received progress of the reporting tool.
    heard: Arc<AtomicBool>,
}

impl Harness {
    async fn start(route: Route, revision: &'static str) -> Harness {
        let at_work = Arc::new(AtomicUsize::new(0));
        let count = at_work.clone();
        let slow = async || {
            sleep(Duration::from_millis(100)).await;
            "done"
        };
        let forever = move || {
            count.fetch_add(1, Ordering::SeqCst);
            let here = RunningGuard(count.clone());
            async move {
                let _here = here;
                std::future::pending::<()>().await;
            }
        };
        let heard = Arc::new(AtomicBool::new(false));
        let told = heard.clone();
        let tells = move |ctx: Ctx| report_progress(ctx, told.clone());
        let fail = async || Err::<(), _>(ToolError::new("no wind"));
        let endpoint = Server::new("harbour", "1.0.0")
            .add(Tool::new("slow", slow).task(TaskMode::optional()))
            .add(Tool::new("deploy", deploy).task(TaskMode::optional()))
            .add(Tool::new("only", slow).task(TaskMode::required()))
            .add(Tool::new("forever", forever).task(TaskMode::required()))
            .add(Tool::new("fail", fail).task(TaskMode::required()))
            .add(Tool::new("tells", tells).task(TaskMode::required()))
            .tasks(TaskOptions::default().progress_interval(Duration::from_millis(10)))
            .build()
            .unwrap();
        let address = serve(&endpoint).await;
        let target = match route {
            Route::Memory => Target::from(&endpoint),
            Route::Http => format!("http://{address}/mcp").into(),
            Route::WebSocket => format!("ws://{address}/mcp").into(),
            Route::Proxy(back) => {
                let builder =
                    Client::builder().handler(yes()).protocol_version(back.parse().unwrap());
                let back = builder.connect(format!("http://{address}/mcp")).await.unwrap();
                let proxy = Server::from(back).build().unwrap();
                format!("http://{}/mcp", serve(&proxy).await).into()
            }
        };
        Harness { route, revision, endpoint, target, at_work, heard }
    }

    async fn client(&self) -> Client {
        self.connect(Client::builder().handler(yes())).await
    }

    async fn connect(&self, mut builder: ClientBuilder) -> Client {
        if self.route == Route::Memory {
            // A progress listener makes the client request progress.
            builder = builder.trace(|_| ());
        }
        let builder = builder.protocol_version(self.revision.parse().unwrap());
        in_time(builder.connect(self.target.clone())).await.unwrap()
    }

    /// Returns true if the client can use the server's tasks: a proxy forwards them only to clients with the same tasks
    /// dialect.
    fn has_tasks(&self) -> bool {
        match self.route {
            Route::Proxy(back) => back == self.revision,
            _ => self.revision != OLD,
        }
    }
}

async fn serve(endpoint: &Endpoint) -> String {
    let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let endpoint = endpoint.clone();
    tokio::spawn(async move { endpoint.serve_http_on(listener).await });
    address
}

fn yes() -> ClientHandlerBuilder {
    ClientHandlerBuilder::new()
        .elicit(async |_| Ok(ElicitResult::accept(json!({"confirmed": true}))))
}

async fn in_time<T>(future: impl IntoFuture<Output = T>) -> T {
    timeout(PATIENCE, future.into_future()).await.expect("patience")
}

fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

async fn everywhere(revisions: &[&'static str], test: impl AsyncFn(&Harness)) {
    for revision in revisions {
        for route in ROUTES {
            println!("{route:?} {revision}");
            test(&Harness::start(route, revision).await).await;
        }
    }
}

#[tokio::test]
async fn a_call_gives_the_result_whatever_became_of_it() {
    everywhere(&[OLD, LEGACY, MODERN], async |harness| {
        let client = harness.client().await;
        assert_eq!(text(&in_time(client.call("slow", ())).await.unwrap()), "done");
        assert_eq!(text(&in_time(client.call("only", ())).await.unwrap()), "done");
        assert_eq!(text(&in_time(client.call("deploy", ())).await.unwrap()), "deployed");
        let failed = in_time(client.call("fail", ())).await.unwrap();
        assert!(failed.is_error && text(&failed).contains("no wind"), "{failed:?}");
    })
    .await;
}

#[tokio::test]
async fn progress_goes_on_under_the_token_of_the_call() {
    everywhere(&[OLD, LEGACY, MODERN], async |harness| {
        // A server that reports progress only by the status of the task sends no numbers.
        let server = if let Route::Proxy(back) = harness.route { back } else { harness.revision };
        if server == MODERN {
            return;
        }
        let client = harness.client().await;
        let hear = || {
            let heard = harness.heard.clone();
            move |_| heard.store(true, Ordering::SeqCst)
        };
        let called = in_time(client.call("tells", ()).on_progress(hear())).await.unwrap();
        assert_eq!(text(&called), "heard");
        if harness.has_tasks() {
            let task = in_time(client.call_task("tells", ())).await.unwrap();
            let result = in_time(task.wait().on_progress(hear())).await.unwrap();
            assert_eq!(text(&result), "heard");
        }
    })
    .await;
}

#[tokio::test]
async fn task_support_is_declared_in_the_dialect_of_the_server() {
    everywhere(&[OLD, LEGACY, MODERN], async |harness| {
        let client = harness.client().await;
        let can = client.about().discovery.capabilities.clone();
        assert_eq!(can.tasks.is_some(), harness.has_tasks() && harness.revision == LEGACY);
        let extension = can.extensions.contains_key("io.modelcontextprotocol/tasks");
        assert_eq!(extension, harness.has_tasks() && harness.revision == MODERN);
    })
    .await;
}

#[tokio::test]
async fn a_handle_leads_back_to_the_task() {
    everywhere(&[OLD, LEGACY, MODERN], async |harness| {
        let client = harness.client().await;
        let task = in_time(client.call_task("deploy", ())).await.unwrap();
        assert_eq!(task.id().is_some(), harness.has_tasks());
        let Some(id) = task.id() else {
            assert_eq!(text(&in_time(task.wait()).await.unwrap()), "deployed");
            return;
        };
        client.close().await;
        let task = harness.client().await.task(id);
        assert_eq!(text(&in_time(task.wait()).await.unwrap()), "deployed");
        let TaskState::Completed(result) = in_time(task.get()).await.unwrap().state else {
            panic!("it is over")
        };
        assert_eq!(text(&result), "deployed");
    })
    .await;
}

#[tokio::test]
async fn a_call_that_is_dropped_ends_at_the_server() {
    everywhere(&[OLD, LEGACY, MODERN], async |harness| {
        let client = harness.client().await;
        let call = tokio::spawn(client.call("forever", ()).into_future());
        in_time(async {
            while harness.at_work.load(Ordering::SeqCst) == 0 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
        // Long enough for the client to receive the id of the task.
        sleep(Duration::from_millis(100)).await;
        call.abort();
        in_time(async {
            while harness.at_work.load(Ordering::SeqCst) > 0 {
                sleep(Duration::from_millis(5)).await;
            }
        })
        .await;
    })
    .await;
}

#[tokio::test]
async fn a_task_is_cancelled_by_its_handle() {
    everywhere(&[LEGACY, MODERN], async |harness| {
        if !harness.has_tasks() {
            return;
        }
        let client = harness.client().await;
        let task = in_time(client.call_task("forever", ())).await.unwrap();
        assert_eq!(in_time(task.get()).await.unwrap().status(), TaskStatus::Working);
        in_time(task.cancel()).await.unwrap();
        let error = in_time(task.wait()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TaskCancelled, "{error}");
        assert_eq!(in_time(task.get()).await.unwrap().state, TaskState::Cancelled);
    })
    .await;
}

#[tokio::test]
async fn an_unknown_task_id_is_not_found() {
    everywhere(&[LEGACY, MODERN], async |harness| {
        if !harness.has_tasks() {
            return;
        }
        let client = harness.client().await;
        let error = in_time(client.task("0123456789abcdef").get()).await.unwrap_err();
        let is_known = matches!(error.kind(), ErrorKind::TaskNotFound | ErrorKind::InvalidParams);
        assert!(is_known, "{error:?}");
        // Unauthenticated callers cannot list tasks, because they cannot be distinguished.
        let error = in_time(client.tasks()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CapabilityNotSupported, "{error}");
    })
    .await;
}

#[tokio::test]
async fn a_task_outlives_the_connection_of_its_waiting_client() {
    for revision in [LEGACY, MODERN] {
        let harness = Harness::start(Route::Http, revision).await;
        let client = harness.client().await;
        let task = in_time(client.call_task("deploy", ())).await.unwrap();
        let waiting = tokio::spawn(task.wait().into_future());
        waiting.abort();
        drop(harness.endpoint.registry());
        assert_eq!(text(&in_time(task.wait()).await.unwrap()), "deployed");
    }
}
