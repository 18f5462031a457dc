//! Tasks at the shutdown of their server and during outages of their store.
#![allow(clippy::unwrap_used)]

mod task_support;

use serde_json::json;
use task_support::*;
use wharf_model::{ErrorKind, Method, RequestBuilder, TaskRequest, TaskStatus};
use wharf_server::{Ctx, Router, State, TaskMode, TaskOptions, Tool};

async fn works(State(effects): State<Counter>) -> String {
    tokio::time::sleep(seconds(60)).await;
    effects.hit().to_string()
}

fn node(world: &World, effects: &Counter, options: TaskOptions) -> Router {
    let server = world.server().tasks(options).state(effects.clone());
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = server.add(tool).build().unwrap();
    router.start_tasks(&timer());
    router
}

#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_leaves_its_store_alone() {
    let world = World::new();
    let router = node(&world, &Counter::default(), quick());
    client(&router).task("works").await;
    pass(seconds(59)).await;
    // The handler ends, and its result cannot be stored.
    world.records.set_broken(true);
    pass(seconds(10)).await;
    drop(router);
    pass(seconds(10)).await;
    let before = world.records.loads.count();
    pass(seconds(600)).await;
    assert_eq!(world.records.loads.count(), before);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_made_while_its_server_ends_begins_elsewhere() {
    let (world, here, elsewhere) = (World::new(), Counter::default(), Counter::default());
    let first = node(&world, &here, quick());
    let second = node(&world, &elsewhere, quick());
    first.shutdown();
    let id = client(&first).task("works").await.id;
    pass(seconds(62)).await;
    assert_eq!(ended(&client(&second).get(&id).await), "1");
    assert_eq!((here.count(), elsewhere.count()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn where_tasks_end_with_the_process_those_that_are_made_last_run_too() {
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = Router::builder().state(Counter::default()).add(tool).build().unwrap();
    router.shutdown();
    let client = client(&router);
    let id = client.task("works").await.id;
    pass(seconds(62)).await;
    assert_eq!(ended(&client.get(&id).await), "1");
}

#[tokio::test(start_paused = true)]
async fn a_store_that_forgets_for_a_while_costs_a_task_no_attempt() {
    let (world, effects) = (World::new(), Counter::default());
    let options = TaskOptions { attempts: 2, ..quick() };
    let first = node(&world, &effects, options.clone());
    let id = client(&first).task("works").await.id;
    settle().await;
    drop(first);
    world.records.set_forgetful(true);
    let second = node(&world, &effects, options);
    pass(seconds(600)).await;
    assert_eq!(client(&second).get(&id).await.status(), TaskStatus::Working);
    world.records.set_forgetful(false);
    pass(seconds(120)).await;
    assert_eq!(ended(&client(&second).get(&id).await), "1");
}

#[tokio::test(start_paused = true)]
async fn what_a_store_says_is_not_told_to_clients() {
    let world = World::new();
    let router = node(&world, &Counter::default(), quick());
    let alice = client(&router).named("alice");
    let id = alice.task("works").await.id;
    world.records.set_broken(true);
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
async fn what_is_said_on_the_way_is_bounded() {
    async fn says(ctx: Ctx) -> &'static str {
        ctx.progress_message(1.0, None, "x".repeat(10_000)).await;
        tokio::time::sleep(seconds(60)).await;
        "said"
    }
    let options = TaskOptions { item: 1000, ..quick() };
    let tool = Tool::new("says", says).task(TaskMode::optional());
    let router = World::new().server().tasks(options).add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("says").await.id;
    settle().await;
    let message = client.get(&id).await.message.unwrap();
    assert!(message.starts_with('x') && message.len() <= 1000, "{}", message.len());
}

#[tokio::test(start_paused = true)]
async fn a_call_that_waits_for_room_is_forgotten_when_its_task_expires() {
    /// Marker whose reference count shows whether the call it came with still exists.
    #[derive(Clone)]
    struct BudgetShare(#[allow(dead_code)] std::sync::Arc<()>);
    let (world, held) = (World::new(), std::sync::Arc::new(()));
    let options = TaskOptions { running: 1, ..quick() };
    let router = node(&world, &Counter::default(), options);
    let client = client(&router).saying(TaskRequest::Wanted(Some(30_000)));
    let busy = client.saying(TaskRequest::Wanted(None));
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
