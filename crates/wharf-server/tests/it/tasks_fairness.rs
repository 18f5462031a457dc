//! Shares of callers in the places for running tasks and in the stored tasks.

use std::sync::Arc;

use crate::task_support::*;
use tokio::sync::Semaphore;
use wharf_model::{ErrorKind, Method, Outcome, TaskStatus};
use wharf_server::{Router, TaskMode, TaskOptions, Tool};

/// A server with a tool `gate` whose tasks count themselves and end when they get a permit.
fn gated(test_stores: &TestStores, options: TaskOptions) -> (Router, Counter, Arc<Semaphore>) {
    let (begun, gate) = (Counter::default(), Arc::new(Semaphore::new(0)));
    let (counter, permits) = (begun.clone(), gate.clone());
    let tool = Tool::new("gate", move || {
        let (counter, permits) = (counter.clone(), permits.clone());
        async move {
            counter.hit();
            permits.acquire().await.unwrap().forget();
            "done"
        }
    });
    let quick = Tool::new("quick", async || "quick").task(TaskMode::optional());
    let tool = tool.task(TaskMode::optional());
    let router = test_stores.server().tasks(options).add(tool).add(quick).build().unwrap();
    (router, begun, gate)
}

fn running(running: usize) -> TaskOptions {
    TaskOptions::default().running(running)
}

async fn is_completed(client: &TestClient, id: &str) -> bool {
    client.get(id).await.status() == TaskStatus::Completed
}

#[tokio::test(start_paused = true)]
async fn long_tasks_of_one_caller_leave_slots_for_other_callers() {
    let (router, begun, _gate) = gated(&TestStores::new(), running(8));
    let anyone = client(&router);
    for (hog, other) in [
        (anyone.with_principal("hog"), anyone.with_principal("alice")),
        (anyone.with_principal("hog"), anyone.at_address(2)),
        (anyone.at_address(1), anyone.at_address(2)),
    ] {
        let before = begun.count();
        let mut tasks = Vec::new();
        for _ in 0..20 {
            tasks.push(hog.task("gate").await.id);
        }
        settle().await;
        assert_eq!(begun.count() - before, 6, "three quarters of the slots");
        let id = other.task("quick").await.id;
        settle().await;
        assert!(is_completed(&other, &id).await);
        for id in tasks {
            hog.cancel(&id).await;
        }
        settle().await;
    }
}

#[tokio::test(start_paused = true)]
async fn queued_tasks_are_not_starved_by_a_caller_at_its_share() {
    for is_restarted in [false, true] {
        let test_stores = TestStores::new();
        let (mut router, begun, _gate) = gated(&test_stores, running(8));
        let hog = client(&router).with_principal("hog");
        for _ in 0..200 {
            hog.task("gate").await;
        }
        // Her first task uses up her share, and the second one is queued behind 194 others.
        let alice = client(&router).with_principal("alice");
        let (runs, waits) = (alice.task("gate").await.id, alice.task("quick").await.id);
        settle().await;
        assert_eq!(begun.count(), 7);
        assert!(!is_completed(&alice, &waits).await);
        if is_restarted {
            router.release_tasks().await;
            (router, ..) = gated(&test_stores, running(8));
            router.start_tasks(&timer());
        } else {
            alice.cancel(&runs).await;
        }
        pass(seconds(1)).await;
        let alice = client(&router).with_principal("alice");
        assert!(is_completed(&alice, &waits).await, "restarted: {is_restarted}");
    }
}

#[tokio::test(start_paused = true)]
async fn all_queued_tasks_run_eventually() {
    let (router, begun, gate) = gated(&TestStores::new(), running(4));
    let mut tasks = Vec::new();
    for number in 0..90_u32 {
        let client = client(&router).with_principal(["hog", "alice", "bob"][(number % 3) as usize]);
        tasks.push((client.task("gate").await.id, client));
    }
    settle().await;
    gate.add_permits(90);
    // Less than a lease: each released place is taken again at once.
    pass(seconds(5)).await;
    assert_eq!(begun.count(), 90);
    for (id, client) in tasks {
        assert!(is_completed(&client, &id).await);
    }
}

#[tokio::test(start_paused = true)]
async fn an_anonymous_caller_leaves_tasks_for_other_addresses() {
    let options = TaskOptions::default().per_owner(3);
    let (router, ..) = gated(&TestStores::new(), options);
    let (hog, other) = (client(&router).at_address(1), client(&router).at_address(2));
    let mut ids = Vec::new();
    let refused = loop {
        match hog.call("quick").await {
            Outcome::Task(task) => ids.push(task.id),
            refused => break error(refused),
        }
    };
    assert_eq!((ids.len(), refused.kind), (3, ErrorKind::TooManyTasks));
    let id = other.task("quick").await.id;
    settle().await;
    // The address counts for limits only: access to tasks is unchanged.
    assert!(is_completed(&other, &ids[0]).await);
    assert!(is_completed(&hog, &id).await);
    assert!(is_completed(&client(&router), &id).await);
    assert_eq!(other.listen(&[&ids[0]]).await.1, [ids[0].clone()]);
    let alice = client(&router).with_principal("alice");
    assert_eq!(
        error(alice.send_for_task(Method::GetTask, &id).await).kind,
        ErrorKind::TaskNotFound
    );
    let hers = alice.task("quick").await.id;
    assert_eq!(
        error(hog.send_for_task(Method::GetTask, &hers).await).kind,
        ErrorKind::TaskNotFound
    );
}
