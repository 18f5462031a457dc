//! Calls without a connection are observed like others: in process, through a proxy, as tasks and notifications.

use std::{
    future::pending,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::json;
use tokio::{sync::mpsc, time::timeout};
use wharf::{
    Client, Endpoint, Era, ToolResult, args,
    client::{ClientExtension, ClientHandlerBuilder},
    model::{ElicitResult, SubscriptionFilter},
    observe::{CallEnd, CallScope, CallStart, CallState, Observer},
    prelude::*,
    server::{CustomMethod, ProtocolExtension},
};

/// Timeout after which a test fails. No test measures a time.
const PATIENCE: Duration = Duration::from_secs(60);

/// Log of the calls, one line at the end of each: side, method, target, outcome.
#[derive(Clone, Default)]
struct CallLog(Arc<Mutex<Vec<String>>>);

impl CallLog {
    /// Returns the lines since the last call of this function, without the discovery of servers.
    fn take(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.0.lock().unwrap());
        lines.into_iter().filter(|line| !line.contains("server/discover")).collect()
    }

    /// Waits for a line.
    async fn line(&self, text: &str) -> String {
        let found = async {
            loop {
                let found = self.0.lock().unwrap().iter().find(|it| it.contains(text)).cloned();
                match found {
                    Some(line) => return line,
                    None => tokio::task::yield_now().await,
                }
            }
        };
        timeout(PATIENCE, found).await.expect("patience")
    }
}

struct CallLine(CallLog, String);

impl Observer for CallLog {
    fn call_started(&self, call: &CallStart<'_>) -> CallState {
        let known = if call.is_known_target() { "" } else { " unknown" };
        let (role, method) = (call.role(), call.method_name());
        let target = call.request().target();
        let line = format!("{role:?} {method} {target}{known}");
        CallState::Scope(Box::new(CallLine(self.clone(), line)))
    }
}

impl CallScope for CallLine {
    fn ended(&mut self, end: &CallEnd<'_>) {
        self.0.0.lock().unwrap().push(format!("{}: {}", self.1, end.name()));
    }
}

fn server() -> Server {
    let weather = Prompt::new("weather", async || "Will it rain?");
    let tides = ProtocolExtension::new("com.example/tides")
        .on_notification("tides/panic", async || -> () { panic!("a panic of the test") });
    Server::new("harbour", "1.0.0")
        .add(Tool::new("echo", async || "hello"))
        .add(Tool::new("broken", async || ToolResult::error("broken")))
        .add(weather)
        .add(CustomMethod::new("acme/report", async || Json(json!({}))))
        .extension(tides)
}

fn observed(server: Server) -> (Endpoint, CallLog) {
    let log = CallLog::default();
    (server.observe(log.clone()).build().unwrap(), log)
}

#[tokio::test]
async fn every_call_in_process_is_observed_by_both_sides() {
    let (endpoint, served) = observed(server());
    let made = CallLog::default();
    let tides = ClientExtension::new("com.example/tides").notification("tides/panic");
    let handler = ClientHandlerBuilder::new().extension(tides);
    let builder = Client::builder().observe(made.clone()).handler(handler);
    let client = builder.connect(&endpoint).await.unwrap();
    served.line("Server server/discover : complete").await;
    served.take();
    client.call("echo", ()).await.unwrap();
    client.tools().all().await.unwrap();
    client.request("tools/list", ()).await.unwrap();
    let result = client.request("tools/call", args! { name: "broken" }).await.unwrap();
    assert!(result.get().contains("\"isError\":true"), "{result}");
    client.request("acme/report", ()).await.unwrap();
    client.notify("tides/panic", json!({})).await.unwrap();
    let calls = [
        "tools/call echo: complete",
        "tools/list : complete",
        "tools/list : complete",
        "tools/call broken: tool_error",
        "acme/report acme/report: complete",
    ];
    assert_eq!(made.take(), calls.map(|call| format!("Client {call}")));
    let mut expected = calls.map(|call| format!("Server {call}")).to_vec();
    expected.push("Server tides/panic tides/panic: panicked".into());
    assert_eq!(served.take(), expected);
}

#[tokio::test]
async fn forwarded_calls_are_observed_by_every_side() {
    let (upstream, served) = observed(server());
    let forwarded = CallLog::default();
    let upstream = Client::builder().observe(forwarded.clone()).connect(&upstream).await.unwrap();
    let (proxy, proxied) = observed(upstream.into());
    let client = Client::connect(&proxy).await.unwrap();
    proxied.take();
    served.take();
    // A name is reported once a list or a result has contained it.
    for known in [" unknown", ""] {
        client.call("echo", ()).await.unwrap();
        client.prompt("weather", ()).await.unwrap();
        let end =
            ["tools/call echo", "prompts/get weather"].map(|it| format!("{it}{known}: complete"));
        assert_eq!(proxied.take(), end.each_ref().map(|end| format!("Server {end}")));
        assert_eq!(forwarded.take(), end.each_ref().map(|end| format!("Client {end}")));
        let upstream = ["Server tools/call echo: complete", "Server prompts/get weather: complete"];
        assert_eq!(served.take(), upstream);
        client.tools().no_cache().all().await.unwrap();
        client.prompts().no_cache().all().await.unwrap();
        let lists = ["tools/list : complete", "prompts/list : complete"];
        assert_eq!(proxied.take(), lists.map(|list| format!("Server {list}")));
        assert_eq!(forwarded.take(), lists.map(|list| format!("Client {list}")));
        assert_eq!(served.take(), lists.map(|list| format!("Server {list}")));
    }
    client.call("invented", ()).await.unwrap_err();
    assert_eq!(proxied.take(), ["Server tools/call invented unknown: tool_not_found"]);
}

#[tokio::test]
async fn a_request_to_the_client_is_observed_by_the_server_that_sends_it() {
    let ask = Tool::new("ask", async |ctx: Ctx| {
        let form = json!({"type": "object", "properties": {"sure": {"type": "boolean"}}});
        ctx.ask_form("sure", "Sure?", form).await.map(|_| "asked")
    });
    let (endpoint, served) = observed(server().add(ask));
    let listener = Endpoint::listen_tcp("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let serving = endpoint.clone();
    tokio::spawn(async move { serving.serve_listener(listener).await });
    // The newest version has no requests of the server: the result of the call has the question.
    for (era, expected) in [
        (
            Era::Legacy,
            &["Client elicitation/create : complete", "Server tools/call ask: complete"][..],
        ),
        (
            Era::Modern,
            &["Server tools/call ask: input_required", "Server tools/call ask: complete"],
        ),
    ] {
        let handler = ClientHandlerBuilder::new()
            .elicit(async |_| Ok(ElicitResult::accept(json!({"sure": true}))));
        let builder = Client::builder().handler(handler).era(era);
        let client = builder.connect(url.as_str()).await.unwrap();
        client.call("ask", ()).await.unwrap();
        served.line("Server tools/call ask: complete").await;
        let lines = served.take();
        let lines: Vec<_> = lines.iter().filter(|line| line.contains("/c")).collect();
        assert_eq!(lines, expected, "{era:?}");
    }
    endpoint.shutdown();
}

#[tokio::test]
async fn a_subscription_that_the_server_ends_is_complete() {
    let (endpoint, served) = observed(server());
    let client = Client::builder().era(Era::Modern).connect(&endpoint).await.unwrap();
    let filter = SubscriptionFilter::default().tools(true);
    let mut subscription = client.listen(filter).await.unwrap();
    endpoint.shutdown();
    while timeout(PATIENCE, subscription.next()).await.expect("patience").is_some() {}
    assert_eq!(served.line("subscriptions/listen").await, "Server subscriptions/listen : complete");
}

#[tokio::test]
async fn the_run_of_a_task_is_observed_apart_from_its_call() {
    /// Counts the ships.
    #[tool(task)]
    async fn count() -> u32 {
        3
    }
    let (endpoint, served) = observed(Server::new("harbour", "1.0.0").tool::<count>());
    let task = endpoint.spawn_task("count", json!({})).await.unwrap();
    task.wait().await.unwrap();
    assert_eq!(served.line("tools/call count").await, "Task tools/call count: complete");
}

/// Reports when it is dropped.
struct Dropped(mpsc::UnboundedSender<()>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send(());
    }
}

#[tokio::test(start_paused = true)]
async fn the_handler_of_a_notification_ends_with_its_client() {
    for era in [Era::Modern, Era::Legacy] {
        let (started, mut has_started) = mpsc::unbounded_channel();
        let (ended, mut has_ended) = mpsc::unbounded_channel();
        let wait = move || {
            let (started, guard) = (started.clone(), Dropped(ended.clone()));
            async move {
                let _guard = guard;
                started.send(()).unwrap();
                pending::<()>().await;
            }
        };
        let tides = ProtocolExtension::new("com.example/tides").on_notification("tides/wait", wait);
        let endpoint = Server::new("harbour", "1.0.0").extension(tides).build().unwrap();
        let tides = ClientExtension::new("com.example/tides").notification("tides/wait");
        let handler = ClientHandlerBuilder::new().extension(tides);
        let client = Client::builder().era(era).handler(handler).connect(&endpoint).await.unwrap();
        client.notify("tides/wait", json!({})).await.unwrap();
        has_started.recv().await.unwrap();
        assert!(has_ended.is_empty());
        client.close().await;
        drop(client);
        timeout(PATIENCE, has_ended.recv()).await.expect("patience").unwrap();
    }
}
