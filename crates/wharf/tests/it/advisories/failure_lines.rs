//! Each full queue, panic, timeout and store failure has exactly one line in the log that names it.
//!
//! Each test is a process of its own, as in [`log_lines`](crate::advisories::log_lines).

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use serde_json::json;
use tracing::Level;
#[cfg(any(feature = "redis", feature = "sqlite"))]
use wharf::{Endpoint, server::KeyRing};
use wharf::{
    Error, ErrorKind, Server, Tool,
    server::{CallLimits, Limits},
    store::{AttachResult, MemoryRecords, Record, RecordStore, Stored, memory_stores},
    tasks::TaskMode,
};
use wharf_testbed::LogCatcher;

#[cfg(any(feature = "redis", feature = "sqlite"))]
use crate::advisories::harness::PATIENCE;
use crate::advisories::{
    attacked_server::{EventCounter, gated},
    harness::Harness,
    http_client::HttpClient,
    log_lines::assert_one,
};

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_has_one_line() {
    let gate = EventCounter::default();
    let calls = CallLimits::default().concurrent(1).queue(0);
    let limits = Limits::default().calls(calls);
    let harness =
        Harness::tuned(|server| server.limits(limits).add(gated("held", &gate, "done"))).await;
    let caller = HttpClient::modern(&harness);
    let _open = caller.send(&caller.tool("wait", json!({}))).await;
    harness.counts.begun.reaches(1).await;
    let log = LogCatcher::on_all_threads(Level::WARN);
    for _ in 0..3 {
        assert_eq!(caller.send(&caller.tool("echo", json!({"text": "x"}))).await.status(), 503);
    }
    assert_one(&log, &["the queue is full"]).await;
    harness.counts.gate.add();
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_and_a_timeout_have_one_line_each() {
    let slow = Tool::new("slow", async || std::future::pending::<String>().await)
        .timeout(Duration::from_millis(20));
    let harness = Harness::tuned(|server| server.add(slow)).await;
    let log = LogCatcher::on_all_threads(Level::TRACE);
    for caller in HttpClient::both(&harness).await {
        let before = log.lines().len();
        caller.messages("crash", json!({"late": true})).await;
        caller.messages("slow", json!({})).await;
        let since = log.lines().split_off(before);
        for name in ["a secret of the server's", "timeout"] {
            let lines: Vec<_> = since.iter().filter(|line| line.contains(name)).collect();
            assert_eq!(lines.len(), 1, "{name}: {since:#?}");
        }
    }
    harness.stop().await;
}

/// In-memory record store that fails on request.
struct FailingRecords {
    records: MemoryRecords,
    fails: Arc<AtomicBool>,
}

impl FailingRecords {
    fn or<T: Send + 'static>(&self, stored: Stored<T>) -> Stored<T> {
        match self.fails.load(Ordering::Acquire) {
            true => {
                Box::pin(std::future::ready(Err(Error::new(ErrorKind::TemporarilyUnavailable)
                    .with_message("the disk is on fire"))))
            }
            false => stored,
        }
    }
}

impl RecordStore for FailingRecords {
    fn now(&self) -> Stored<u64> {
        self.or(self.records.now())
    }

    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        self.or(self.records.insert(record, most))
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        self.or(self.records.load(id))
    }

    fn swap(&self, record: Record) -> Stored<bool> {
        self.or(self.records.swap(record))
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        self.or(self.records.remove(id))
    }

    fn list(&self, owner: &str, after: Option<&str>, limit: usize) -> Stored<Vec<Record>> {
        self.or(self.records.list(owner, after, limit))
    }

    fn due(&self, limit: usize) -> Stored<Vec<String>> {
        self.or(self.records.due(limit))
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        self.or(self.records.attach(id, fence, name, value))
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        self.or(self.records.attachments(id))
    }

    fn sweep(&self, limit: usize) -> Stored<usize> {
        self.or(self.records.sweep(limit))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_and_its_recovery_have_one_line_each() {
    let fails = Arc::new(AtomicBool::new(false));
    let records = FailingRecords { records: MemoryRecords::default(), fails: fails.clone() };
    let stores = memory_stores().tasks(records);
    let tool = Tool::new("job", async || "done").task(TaskMode::optional());
    let endpoint = Server::new("store", "1.0.0").store(stores).add(tool).build().unwrap();
    let log = LogCatcher::on_all_threads(Level::INFO);
    fails.store(true, Ordering::Release);
    for _ in 0..5 {
        assert!(endpoint.spawn_task("job", json!({})).await.is_err());
    }
    assert_one(&log, &["the disk is on fire"]).await;
    assert_one(&log, &["lost the store"]).await;
    fails.store(false, Ordering::Release);
    let task = endpoint.spawn_task("job", json!({})).await.unwrap();
    task.wait().await.unwrap();
    assert_one(&log, &["recovered the store"]).await;
    assert_one(&log, &["started a task", "tool=\"job\""]).await;
    assert_one(&log, &["ended a task", "state=\"completed\""]).await;
    assert!(log.lines().iter().all(|line| !line.contains(task.id())), "{:#?}", log.lines());
}

/// Server on the store of this URL, with a tool that runs as a task.
#[cfg(any(feature = "redis", feature = "sqlite"))]
async fn stored(url: &str) -> Endpoint {
    let tool = Tool::new("job", async || "done").task(TaskMode::optional());
    let store = wharf::store::open(url).await.unwrap();
    let key: KeyRing = "11".repeat(32).parse().unwrap();
    Server::new("store", "1.0.0").store(store).state_cipher(key).add(tool).build().unwrap()
}

/// Starts tasks until one can be stored, or until one cannot.
#[cfg(any(feature = "redis", feature = "sqlite"))]
async fn until_tasks_start(endpoint: &Endpoint, expected: bool) {
    let polling = async {
        while endpoint.spawn_task("job", json!({})).await.is_ok() != expected {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, polling).await.is_ok(), "expected {expected}");
}

#[cfg(feature = "redis")]
#[tokio::test(flavor = "multi_thread")]
async fn a_redis_out_of_memory_has_one_line() {
    let redis = wharf_testbed::redis_server::RedisServer::start();
    let endpoint = stored(&redis.url("full")).await;
    until_tasks_start(&endpoint, true).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    redis.set("maxmemory", "1mb");
    for _ in 0..3 {
        assert!(endpoint.spawn_task("job", json!({})).await.is_err());
    }
    assert_one(
        &log,
        &["lost the store", "store=\"redis\"", "store is full", "Redis is out of memory"],
    )
    .await;
    redis.set("maxmemory", "0");
    until_tasks_start(&endpoint, true).await;
    assert_one(&log, &["recovered the store", "store=\"redis\""]).await;
}

#[cfg(feature = "sqlite")]
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_sqlite_file_has_one_line() {
    let folder = std::env::temp_dir().join(format!("wharf-failure-lines-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (file, aside) = (folder.join("tasks.db"), folder.join("aside.db"));
    let endpoint = stored(&format!("sqlite:{}", file.display())).await;
    until_tasks_start(&endpoint, true).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    std::fs::rename(&file, &aside).unwrap();
    until_tasks_start(&endpoint, false).await;
    assert!(endpoint.spawn_task("job", json!({})).await.is_err());
    let cause = ["deleted or replaced", "put the file back, or restart the server"];
    assert_one(&log, &["lost the store", "store=\"sqlite\"", cause[0], cause[1]]).await;
    std::fs::rename(&aside, &file).unwrap();
    until_tasks_start(&endpoint, true).await;
    assert_one(&log, &["recovered the store", "store=\"sqlite\""]).await;
    std::fs::remove_dir_all(&folder).unwrap();
}
