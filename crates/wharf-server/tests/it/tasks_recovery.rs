//! Recovery: tasks of a lost process are taken over by another. A process is lost here when its
//! router is dropped: that drops every handler in mid-run and sends no notification.

use crate::task_support::*;
use futures_util::future::join;
use serde_json::json;
use wharf_model::{ErrorKind, Method, Principal, RecordStore, TaskState, TaskStatus};
use wharf_server::{ClientRequestError, Ctx, Router, State, StepError, TaskMode, Tool};

/// Starts a process that takes over abandoned tasks.
fn node(test_stores: &TestStores, effects: &Counter, tool: Tool) -> Router {
    let server = test_stores.server().tasks(quick()).state(effects.clone());
    let router = server.add(tool.task(TaskMode::optional())).build().unwrap();
    router.start_tasks(&timer());
    router
}

/// Waits longer than any lease plus the polling interval.
async fn wait_for_lease_expiry() {
    pass(seconds(45)).await;
}

async fn two_steps(
    State(effects): State<Counter>,
    ctx: Ctx,
    principal: Option<Principal>,
) -> String {
    let first = ctx.step("buy", async { effects.hit() }).await;
    tokio::time::sleep(seconds(60)).await;
    let second = ctx.step("buy", async { effects.hit() }).await;
    let known = principal.is_some_and(|principal| principal.has_scope("s"));
    format!("{first} {second} {known} {}", ctx.meta().is_some())
}

#[tokio::test(start_paused = true)]
async fn another_process_takes_over_without_repeating_steps() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", two_steps));
    let alice = client(&first).with_principal("alice");
    let id = task(alice.send(call("t").meta(r#"{"k":1}"#)).await).id;
    pass(seconds(20)).await;
    assert_eq!(effects.count(), 1);
    drop((first, alice));
    let second = node(&test_stores, &effects, Tool::new("t", two_steps));
    let alice = client(&second).with_principal("alice");
    pass(seconds(5)).await;
    assert_eq!(alice.get(&id).await.status(), TaskStatus::Working);
    wait_for_lease_expiry().await;
    pass(seconds(70)).await;
    assert_eq!(completed_text(&alice.get(&id).await), "1 2 true true");
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn graceful_shutdown_releases_tasks() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", two_steps));
    let second = node(&test_stores, &effects, Tool::new("t", two_steps));
    let id = client(&first).task("t").await.id;
    settle().await;
    first.release_tasks().await;
    // No lease has to expire.
    pass(seconds(62)).await;
    assert_eq!(completed_text(&client(&second).get(&id).await), "1 2 false false");
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_live_process_keeps_its_tasks() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", two_steps));
    let second = node(&test_stores.with_separate_bus(), &effects, Tool::new("t", two_steps));
    let id = client(&first).task("t").await.id;
    pass(seconds(59)).await;
    assert_eq!(effects.count(), 1);
    pass(seconds(2)).await;
    // Any process can return the result.
    assert_eq!(completed_text(&client(&second).get(&id).await), "1 2 false false");
}

#[tokio::test(start_paused = true)]
async fn responses_and_open_client_requests_survive_a_takeover() {
    async fn asks(State(runs): State<Counter>, ctx: Ctx) -> Result<String, ClientRequestError> {
        let run = runs.hit();
        let first: Confirm = ctx.ask("first", "First?").await?;
        let (second, third) =
            join(ctx.ask::<Confirm>("second", "Second?"), ctx.ask::<Confirm>("third", "Third?"))
                .await;
        Ok(format!("run {run}: {} {} {}", first.sure, second?.sure, third?.sure))
    }
    let (test_stores, runs) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &runs, Tool::new("t", asks));
    let id = client(&first).task("t").await.id;
    settle().await;
    client(&first).update(&id, json!({"first": sure()})).await;
    settle().await;
    assert_eq!(open_keys(&client(&first).get(&id).await), ["second", "third"]);
    drop(first);
    // A response may arrive while no process runs the task.
    let second = node(&test_stores, &runs, Tool::new("t", asks));
    let client = client(&second);
    client.update(&id, json!({"third": sure()})).await;
    assert_eq!(open_keys(&client.get(&id).await), ["second"]);
    wait_for_lease_expiry().await;
    assert_eq!(runs.count(), 2);
    assert_eq!(open_keys(&client.get(&id).await), ["second"]);
    client.update(&id, json!({"second": sure()})).await;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "run 2: true true true");
}

#[tokio::test(start_paused = true)]
async fn attempts_are_bounded() {
    async fn never(State(runs): State<Counter>) {
        runs.hit();
        std::future::pending::<()>().await;
    }
    let (test_stores, runs) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &runs, Tool::new("t", never));
    let id = client(&first).task("t").await.id;
    settle().await;
    drop(first);
    for _ in 0..8 {
        let next = node(&test_stores, &runs, Tool::new("t", never));
        pass(seconds(80)).await;
        drop(next);
    }
    assert_eq!(runs.count(), 5);
    let last = node(&test_stores, &runs, Tool::new("t", never));
    let task = client(&last).get(&id).await;
    let TaskState::Failed(error) = &task.state else { panic!("{task:?}") };
    assert_eq!(error.kind, ErrorKind::TaskFailed);
    assert!(error.message.contains("5 times"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_task_without_a_local_tool_runs_in_another_process() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", two_steps));
    let id = client(&first).task("t").await.id;
    settle().await;
    drop(first);
    let other = node(&test_stores, &effects, Tool::new("other", async || "other"));
    wait_for_lease_expiry().await;
    assert_eq!(client(&other).get(&id).await.status(), TaskStatus::Working);
    drop(other);
    let second = node(&test_stores, &effects, Tool::new("t", two_steps));
    wait_for_lease_expiry().await;
    pass(seconds(70)).await;
    assert_eq!(completed_text(&client(&second).get(&id).await), "1 2 false false");
}

#[tokio::test(start_paused = true)]
async fn a_cancellation_reaches_the_process_that_runs_the_task() {
    async fn works(State(effects): State<Counter>) {
        effects.hit();
        tokio::time::sleep(seconds(25)).await;
        effects.hit();
    }
    for hears in [true, false] {
        let (test_stores, effects) = (TestStores::new(), Counter::default());
        let first = node(&test_stores, &effects, Tool::new("t", works));
        let elsewhere = if hears { test_stores.clone() } else { test_stores.with_separate_bus() };
        let second = node(&elsewhere, &effects, Tool::new("t", works));
        let id = client(&first).task("t").await.id;
        settle().await;
        let (task, too_late) = client(&second).cancel(&id).await;
        assert_eq!((task.status(), too_late), (TaskStatus::Cancelled, false));
        pass(seconds(60)).await;
        // By the bus, or at the next renewal of the lease.
        assert_eq!(effects.count(), 1, "{hears}");
        assert_eq!(client(&first).get(&id).await.status(), TaskStatus::Cancelled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_response_reaches_a_process_without_a_bus() {
    async fn asks(ctx: Ctx) -> Result<String, ClientRequestError> {
        Ok(ctx.ask::<Confirm>("c", "Sure?").await?.sure.to_string())
    }
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", asks));
    let second = node(&test_stores.with_separate_bus(), &effects, Tool::new("t", asks));
    let id = client(&first).task("t").await.id;
    settle().await;
    client(&second).update(&id, json!({"c": sure()})).await;
    let waiting = client(&second).send_for_task(Method::TaskResult, &id).await;
    assert_eq!(text(&result(waiting)), "true");
}

#[tokio::test(start_paused = true)]
async fn a_process_without_its_store_stops_before_another_claims_the_task() {
    async fn works(State(effects): State<Counter>) -> String {
        effects.hit();
        tokio::time::sleep(seconds(100)).await;
        effects.hit().to_string()
    }
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", works));
    let id = client(&first).task("t").await.id;
    pass(seconds(5)).await;
    test_stores.records.set_broken(true);
    pass(seconds(200)).await;
    assert_eq!(effects.count(), 1, "its lease expired, and it stopped");
    test_stores.records.set_broken(false);
    pass(seconds(150)).await;
    assert_eq!(completed_text(&client(&first).get(&id).await), "3");
}

#[tokio::test(start_paused = true)]
async fn writes_do_not_extend_the_lease() {
    async fn works(State(effects): State<Counter>, ctx: Ctx) -> Result<(), ClientRequestError> {
        let asks = async {
            tokio::time::sleep(seconds(5)).await;
            ctx.ask::<Confirm>("c", "sure?").await
        };
        let late = async {
            tokio::time::sleep(seconds(31)).await;
            effects.hit();
        };
        join(asks, late).await.0.map(drop)
    }
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", works));
    let id = client(&first).task("t").await.id;
    pass(seconds(6)).await;
    assert_eq!(client(&first).get(&id).await.status(), TaskStatus::InputRequired);
    test_stores.records.set_broken(true);
    // Its lease of 30 seconds was never renewed: from then on another process may claim the task.
    pass(seconds(40)).await;
    assert_eq!(effects.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn steps_and_results_are_retried_until_the_store_recovers() {
    async fn works(State(effects): State<Counter>, ctx: Ctx) -> String {
        tokio::time::sleep(seconds(2)).await;
        let first = ctx.step("s", async { effects.hit() }).await;
        tokio::time::sleep(seconds(15)).await;
        format!("{first} {}", effects.hit())
    }
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let router = node(&test_stores, &effects, Tool::new("t", works));
    let id = client(&router).task("t").await.id;
    settle().await;
    test_stores.records.set_broken(true);
    pass(seconds(10)).await;
    test_stores.records.set_broken(false);
    pass(seconds(6)).await;
    test_stores.records.set_broken(true);
    // The handler has returned; storing its result survives an outage longer than the lease.
    pass(seconds(100)).await;
    assert_eq!(effects.count(), 2);
    test_stores.records.set_broken(false);
    pass(seconds(30)).await;
    assert_eq!(completed_text(&client(&router).get(&id).await), "1 2");
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_first_stored_result_of_a_step_counts() {
    async fn works(State(effects): State<Counter>, ctx: Ctx) -> String {
        let slow = async {
            tokio::time::sleep(seconds(5)).await;
            effects.hit()
        };
        ctx.step("s", slow).await.to_string()
    }
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let router = node(&test_stores, &effects, Tool::new("t", works));
    let id = client(&router).task("t").await.id;
    settle().await;
    // A concurrent run of the same fence stored its result first.
    let fence = test_stores.records.load(&id).await.unwrap().unwrap().fence;
    test_stores.records.attach(&id, fence, "s#1", b"77".to_vec()).await.unwrap();
    pass(seconds(6)).await;
    assert_eq!(completed_text(&client(&router).get(&id).await), "77");
}

#[tokio::test(start_paused = true)]
async fn a_one_time_step_is_not_retried() {
    async fn works(State(effects): State<Counter>, ctx: Ctx) -> String {
        let slow = async {
            effects.hit();
            tokio::time::sleep(seconds(20)).await;
        };
        match ctx.step_once("s", slow).await {
            Ok(()) => "done".into(),
            Err(StepError::Spent) => "spent".into(),
            Err(error) => error.to_string(),
        }
    }
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", works));
    let lost = client(&first).task("t").await.id;
    settle().await;
    drop(first);
    let second = node(&test_stores, &effects, Tool::new("t", works));
    let fine = client(&second).task("t").await.id;
    wait_for_lease_expiry().await;
    assert_eq!(completed_text(&client(&second).get(&lost).await), "spent");
    assert_eq!(completed_text(&client(&second).get(&fine).await), "done");
    assert_eq!(effects.count(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_blocking_handler_that_lost_its_task_does_not_hold_its_thread() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let begun = std::sync::Arc::new(tokio::sync::Notify::new());
    let (go, gone) = (std::sync::mpsc::channel::<()>(), std::sync::mpsc::channel::<()>());
    let gate = std::sync::Mutex::new(Some((go.1, gone.0)));
    let told = begun.clone();
    let tool = Tool::blocking("t", move |ctx: Ctx| {
        let (go, gone) = gate.lock().unwrap().take().unwrap();
        told.notify_one();
        go.recv().unwrap();
        // Dropped when this function returns, also by a panic.
        let _gone = gone;
        ctx.block_on(ctx.step("s", async {}));
    });
    let router = node(&test_stores, &effects, tool);
    let id = client(&router).task("t").await.id;
    begun.notified().await;
    client(&router).cancel(&id).await;
    // The paused clock does not advance while a thread works.
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    go.0.send(()).unwrap();
    assert!(gone.1.recv().is_err());
}

#[tokio::test(start_paused = true)]
async fn an_unreadable_record_does_not_block_other_tasks() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    for number in 0..40 {
        let record =
            wharf_model::Record::new(format!("odd{number}")).due(1).body(b"not a record".to_vec());
        test_stores.records.insert(record, 1000).await.unwrap();
    }
    let first = node(&test_stores, &effects, Tool::new("t", two_steps));
    let id = client(&first).task("t").await.id;
    settle().await;
    drop(first);
    let second = node(&test_stores, &effects, Tool::new("t", two_steps));
    wait_for_lease_expiry().await;
    pass(seconds(70)).await;
    assert_eq!(completed_text(&client(&second).get(&id).await), "1 2 false false");
}

#[tokio::test(start_paused = true)]
async fn a_full_store_is_not_polled_continuously() {
    let (test_stores, effects) = (TestStores::new(), Counter::default());
    let first = node(&test_stores, &effects, Tool::new("t", two_steps));
    let id = client(&first).task("t").await.id;
    settle().await;
    drop(first);
    test_stores.records.set_full(true);
    wait_for_lease_expiry().await;
    let before = test_stores.records.due_queries.count();
    // The last place: releasing it wakes the scheduler, since a task may have waited for it.
    let options = quick().running(1);
    let second = test_stores.server().tasks(options).state(effects.clone());
    let tool = Tool::new("t", two_steps).task(TaskMode::optional());
    let second = second.add(tool).build().unwrap();
    second.start_tasks(&timer());
    pass(seconds(600)).await;
    assert!(
        test_stores.records.due_queries.count() - before < 100,
        "{}",
        test_stores.records.due_queries.count()
    );
    test_stores.records.set_full(false);
    pass(seconds(120)).await;
    assert_eq!(completed_text(&client(&second).get(&id).await), "1 2 false false");
}
