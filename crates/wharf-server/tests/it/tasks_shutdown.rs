//! Tasks at the shutdown of their server and during outages of their store.

use crate::task_support::*;
use serde_json::json;
use wharf_model::{ErrorKind, Method, RequestBuilder, TaskRequest, TaskStatus};
use wharf_server::{Ctx, Router, State, TaskMode, TaskOptions, Tool};

async fn works(State(effects): State<Counter>) -> String {
    tokio::time::sleep(seconds(60)).await;
    effects.hit().to_string()
}

fn node(test_stores: &TestStores, effects: &Counter, options: TaskOptions) -> Router {
    let server = test_stores.server().tasks(options).state(effects.clone());
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = server.add(tool).build().unwrap();
    router.start_tasks(&timer());
    router
}

#[tokio::test(start_paused = true)]
async fn a_dropped_server_does_not_access_its_store() {
    let test_stores = TestStores::new();
    let router = node(&test_stores, &Counter::default(), quick());
    client(&router).task("works").await;
    pass(seconds(59)).await;
    // The handler ends, and its result cannot be stored.
    test_stores.records.set_broken(true);
    pass(seconds(10)).await;
    drop(router);
    pass(seconds(10)).await;
    let before = test_stores.records.loads.count();
    pass(seconds(600)).await;
    assert_eq!(test_stores.records.loads.count(), before);
}

#[tokio::test(start_paused = true)]
async fn a_task_created_during_shutdown_runs_in_another_process() {
    let (test_stores, here, elsewhere) =
        (TestStores::new(), Counter::default(), Counter::default());
    let first = node(&test_stores, &here, quick());
    let second = node(&test_stores, &elsewhere, quick());
    first.shutdown();
    let id = client(&first).task("works").await.id;
    pass(seconds(62)).await;
    assert_eq!(completed_text(&client(&second).get(&id).await), "1");
    assert_eq!((here.count(), elsewhere.count()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn without_durability_tasks_created_during_shutdown_run_here() {
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = Router::builder().state(Counter::default()).add(tool).build().unwrap();
    router.shutdown();
    let client = client(&router);
    let id = client.task("works").await.id;
    pass(seconds(62)).await;
    assert_eq!(completed_text(&client.get(&id).await), "1");
}

#[tokio::test(start_paused = true)]
async fn a_step_read_failure_does_not_count_as_an_attempt() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let options = quick().attempts(2);
    let first = node(&test_stores, &effects, options.clone());
    let id = client(&first).task("works").await.id;
    settle().await;
    drop(first);
    test_stores.records.set_steps_unreadable(true);
    let second = node(&test_stores, &effects, options);
    pass(seconds(600)).await;
    assert_eq!(client(&second).get(&id).await.status(), TaskStatus::Working);
    test_stores.records.set_steps_unreadable(false);
    pass(seconds(120)).await;
    assert_eq!(completed_text(&client(&second).get(&id).await), "1");
}

#[tokio::test(start_paused = true)]
async fn store_errors_are_not_sent_to_clients() {
    let test_stores = TestStores::new();
    let router = node(&test_stores, &Counter::default(), quick());
    let alice = client(&router).with_principal("alice");
    let id = alice.task("works").await.id;
    test_stores.records.set_broken(true);
    let methods = [
        Method::GetTask,
        Method::UpdateTask,
        Method::CancelTask,
        Method::ListTasks,
        Method::TaskResult,
    ];
    for method in methods {
        let request = RequestBuilder::new(method).target(&id).input_responses("{}");
        let failed = error(alice.send(request).await);
        assert_eq!(failed.kind, ErrorKind::TemporarilyUnavailable, "{}", method.name());
        assert!(!failed.to_string().contains("secret"), "{failed}");
    }
}

#[tokio::test(start_paused = true)]
async fn progress_messages_are_bounded() {
    async fn reports(ctx: Ctx) -> &'static str {
        ctx.progress_message(1.0, None, "x".repeat(10_000)).await;
        tokio::time::sleep(seconds(60)).await;
        "said"
    }
    let options = quick().item(1000);
    let tool = Tool::new("reports", reports).task(TaskMode::optional());
    let router = TestStores::new().server().tasks(options).add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("reports").await.id;
    settle().await;
    let message = client.get(&id).await.message.unwrap();
    assert!(message.starts_with('x') && message.len() <= 1000, "{}", message.len());
}

#[tokio::test(start_paused = true)]
async fn the_request_of_a_queued_task_is_dropped_when_the_task_expires() {
    /// Marker whose reference count shows whether the call it came with still exists.
    #[derive(Clone)]
    struct BudgetShare(#[allow(dead_code)] std::sync::Arc<()>);
    let (test_stores, held) = (TestStores::new(), std::sync::Arc::new(()));
    let options = quick().running(1);
    let router = node(&test_stores, &Counter::default(), options);
    let client = client(&router).with_tasking(TaskRequest::Wanted(Some(30_000)));
    let busy = client.with_tasking(TaskRequest::Wanted(None));
    busy.task("works").await;
    let mut request = client.request(call("works").arguments(&json!({}).to_string()));
    request.scope.insert(BudgetShare(held.clone()));
    task(done(&mut client.start(request)).await);
    assert_eq!(std::sync::Arc::strong_count(&held), 2);
    // Meanwhile, other tasks take the place.
    for _ in 0..3 {
        busy.task("works").await;
    }
    pass(seconds(120)).await;
    assert_eq!(std::sync::Arc::strong_count(&held), 1);
}
