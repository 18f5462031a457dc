//! A full task store: calls are rejected, the log stays short, and the server recovers when there
//! is room.

use std::sync::Arc;

use crate::task_support::*;
use serde_json::json;
use tokio::sync::Semaphore;
use tracing::Level;
use wharf_model::{Error, Method, Outcome, Record, RequestBuilder, Stores};
use wharf_server::{MemoryRecords, RawArgs, Router, TaskMode, Tool, memory_stores};
use wharf_testbed::LogCatcher;

/// A server whose tasks keep their arguments in the store until they get a permit to end.
fn server(stores: &Stores, gate: &Arc<Semaphore>) -> TestClient {
    let gate = gate.clone();
    let length = move |RawArgs(json): RawArgs| {
        let gate = gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            json.get().len().to_string()
        }
    };
    let tool = Tool::new("length", length).task(TaskMode::optional());
    let plain = Tool::new("plain", async || "plain");
    let router = Router::builder().store(stores.clone()).add(tool).add(plain);
    client(&router.build().unwrap())
}

fn sized(bytes: usize) -> RequestBuilder {
    call("length").arguments(&json!({"marker": "x".repeat(bytes)}).to_string())
}

/// Sends calls until one is rejected, and then 60 more.
async fn refusals(client: &TestClient, bytes: usize) -> Vec<Error> {
    let mut refused = Vec::new();
    for _ in 0..200 {
        match client.send(sized(bytes)).await {
            Outcome::Task(_) => assert!(refused.is_empty(), "a task was created in a full store"),
            other => refused.push(error(other)),
        }
        if refused.len() > 60 {
            return refused;
        }
    }
    panic!("the store is never full");
}

fn check(refused: &[Error], log: &LogCatcher) {
    for error in refused {
        assert!(error.kind.is_overloaded(), "{error:?}");
        assert!(error.message.contains("full"), "{}", error.message);
        assert!(error.data.as_ref().unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
    }
    let lines = log.lines();
    assert_eq!(lines.len(), 1, "{lines:#?}");
    assert!(lines[0].contains("full"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_is_logged_once_in_a_while() {
    let log = LogCatcher::on_all_threads(Level::WARN);
    let tasks = Arc::new(MemoryRecords::new(3, 1024 * 1024));
    let stores = memory_stores().tasks(tasks);
    let client = server(&stores, &Arc::new(Semaphore::new(0)));
    check(&refusals(&client, 10).await, &log);
}

#[tokio::test]
async fn a_full_disk_rejects_tasks_until_there_is_room() {
    let log = LogCatcher::on_all_threads(Level::WARN);
    let file = std::env::temp_dir().join(format!("wharf-full-{}.db", std::process::id()));
    // A file that may not grow fails like one on a full disk, on every system.
    let url = format!("sqlite:{}?max_bytes=600000&synchronous=normal", file.display());
    let stores = wharf_store::open(&url).await.unwrap();
    let filler = Record::new("filler").owner("filler").body(vec![b'x'; 300_000]);
    assert!(stores.tasks.insert(filler, 1).await.unwrap());
    let gate = Arc::new(Semaphore::new(0));
    let client = server(&stores, &gate);
    check(&refusals(&client, 100_000).await, &log);
    // Everything else works.
    assert_eq!(text(&result(client.call("plain").await)), "plain");
    assert!(stores.tasks.remove("filler").await.unwrap());
    let id = task(client.send(sized(100_000)).await).id;
    gate.add_permits(100);
    assert_eq!(text(&result(client.send_for_task(Method::TaskResult, &id).await)), "100013");
    for end in ["", "-wal", "-shm"] {
        let _ = std::fs::remove_file(format!("{}{end}", file.display()));
    }
}
