//! Limits on the data that clients and tools can make a store keep and a server load.

use crate::task_support::*;
use serde_json::json;
use wharf_model::{
    ClientCapabilities, Error, ErrorKind, Event, Implementation, InputMode, Method, Outcome, Peer,
    RecordStore, Reply, RequestBuilder, SamplingRequest, TaskRequest, TaskState, TaskStatus,
    ToolResult,
};
use wharf_server::{Ctx, TaskMode, TaskOptions, Tool};

#[tokio::test(start_paused = true)]
async fn responses_to_a_waiting_call_are_bounded_too() {
    async fn asks(ctx: Ctx) -> String {
        ctx.ask::<Confirm>("c", "Sure?").await.unwrap_err().to_string()
    }
    let options = TaskOptions::default().item(700);
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let test_stores = TestStores::new();
    let router = test_stores.server().tasks(options).add(tool).build().unwrap();
    let client =
        client(&router).with_input_mode(InputMode::Deliver).with_tasking(TaskRequest::Wanted(None));
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
        let Event::ClientRequest(request_id, _) = next(&mut waiting).await else {
            panic!("no client request was sent")
        };
        waiting.response_sender().deliver(request_id, answer);
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
    let options = TaskOptions::default().result(1000);
    let tool = Tool::new("fails", fails).task(TaskMode::optional());
    let router = TestStores::new().server().tasks(options).add(tool).build().unwrap();
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
async fn an_unreadable_foreign_task_is_reported_as_unknown() {
    let test_stores = TestStores::new();
    let record = wharf_model::Record::new("odd").owner("somebody").body(b"not a record".to_vec());
    test_stores.records.insert(record, 1000).await.unwrap();
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let router = test_stores.server().add(tool).build().unwrap();
    let alice = client(&router).with_principal("alice");
    for method in [Method::GetTask, Method::UpdateTask, Method::CancelTask, Method::TaskResult] {
        let ask = |id: &str| alice.send(RequestBuilder::new(method).target(id));
        assert_eq!(error(ask("odd").await), error(ask("unknown").await), "{}", method.name());
    }
    assert_eq!(alice.listen(&["odd"]).await.1, [""; 0]);
}

async fn list(client: &TestClient, cursor: Option<&str>) -> Outcome {
    let list = RequestBuilder::new(Method::ListTasks);
    client.send(cursor.into_iter().fold(list, RequestBuilder::cursor)).await
}

#[tokio::test(start_paused = true)]
async fn a_list_loads_few_tasks_at_a_time() {
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let alice = client(&router).with_principal("alice");
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
async fn a_cursor_of_an_expired_task_is_invalid() {
    let test_stores = TestStores::new();
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let router = test_stores.server().add(tool).build().unwrap();
    let alice = client(&router).with_principal("alice");
    for _ in 0..11 {
        alice.task("t").await;
    }
    let Outcome::Complete(Reply::TaskList { tasks, next }) = list(&alice, None).await else {
        panic!("no list")
    };
    assert!(test_stores.records.remove(&tasks.last().unwrap().id).await.unwrap());
    let refused = error(list(&alice, next.as_deref()).await);
    assert_eq!(refused.kind, ErrorKind::InvalidCursor);
}

/// Nested to the maximum depth of a message.
fn deep() -> serde_json::Value {
    (0..123).fold(json!(1), |inner, _| json!([inner]))
}

#[tokio::test(start_paused = true)]
async fn deeply_nested_values_can_be_read_back() {
    async fn result() -> ToolResult {
        let mut result = ToolResult::text("deep");
        result.meta = serde_json::from_value(json!({"deep": deep()})).unwrap();
        result
    }
    async fn fails() -> Result<(), Error> {
        Err(Error::resource_not_found("x:y").with_data(deep()))
    }
    let test_stores = TestStores::new();
    let router = test_stores.server();
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
async fn values_nested_too_deeply_are_rejected() {
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
    let router = TestStores::new().server();
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
            _ => assert!(completed_text(&task).contains("nested"), "{}", completed_text(&task)),
        }
    }
}
