//! Share of the store that the tasks of one caller may use.

use std::{sync::Arc, time::Duration};

use crate::task_support::*;
use serde_json::json;
use wharf_model::{Outcome, RecordStore, TaskRequest, TaskState, TaskStatus};
use wharf_server::{
    Ctx, MemoryRecords, RawArgs, Router, TaskMode, TaskOptions, Tool, memory_stores,
};

/// A tool whose result is as long as its argument.
fn repeat() -> Tool {
    let run = async |RawArgs(json): RawArgs| json.get().to_owned();
    Tool::new("repeat", run).task(TaskMode::optional())
}

/// A call of `repeat` with this number of bytes.
fn sized(bytes: usize) -> wharf_model::RequestBuilder {
    call("repeat").arguments(&json!({"marker": "x".repeat(bytes)}).to_string())
}

#[tokio::test(start_paused = true)]
async fn a_call_too_long_to_be_stored_is_not_a_task() {
    let options = TaskOptions::default().arguments(1000);
    let slow = async |_: RawArgs, ctx: Ctx| {
        let _ = ctx.detach().await;
        tokio::time::sleep(Duration::from_secs(60)).await;
        "plain"
    };
    let slow = Tool::new("slow", slow).task(TaskMode::optional().after(seconds(5)));
    let router = TestStores::new().server().tasks(options).add(repeat()).add(slow).build().unwrap();
    let client = client(&router);
    let wanted = client.with_tasking(TaskRequest::Wanted(None));
    for client in [&client, &wanted] {
        let refused = error(client.send(sized(1000)).await);
        assert!(refused.kind.is_content_too_large(), "{refused:?}");
        assert!(refused.message.contains("1000 is the limit"), "{}", refused.message);
        task(client.send(sized(100)).await);
    }
    // If a task is optional, the call runs without one.
    let long = call("slow").arguments(&json!({"x": "x".repeat(1000)}).to_string());
    assert_eq!(text(&result(client.send(long).await)), "plain");
    task(client.call("slow").await);
}

#[tokio::test(start_paused = true)]
async fn the_arguments_are_deleted_when_the_task_has_ended() {
    let test_stores = TestStores::new();
    let done = Tool::new("done", async |_: RawArgs| "done").task(TaskMode::optional());
    let fails = Tool::new("fails", async |_: RawArgs| {
        Err::<(), _>(wharf_model::Error::resource_not_found("x"))
    });
    let waits = Tool::new("waits", async |_: RawArgs| std::future::pending::<()>().await);
    let router = test_stores
        .server()
        .add(done)
        .add(fails.task(TaskMode::optional()))
        .add(waits.task(TaskMode::optional()))
        .build()
        .unwrap();
    let client = client(&router).with_principal("alice");
    let body = async |id: &str| {
        String::from_utf8(test_stores.records.inner.load(id).await.unwrap().unwrap().body).unwrap()
    };
    for tool in ["done", "fails", "waits"] {
        let secret = json!({"secret": "arguments"}).to_string();
        let request = call(tool).arguments(&secret).meta(&json!({"more": "metadata"}).to_string());
        let id = task(client.send(request).await).id;
        if tool == "waits" {
            let kept = body(&id).await;
            assert!(kept.contains("arguments") && kept.contains("metadata"), "{kept}");
            client.cancel(&id).await;
        }
        settle().await;
        assert!(client.get(&id).await.status().is_terminal(), "{tool}");
        let kept = body(&id).await;
        assert!(!kept.contains("secret") && !kept.contains("metadata"), "{kept}");
    }
}

/// Audit 9: 67 finished tasks of one caller filled the store for a day.
#[tokio::test(start_paused = true)]
async fn tasks_of_one_caller_leave_room_for_other_callers() {
    let options = TaskOptions::default().bytes(100_000);
    let router = TestStores::new().server().tasks(options).add(repeat()).build().unwrap();
    let hog = client(&router)
        .with_principal("hog")
        .with_tasking(TaskRequest::Wanted(Some(24 * 3_600_000)));
    let mut ttls = Vec::new();
    let refused = loop {
        match hog.send(sized(4000)).await {
            Outcome::Task(task) => ttls.push(task.ttl.unwrap()),
            other => break error(other),
        }
        settle().await;
    };
    assert!((5..=10).contains(&ttls.len()), "half of all: {}", ttls.len());
    assert!(refused.kind.is_overloaded(), "{refused:?}");
    assert!(refused.message.contains("too much room"), "{}", refused.message);
    assert!(refused.data.unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
    // The requested `ttl` is granted while there is room, and shortened before the store is full.
    assert_eq!(ttls[0], 24 * 3_600_000);
    assert_eq!(*ttls.last().unwrap(), 3_600_000);
    let alice = client(&router).with_principal("alice");
    let id = task(alice.send(sized(4000)).await).id;
    settle().await;
    assert_eq!(alice.get(&id).await.status(), TaskStatus::Completed);
    // Room is freed when tasks expire.
    pass(Duration::from_secs(3_700)).await;
    task(hog.send(sized(4000)).await);
}

#[tokio::test(start_paused = true)]
async fn a_result_without_room_fails_the_task() {
    let options = TaskOptions::default().bytes(20_000);
    let big = Tool::new("big", async || "x".repeat(15_000)).task(TaskMode::optional());
    let router = TestStores::new().server().tasks(options).add(big).build().unwrap();
    let client = client(&router).with_principal("alice");
    let id = client.task("big").await.id;
    settle().await;
    let TaskState::Failed(error) = client.get(&id).await.state else { panic!("it did not fail") };
    assert!(error.message.contains("the task store is full"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn a_full_store_is_reported_as_full() {
    let tasks = Arc::new(MemoryRecords::new(1, 1024 * 1024));
    let stores = memory_stores().tasks(tasks);
    let router = Router::builder().store(stores).add(repeat()).build().unwrap();
    let client = client(&router);
    task(client.send(sized(10)).await);
    let refused = error(client.send(sized(10)).await);
    assert!(refused.kind.is_overloaded(), "{refused:?}");
    assert!(refused.message.contains("full"), "{}", refused.message);
    assert!(refused.data.unwrap()["retryAfterMs"].as_u64().unwrap() > 0);
}

#[tokio::test(start_paused = true)]
async fn waiting_calls_of_one_caller_leave_room_for_other_callers() {
    let options = TaskOptions::default().waiting(8);
    let tool = Tool::new("never", async || std::future::pending::<()>().await);
    let tool = tool.task(TaskMode::optional());
    let router = TestStores::new().server().tasks(options).add(tool).build().unwrap();
    let wait = async |client: &TestClient| {
        let id = client.task("never").await.id;
        let request = wharf_model::RequestBuilder::new(wharf_model::Method::TaskResult);
        let mut waiting = client.start(client.request(request.target(&id)));
        let refused = tokio::time::timeout(seconds(1), done(&mut waiting)).await.ok();
        (waiting, refused.map(error))
    };
    let legacy = client(&router).with_tasking(TaskRequest::Wanted(None));
    let hog = legacy.with_principal("hog");
    let mut waiting = Vec::new();
    let refused = loop {
        match wait(&hog).await {
            (going, None) => waiting.push(going),
            (_, Some(refused)) => break refused,
        }
    };
    assert_eq!(waiting.len(), 6);
    assert!(refused.kind.is_overloaded(), "{refused:?}");
    assert!(wait(&legacy.with_principal("alice")).await.1.is_none());
}

#[tokio::test(start_paused = true)]
async fn unsent_task_notifications_of_a_subscriber_are_counted() {
    let limits = wharf_server::CallLimits::default().subscription_total(100_000);
    let tool = Tool::new("big", async || "x".repeat(10_000)).task(TaskMode::optional());
    let router = TestStores::new().server().limits(limits).add(tool).build().unwrap();
    let hog = client(&router).with_principal("hog");
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(hog.task("big").await.id);
    }
    settle().await;
    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
    let told = async |listen: &mut wharf_model::ActiveCall| {
        let mut told = 0;
        while tokio::time::timeout(seconds(1), next(listen)).await.is_ok() {
            told += 1;
        }
        told
    };
    // The first subscription is not read while the second starts: together they get half of all
    // bytes, and not 20 results.
    let (mut first, agreed) = hog.listen(&ids).await;
    assert_eq!(agreed.len(), 10);
    let (mut second, _) = hog.listen(&ids).await;
    let heard = told(&mut first).await + told(&mut second).await;
    // Bytes already sent to a client do not count here.
    assert!((3..=12).contains(&heard), "{heard}");
    // The caller can poll, and gets the rest of the notifications when there is room.
    assert_eq!(hog.get(ids[9]).await.status(), TaskStatus::Completed);
    let (mut other, _) = client(&router).with_principal("alice").listen(&[]).await;
    assert_eq!(told(&mut other).await, 0);
    assert!(told(&mut hog.listen(&ids[9..]).await.0).await == 1);
}
