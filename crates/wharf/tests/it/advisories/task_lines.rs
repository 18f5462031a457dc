//! Each failure of a task has exactly one line with its error and the ids of its call, and each change of a task, of the
//! cluster's stores and of an upstream server has one.
//!
//! Each test is a process of its own, as in [`log_lines`](crate::advisories::log_lines).

use std::{future::pending, time::Duration};

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::sleep,
};
use tracing::Level;
use wharf::{
    Client, Ctx, Endpoint, Principal, Server, Tool, ToolResult,
    http::Http,
    observe::{CurrentTrace, Metrics, MetricsFormat, TraceContext, hashed_id},
    server::KeyRing,
    store::memory_stores,
    tasks::TaskMode,
};
use wharf_testbed::{LogCatcher, cluster_stores::ClusterStores};

use crate::{advisories::log_lines::assert_one, upstream_program};

fn server(metrics: &Metrics) -> Server {
    let task = |tool: Tool| tool.task(TaskMode::optional());
    Server::new("tasks", "1.0.0")
        .store(memory_stores())
        .observe(metrics.clone())
        .add(task(Tool::new("fail", async || ToolResult::error("no wind"))))
        .add(task(Tool::new("crash", async || -> String { panic!("a broken mast") })))
        .add(task(
            Tool::new("slow", async || pending::<String>().await)
                .timeout(Duration::from_millis(20)),
        ))
        .add(task(Tool::new("steps", async |ctx: Ctx| {
            ctx.step("anchor", async { 1 }).await;
            "done"
        })))
}

#[tokio::test(flavor = "multi_thread")]
async fn each_failed_task_has_one_line_with_its_error_and_ids() {
    let metrics = Metrics::new();
    let endpoint = server(&metrics).build().unwrap();
    let log = LogCatcher::on_all_threads(Level::INFO);
    let cases = [
        ("fail", "no wind", "tool_error", "tool_error"),
        ("crash", "a broken mast", "panicked", "panic"),
        ("slow", "name=\"slow\"", "timeout", "timeout"),
    ];
    for (tool, text, outcome, error_type) in cases {
        let trace = TraceContext::root(7, true);
        let trace_id = format!("trace_id=\"{:032x}\"", trace.trace_id());
        let spawned = endpoint.spawn_task_for(Principal::new("alice"), tool, json!({}));
        let task = CurrentTrace::Context(trace).scope(spawned).await.unwrap();
        assert!(task.wait().await.unwrap().is_error);
        let id = format!("task=\"{}\"", hashed_id(task.id()));
        let (principal, outcome) = ("principal=\"alice\"", format!("outcome=\"{outcome}\""));
        let ids = [text, &id, &trace_id, principal, &outcome, "method=\"task\"", "call finished"];
        assert_one(&log, &ids).await;
        let named: Vec<_> = log.lines().into_iter().filter(|it| it.contains(text)).collect();
        assert_eq!(named.len(), 1, "{named:#?}");
        let error = format!("error_type=\"{error_type}\"");
        let ended = ["ended a task", "state=\"completed\"", &error, &id, &trace_id, principal];
        assert_one(&log, &ended).await;
        let series =
            format!("wharf_tasks_ended_total{{state=\"completed\",error_type=\"{error_type}\"}} 1");
        let text = metrics.render(MetricsFormat::Prometheus);
        assert!(text.lines().any(|line| line == series), "{text}");
        assert!(log.lines().iter().all(|line| !line.contains(task.id())), "{:#?}", log.lines());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_a_task_has_one_line() {
    let endpoint = server(&Metrics::new()).build().unwrap();
    let log = LogCatcher::on_all_threads(Level::DEBUG);
    let task = endpoint.spawn_task("steps", json!({})).await.unwrap();
    assert!(!task.wait().await.unwrap().is_error);
    let id = format!("task=\"{}\"", hashed_id(task.id()));
    for change in ["created a task", "started a task", "recorded a step of a task", "ended a task"]
    {
        assert_one(&log, &[change, &id, "tool=\"steps\""]).await;
    }
    assert_one(&log, &["step=\"anchor#1\"", &id]).await;
    let runs: Vec<_> =
        log.lines().into_iter().filter(|it| it.contains("method=\"task\"")).collect();
    assert!(runs.is_empty(), "a task that did not fail has no other line: {runs:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_server_that_is_connected_and_lost_has_one_line_each() {
    let upstream = Server::new("upstream", "1.0.0").build().unwrap();
    let listener = Endpoint::listen_tcp("127.0.0.1:0").await.unwrap();
    let url = format!("tcp://{}", listener.local_addr().unwrap());
    let serving = upstream.clone();
    tokio::spawn(async move { serving.serve_listener(listener).await });
    let client = Client::connect(url.as_str()).await.unwrap();
    let log = LogCatcher::on_all_threads(Level::INFO);
    let _proxy = Server::from(client).build().unwrap();
    let name = format!("upstream=\"{url}\"");
    assert_one(&log, &["connected to the upstream server", &name]).await;
    upstream.shutdown();
    assert_one(&log, &["lost the upstream server", &name]).await;
}

/// Server on stores that several processes share.
fn clustered(stores: &ClusterStores) -> Server {
    let key: KeyRing = "11".repeat(32).parse().unwrap();
    Server::new("cluster", "1.0.0").store(stores.stores()).state_cipher(key)
}

#[tokio::test(start_paused = true)]
async fn a_lost_lease_and_a_takeover_have_one_line_each() {
    let stores = ClusterStores::new();
    let voyage = Tool::new("voyage", async || {
        sleep(Duration::from_secs(100)).await;
        "home"
    });
    let endpoint = clustered(&stores).add(voyage.task(TaskMode::optional())).build().unwrap();
    let log = LogCatcher::on_all_threads(Level::INFO);
    let task = endpoint.spawn_task("voyage", json!({})).await.unwrap();
    let id = format!("task=\"{}\"", hashed_id(task.id()));
    sleep(Duration::from_secs(1)).await;
    stores.away(true);
    // Longer than the lease.
    sleep(Duration::from_secs(60)).await;
    assert_one(&log, &["stopped a task, its lease could not be renewed", &id]).await;
    stores.away(false);
    assert!(!task.wait().await.unwrap().is_error);
    assert_one(&log, &["took over a task", &id, "tool=\"voyage\""]).await;
    assert_one(&log, &["stopped a task, its lease could not be renewed"]).await;
    assert_one(&log, &["lost the store"]).await;
    assert_one(&log, &["ended a task", "state=\"completed\"", &id]).await;
}

#[tokio::test(start_paused = true)]
async fn a_heartbeat_of_a_cluster_that_times_out_or_fails_has_one_line() {
    let stores = ClusterStores::new();
    let endpoint = clustered(&stores).http(Http::new().health()).build().unwrap();
    let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
    let serving = endpoint.clone();
    let mut probe = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
    tokio::spawn(async move { serving.serve_http_on(listener).await });
    // The first probe starts the heartbeat.
    probe
        .write_all(b"GET /ready HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
        .await
        .unwrap();
    probe.read_to_end(&mut Vec::new()).await.unwrap();
    let log = LogCatcher::on_all_threads(Level::INFO);
    sleep(Duration::from_secs(10)).await;
    let errors = || -> Vec<String> {
        log.lines().into_iter().filter(|line| !line.contains("message=listening")).collect()
    };
    assert_eq!(errors(), [""; 0]);
    stores.hang(true);
    sleep(Duration::from_secs(60)).await;
    assert_one(&log, &["cannot reach the stores of the cluster: heartbeat timed out"]).await;
    stores.hang(false);
    sleep(Duration::from_secs(60)).await;
    assert_one(&log, &["reached the stores of the cluster again"]).await;
    assert_eq!(errors().len(), 2, "{:#?}", errors());
    // An error of the store has the store's line, and none of the heartbeat.
    stores.away(true);
    sleep(Duration::from_secs(60)).await;
    assert_one(&log, &["lost the store"]).await;
    stores.away(false);
    sleep(Duration::from_secs(60)).await;
    assert_one(&log, &["recovered the store"]).await;
    assert_eq!(errors().len(), 4, "{:#?}", errors());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upstream_program_that_is_lost_restarted_and_closed_has_one_line_each() {
    let client = Client::connect(upstream_program::command()).await.unwrap();
    let log = LogCatcher::on_all_threads(Level::DEBUG);
    let _proxy = Server::from(client.clone()).build().unwrap();
    upstream_program::restart(&client).await;
    assert_one(&log, &["lost the upstream server"]).await;
    assert_one(&log, &["restarting the upstream server"]).await;
    assert_eq!(
        log.lines().iter().filter(|it| it.contains("connected to the upstream server")).count(),
        2,
        "at the start, and after the restart: {:#?}",
        log.lines()
    );
    client.close().await;
    assert_one(&log, &["closed the upstream client"]).await;
    assert_one(&log, &["lost the upstream server"]).await;
}
