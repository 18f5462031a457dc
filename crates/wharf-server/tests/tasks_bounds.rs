//! Bounds on the data that clients and tools can make a store keep and a server load.
#![allow(clippy::unwrap_used)]

mod task_support;

use serde_json::json;
use task_support::*;
use wharf_model::{
    ClientCapabilities, Error, ErrorKind, Event, Implementation, InputMode, Method, Outcome, Peer,
    RecordStore, Reply, RequestBuilder, SamplingRequest, TaskRequest, TaskState, TaskStatus,
    ToolResult,
};
use wharf_server::{Ctx, TaskMode, TaskOptions, Tool};

#[tokio::test(start_paused = true)]
async fn answers_to_whoever_waits_for_the_result_are_bounded_too() {
    async fn asks(ctx: Ctx) -> String {
        ctx.ask::<Confirm>("c", "Sure?").await.unwrap_err().to_string()
    }
    let options = TaskOptions { item: 700, ..TaskOptions::default() };
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let world = World::new();
    let router = world.server().tasks(options).add(tool).build().unwrap();
    let client = client(&router).asked(InputMode::Deliver).saying(TaskRequest::Wanted(None));
    let long = "x".repeat(10_000);
    let refusal = Error::new(ErrorKind::InternalError).with_message("No: ".to_owned() + &long);
    let answers = [
        (
            Ok(json!({"action": "accept", "content": {"sure": long}}).to_string()),
            "700 is the limit",
        ),
        (Err(refusal.with_data(json!(long))), "No: "),
    ];
    for (answer, said) in answers {
        let id = client.task("asks").await.id;
        let wait = client.request(RequestBuilder::new(Method::TaskResult).target(&id));
        let mut waiting = client.start(wait);
        let Event::ClientRequest(asked, _) = next(&mut waiting).await else {
            panic!("nothing was asked")
        };
        waiting.answers().deliver(asked, answer);
        let told = result(done(&mut waiting).await);
        assert!(text(&told).contains(said), "{}", text(&told));
        assert!(text(&told).len() < 1000);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_bounded_like_a_result() {
    async fn fails() -> Result<(), Error> {
        let long = "x".repeat(10_000);
        Err(Error::resource_not_found("x:y").with_message(long.clone()).with_data(json!(long)))
    }
    let options = TaskOptions { result: 1000, ..TaskOptions::default() };
    let tool = Tool::new("fails", fails).task(TaskMode::optional());
    let router = World::new().server().tasks(options).add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("fails").await.id;
    settle().await;
    let task = client.get(&id).await;
    assert_eq!(task.status(), TaskStatus::Failed);
    let TaskState::Failed(error) = &task.state else { panic!("{task:?}") };
    assert_eq!(error.kind, ErrorKind::ResourceNotFound);
    assert!(error.message.len() < 1000 && error.data.is_none(), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_foreign_task_that_cannot_be_read_is_as_unknown_as_any() {
    let world = World::new();
    let record = wharf_model::Record {
        id: "odd".into(),
        owner: "somebody".into(),
        body: b"what is this".to_vec(),
        ..Default::default()
    };
    world.records.insert(record, 1000).await.unwrap();
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let router = world.server().add(tool).build().unwrap();
    let alice = client(&router).named("alice");
    for method in [Method::GetTask, Method::UpdateTask, Method::CancelTask, Method::TaskResult] {
        let ask = |id: &str| alice.send(RequestBuilder::new(method).target(id));
        assert_eq!(error(ask("odd").await), error(ask("unknown").await), "{}", method.name());
    }
    assert_eq!(alice.listen(&["odd"]).await.1, [""; 0]);
}

async fn list(client: &Client, cursor: Option<&str>) -> Outcome {
    let list = RequestBuilder::new(Method::ListTasks);
    client.send(cursor.into_iter().fold(list, RequestBuilder::cursor)).await
}

#[tokio::test(start_paused = true)]
async fn a_list_loads_few_tasks_at_a_time() {
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let router = World::new().server().add(tool).build().unwrap();
    let alice = client(&router).named("alice");
    for _ in 0..25 {
        alice.task("t").await;
    }
    let (mut sizes, mut cursor) = (vec![], None);
    loop {
        let Outcome::Complete(Reply::TaskList { tasks, next }) =
            list(&alice, cursor.as_deref()).await
        else {
            panic!("no list")
        };
        sizes.push(tasks.len());
        cursor = next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(sizes, [10, 10, 5]);
}

#[tokio::test(start_paused = true)]
async fn a_cursor_whose_task_is_gone_is_not_the_end_of_the_list() {
    let world = World::new();
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let router = world.server().add(tool).build().unwrap();
    let alice = client(&router).named("alice");
    for _ in 0..11 {
        alice.task("t").await;
    }
    let Outcome::Complete(Reply::TaskList { tasks, next }) = list(&alice, None).await else {
        panic!("no list")
    };
    assert!(world.records.remove(&tasks.last().unwrap().id).await.unwrap());
    let refused = error(list(&alice, next.as_deref()).await);
    assert_eq!(refused.kind, ErrorKind::InvalidCursor);
}

/// Nested to the maximum depth of a message.
fn deep() -> serde_json::Value {
    (0..123).fold(json!(1), |inner, _| json!([inner]))
}

#[tokio::test(start_paused = true)]
async fn what_is_nested_deep_can_be_read_back() {
    async fn result() -> ToolResult {
        let mut result = ToolResult::text("deep");
        result.meta = serde_json::from_value(json!({"deep": deep()})).unwrap();
        result
    }
    async fn fails() -> Result<(), Error> {
        Err(Error::resource_not_found("x:y").with_data(deep()))
    }
    let world = World::new();
    let router = world.server();
    let router = router.add(Tool::new("result", result).task(TaskMode::optional()));
    let router = router.add(Tool::new("fails", fails).task(TaskMode::optional())).build().unwrap();
    let client = client(&router);
    let capabilities = json!({"experimental": {"deep": {"deep": deep()}}, "elicitation": {}});
    let capabilities: ClientCapabilities = serde_json::from_value(capabilities).unwrap();
    let info: Implementation =
        serde_json::from_value(json!({"name": "n", "version": "1", "deep": deep()})).unwrap();
    for tool in ["result", "fails"] {
        let meta = json!({"deep": deep(), "progressToken": 7}).to_string();
        let mut request = client.request(call(tool).meta(&meta));
        request = request
            .from_peer(std::sync::Arc::new(Peer::new(Some(info.clone()), capabilities.clone())));
        let id = task(done(&mut client.start(request)).await).id;
        settle().await;
        let task = client.get(&id).await;
        let deep = match &task.state {
            TaskState::Completed(result) => &result.meta.as_ref().unwrap()["deep"],
            TaskState::Failed(error) => error.data.as_deref().unwrap(),
            other => panic!("{other:?}"),
        };
        assert_eq!(*deep, self::deep());
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_nested_too_deep_is_not_kept() {
    fn too_deep() -> serde_json::Value {
        (0..200).fold(json!(1), |inner, _| json!([inner]))
    }
    async fn result() -> ToolResult {
        let mut result = ToolResult::text("deep");
        result.meta = serde_json::from_value(json!({"deep": too_deep()})).unwrap();
        result
    }
    async fn fails() -> Result<(), Error> {
        Err(Error::resource_not_found("x:y").with_data(too_deep()))
    }
    async fn asks(ctx: Ctx) -> String {
        let mut request = SamplingRequest::default();
        request.metadata = Some(json!({"deep": too_deep()}));
        ctx.sample("s", request).await.unwrap_err().to_string()
    }
    let router = World::new().server();
    let router = router.add(Tool::new("result", result).task(TaskMode::optional()));
    let router = router.add(Tool::new("asks", asks).task(TaskMode::optional()));
    let router = router.add(Tool::new("fails", fails).task(TaskMode::optional())).build().unwrap();
    let client = client(&router);
    for tool in ["result", "asks", "fails"] {
        let id = client.task(tool).await.id;
        settle().await;
        let task = client.get(&id).await;
        match &task.state {
            TaskState::Failed(error) => assert_eq!(error.data, None),
            _ => assert!(ended(&task).contains("nested"), "{}", ended(&task)),
        }
    }
}
