//! Tasks, from the call that creates one to the result that its owner reads.

use std::time::Duration;

use crate::task_support::*;
use futures_util::future::join;
use serde_json::json;
use wharf_model::{
    Error, ErrorKind, Event, InputMode, LiveSubscriptionFilter, Method, Notification, Outcome,
    Reply, RequestBuilder, Sharing, SubscriptionFilter, TASKS_EXTENSION, TaskRequest, TaskState,
    TaskStatus, TaskSupport,
};
use wharf_server::{
    Args, CallLimits, ClientRequestError, Ctx, KeyRing, Router, RouterBuilder, State, TaskMode,
    TaskOptions, Tool, ToolError,
};

async fn slow(ctx: Ctx) -> String {
    tokio::time::sleep(seconds(10)).await;
    format!("done {}", ctx.task_id().is_some())
}

fn slow_tools() -> RouterBuilder {
    TestStores::new()
        .server()
        .add(Tool::new("optional", slow).task(TaskMode::optional()))
        .add(Tool::new("required", slow).task(TaskMode::required()))
        .add(Tool::new("forbidden", slow).task(TaskMode::forbidden()))
        .add(Tool::new("plain", slow))
}

#[tokio::test(start_paused = true)]
async fn a_task_is_stored_before_its_id_is_returned() {
    let router = slow_tools().build().unwrap();
    let client = client(&router);
    let task = client.task("optional").await;
    assert_eq!(task.status(), TaskStatus::Working);
    assert!(task.id.len() >= 22, "128 bits at least");
    assert_eq!((task.ttl, task.poll_interval), (Some(3_600_000), Some(1000)));
    assert_eq!(client.get(&task.id).await.status(), TaskStatus::Working);
    pass(seconds(11)).await;
    let ended_task = client.get(&task.id).await;
    assert_eq!(completed_text(&ended_task), "done true");
    assert!(ended_task.updated_at > task.updated_at);
    assert_eq!(ended_task.created_at, task.created_at);
    // It is kept for exactly its `ttl`.
    pass(seconds(3600 - 12)).await;
    assert_eq!(client.get(&task.id).await, ended_task);
    pass(seconds(2)).await;
    let gone = error(client.send_for_task(Method::GetTask, &task.id).await);
    assert_eq!(gone, Error::new(ErrorKind::TaskNotFound));
}

#[tokio::test(start_paused = true)]
async fn caller_and_tool_decide_whether_a_call_is_a_task() {
    let router = slow_tools().build().unwrap();
    let client = client(&router);
    use TaskRequest::*;
    let task = Ok("task");
    let plain = Ok("result");
    let table = [
        (Unknown, [plain, plain, plain, plain]),
        (Declined, [plain, Err(ErrorKind::TaskRequired), plain, plain]),
        (Welcome, [task, task, plain, plain]),
        (Wanted(None), [task, task, Err(ErrorKind::TaskForbidden), Err(ErrorKind::TaskForbidden)]),
    ];
    for (tasking, expected) in table {
        for (tool, expected) in
            ["optional", "required", "forbidden", "plain"].into_iter().zip(expected)
        {
            let found = match client.with_tasking(tasking).call(tool).await {
                Outcome::Task(_) => Ok("task"),
                Outcome::Complete(Reply::Tool(result)) => {
                    assert_eq!(text(&result), "done false");
                    Ok("result")
                }
                other => Err(error(other).kind),
            };
            assert_eq!(found, expected, "{tasking:?} {tool}");
        }
    }
    let refused = error(client.with_tasking(Declined).call("required").await);
    let needed = json!({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}});
    assert_eq!(refused.data.as_deref(), Some(&needed));
}

#[tokio::test(start_paused = true)]
async fn a_server_without_tasks_ignores_task_requests_and_rejects_task_methods() {
    let router = Router::builder().add(Tool::new("plain", slow)).build().unwrap();
    let client = client(&router).with_principal("alice");
    result(client.with_tasking(TaskRequest::Wanted(None)).call("plain").await);
    for method in [
        Method::GetTask,
        Method::UpdateTask,
        Method::CancelTask,
        Method::TaskResult,
        Method::ListTasks,
    ] {
        let refused = error(client.send_for_task(method, "x").await);
        assert_eq!(refused.kind, ErrorKind::CapabilityNotSupported, "{}", method.name());
    }
    // A subscription filter is restricted to existing tasks.
    assert_eq!(client.listen(&["x"]).await.1, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn discovery_announces_task_support_per_caller() {
    let router = slow_tools().build().unwrap();
    let found = |outcome| match outcome {
        Outcome::Complete(Reply::Discover(discovery)) => discovery.capabilities,
        other => panic!("{other:?}"),
    };
    let anybody = client(&router);
    let nobody = found(anybody.send(RequestBuilder::new(Method::Discover)).await);
    let alice =
        found(anybody.with_principal("alice").send(RequestBuilder::new(Method::Discover)).await);
    assert_eq!(nobody.extensions[TASKS_EXTENSION], json!({}));
    let says = json!({"cancel": {}, "requests": {"tools": {"call": {}}}});
    assert_eq!(json!(nobody.tasks), says);
    assert_eq!(alice.tasks.unwrap()["list"], json!({}));
    let Outcome::Complete(Reply::Tools(page)) =
        anybody.send(RequestBuilder::new(Method::ListTools)).await
    else {
        panic!("no list")
    };
    let support = page
        .items()
        .iter()
        .map(|tool| tool.execution.as_ref().and_then(|execution| execution.task_support.clone()));
    let expected = [
        Some(TaskSupport::Optional),
        Some(TaskSupport::Required),
        Some(TaskSupport::Forbidden),
        None,
    ];
    assert_eq!(support.collect::<Vec<_>>(), expected);

    let options = TaskOptions::default().threshold(Some(seconds(1)));
    let promoting = Router::builder().tasks(options).add(Tool::new("plain", slow)).build().unwrap();
    let says = found(client(&promoting).send(RequestBuilder::new(Method::Discover)).await);
    assert!(says.extensions.contains_key(TASKS_EXTENSION));
    assert_eq!(says.tasks, None, "tasks cannot be requested");
}

#[tokio::test(start_paused = true)]
async fn a_requested_ttl_is_granted_within_limits() {
    let options = TaskOptions::default().longest_ttl(seconds(100));
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let router = Router::builder().tasks(options).add(tool).build().unwrap();
    for (wanted, granted) in [(None, 100_000), (Some(5000), 5000), (Some(u64::MAX), 100_000)] {
        let task = client(&router).with_tasking(TaskRequest::Wanted(wanted)).task("t").await;
        assert_eq!(task.ttl, Some(granted));
    }
}

#[tokio::test(start_paused = true)]
async fn a_tool_error_is_a_result_and_a_protocol_error_is_not() {
    async fn tool_error() -> Result<(), ToolError> {
        Err(ToolError::new("no such file"))
    }
    async fn protocol_error() -> Result<(), Error> {
        Err(Error::resource_not_found("x:y"))
    }
    async fn panics() {
        panic!("secret")
    }
    #[derive(serde::Deserialize, schemars::JsonSchema)]
    struct Number {
        #[allow(dead_code)]
        n: u8,
    }
    async fn picky(_: Args<Number>) {}
    let router = TestStores::new()
        .server()
        .add(Tool::new("tool_error", tool_error).task(TaskMode::optional()))
        .add(Tool::new("protocol_error", protocol_error).task(TaskMode::optional()))
        .add(Tool::new("panics", panics).task(TaskMode::optional()))
        .add(Tool::new("picky", picky).task(TaskMode::optional()))
        .build()
        .unwrap();
    let client = client(&router);
    for (tool, text) in
        [("tool_error", "no such file"), ("panics", "The tool"), ("picky", "required property")]
    {
        let id = client.task(tool).await.id;
        settle().await;
        let task = client.get(&id).await;
        let TaskState::Completed(result) = &task.state else { panic!("{task:?}") };
        assert!(result.is_error, "{tool}");
        let said = crate::task_support::text(result);
        assert!(tool == "panics" || said.contains(text), "{tool}: {said}");
        assert!(!said.contains("secret"));
    }
    let id = client.task("protocol_error").await.id;
    settle().await;
    let task = client.get(&id).await;
    let failed = Error::resource_not_found("x:y");
    assert_eq!(task.message.as_deref(), Some("Resource not found: x:y"));
    assert_eq!(task.state, TaskState::Failed(Box::new(failed.clone())));
    assert_eq!(error(client.send_for_task(Method::TaskResult, &id).await), failed);
}

#[tokio::test(start_paused = true)]
async fn a_client_request_waits_in_the_task_for_its_response() {
    async fn asks(ctx: Ctx) -> Result<String, ClientRequestError> {
        let confirm: Confirm = ctx.ask("c", "Sure?").await?;
        Ok(format!("sure: {}", confirm.sure))
    }
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("asks").await.id;
    settle().await;
    let task = client.get(&id).await;
    assert_eq!(open_keys(&task), ["c"]);
    // Longer than the idle timeout of a call.
    pass(seconds(600)).await;
    assert_eq!(open_keys(&client.get(&id).await), ["c"]);
    // Responses with unknown keys are ignored.
    let updated = client.update(&id, json!({"unknown": sure()})).await;
    assert!(matches!(updated, Outcome::Complete(Reply::TaskUpdated)));
    assert_eq!(open_keys(&client.get(&id).await), ["c"]);
    client.update(&id, json!({"c": sure()})).await;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "sure: true");
    // The task has ended, so the response is ignored.
    let updated = client.update(&id, json!({"c": sure()})).await;
    assert!(matches!(updated, Outcome::Complete(Reply::TaskUpdated)));
}

#[tokio::test(start_paused = true)]
async fn two_client_requests_are_answered_one_by_one() {
    async fn asks(ctx: Ctx) -> Result<String, ClientRequestError> {
        let (a, b) = join(ctx.ask::<Confirm>("a", "A?"), ctx.ask::<Confirm>("b", "B?")).await;
        Ok(format!("{} {}", a?.sure, b.is_err()))
    }
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("asks").await.id;
    settle().await;
    assert_eq!(open_keys(&client.get(&id).await), ["a", "b"]);
    client.update(&id, json!({"b": {"action": "decline"}})).await;
    settle().await;
    let task = client.get(&id).await;
    assert_eq!(open_keys(&task), ["a"]);
    // The first response to a request is final.
    client.update(&id, json!({"b": sure()})).await;
    client.update(&id, json!({"a": sure()})).await;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "true true");
}

#[tokio::test(start_paused = true)]
async fn a_reused_key_and_an_invalid_response_are_errors() {
    async fn asks(ctx: Ctx) -> Result<String, ClientRequestError> {
        let first = ctx.ask::<Confirm>("c", "Sure?").await;
        let again = ctx.ask::<Confirm>("c", "Sure?").await;
        let other = ctx.ask::<Confirm>("c", "Really?").await;
        Ok(format!("{} {} {}", first.is_err(), again.is_err(), other.unwrap_err()))
    }
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("asks").await.id;
    settle().await;
    client.update(&id, json!({"c": {"action": "accept", "content": {"sure": 7}}})).await;
    settle().await;
    let text = completed_text(&client.get(&id).await).to_owned();
    assert_eq!(text, "true true `c` is used for two different client requests in one call");
}

#[tokio::test(start_paused = true)]
async fn a_dropped_client_request_is_withdrawn() {
    async fn races(ctx: Ctx) -> &'static str {
        tokio::select! {
            _ = ctx.ask::<Confirm>("c", "Sure?") => {}
            () = tokio::time::sleep(seconds(5)) => {}
        }
        tokio::time::sleep(seconds(5)).await;
        "bored"
    }
    let tool = Tool::new("races", races).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("races").await.id;
    settle().await;
    assert_eq!(open_keys(&client.get(&id).await), ["c"]);
    pass(seconds(6)).await;
    assert_eq!(client.get(&id).await.status(), TaskStatus::Working);
    pass(seconds(6)).await;
    assert_eq!(completed_text(&client.get(&id).await), "bored");
}

#[tokio::test(start_paused = true)]
async fn waiting_for_the_result_delivers_client_requests() {
    async fn asks(ctx: Ctx) -> Result<String, ClientRequestError> {
        let confirm: Confirm = ctx.ask("c", "Sure?").await?;
        tokio::time::sleep(seconds(600)).await;
        Ok(format!("sure: {}", confirm.sure))
    }
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client =
        client(&router).with_input_mode(InputMode::Deliver).with_tasking(TaskRequest::Wanted(None));
    let id = client.task("asks").await.id;
    let request = client.request(RequestBuilder::new(Method::TaskResult).target(&id));
    let mut waiting = client.start(request);
    let Event::ClientRequest(request_id, _) = next(&mut waiting).await else {
        panic!("no client request was sent")
    };
    assert_eq!(open_keys(&client.get(&id).await), ["c"]);
    waiting.response_sender().deliver(request_id, Ok(sure().to_string()));
    // Ten minutes without an event, and no timeout.
    assert_eq!(text(&result(done(&mut waiting).await)), "sure: true");
    assert_eq!(text(&result(client.send_for_task(Method::TaskResult, &id).await)), "sure: true");
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_a_response_and_a_disconnect_is_not() {
    async fn asks(ctx: Ctx) -> String {
        format!("{:?}", ctx.ask::<Confirm>("c", "Sure?").await.unwrap_err())
    }
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client =
        client(&router).with_input_mode(InputMode::Deliver).with_tasking(TaskRequest::Wanted(None));
    let id = client.task("asks").await.id;
    let wait = || client.start(client.request(RequestBuilder::new(Method::TaskResult).target(&id)));
    let mut first = wait();
    assert!(matches!(next(&mut first).await, Event::ClientRequest(..)));
    drop(first);
    settle().await;
    assert_eq!(open_keys(&client.get(&id).await), ["c"]);
    let mut incapable = wait();
    let Event::ClientRequest(request_id, ask) = next(&mut incapable).await else {
        panic!("no client request was sent")
    };
    incapable.refuse(request_id, &ask);
    let mut second = wait();
    let Event::ClientRequest(request_id, _) = next(&mut second).await else {
        panic!("no client request was sent")
    };
    second.response_sender().deliver(request_id, Err(Error::new(ErrorKind::RefusedPolicy)));
    let said = text(&result(done(&mut second).await)).to_owned();
    assert!(said.contains("RefusedPolicy"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn cancellation_is_final_and_stops_the_handler_at_once() {
    async fn works(State(effects): State<Counter>, ctx: Ctx) -> Result<(), ClientRequestError> {
        effects.hit();
        tokio::time::sleep(seconds(10)).await;
        effects.hit();
        ctx.ask::<Confirm>("c", "Sure?").await?;
        effects.hit();
        Ok(())
    }
    let effects = Counter::default();
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = TestStores::new().server().state(effects.clone()).add(tool).build().unwrap();
    let client = client(&router);
    let (running, parked) = (client.task("works").await.id, client.task("works").await.id);
    settle().await;
    let (task, too_late) = client.cancel(&running).await;
    assert_eq!((task.status(), too_late), (TaskStatus::Cancelled, false));
    pass(seconds(20)).await;
    assert_eq!(effects.count(), 3, "the first handler never continued");
    assert_eq!(open_keys(&client.get(&parked).await), ["c"]);
    client.cancel(&parked).await;
    client.update(&parked, json!({"c": sure()})).await;
    settle().await;
    assert_eq!(effects.count(), 3);
    for id in [&running, &parked] {
        let (task, too_late) = client.cancel(id).await;
        assert_eq!((task.status(), too_late), (TaskStatus::Cancelled, true));
        let failure = error(client.send_for_task(Method::TaskResult, id).await);
        assert_eq!(failure.kind, ErrorKind::TaskCancelled);
    }
    let id = client.task("works").await.id;
    pass(seconds(11)).await;
    client.update(&id, json!({"c": sure()})).await;
    settle().await;
    let (task, too_late) = client.cancel(&id).await;
    assert_eq!((task.status(), too_late), (TaskStatus::Completed, true));
}

#[tokio::test(start_paused = true)]
async fn a_foreign_task_is_an_unknown_task_to_the_byte() {
    async fn asks(ctx: Ctx) -> Result<(), ClientRequestError> {
        ctx.ask::<Confirm>("c", "Sure?").await.map(drop)
    }
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let (nobody, alice, bob) = (
        client(&router),
        client(&router).with_principal("alice"),
        client(&router).with_principal("bob"),
    );
    let callers = [&nobody, &alice, &bob];
    let mut ids = vec![];
    for caller in callers {
        ids.push(caller.task("asks").await.id);
    }
    settle().await;
    for (index, caller) in callers.into_iter().enumerate() {
        for (owner, id) in ids.iter().enumerate() {
            if owner == index {
                assert_eq!(open_keys(&caller.get(id).await), ["c"]);
                continue;
            }
            for method in
                [Method::GetTask, Method::UpdateTask, Method::CancelTask, Method::TaskResult]
            {
                let ask = |id: &str| {
                    caller.send(RequestBuilder::new(method).target(id).input_responses("{}"))
                };
                let (foreign, unknown) = (error(ask(id).await), error(ask("unknown").await));
                assert_eq!(foreign, unknown, "{}", method.name());
                assert_eq!(foreign, Error::new(ErrorKind::TaskNotFound));
                assert_eq!(error(ask(&"x".repeat(10_000)).await), unknown);
            }
            assert_eq!(caller.listen(&[id]).await.1, [""; 0]);
        }
    }
    // The foreign requests had no effect.
    for (caller, id) in callers.into_iter().zip(&ids) {
        assert_eq!(open_keys(&caller.get(id).await), ["c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_list_needs_an_authenticated_caller() {
    let tool = Tool::new("t", async || "t").task(TaskMode::optional());
    let limits = CallLimits::default().page(2);
    let router = TestStores::new().server().limits(limits).add(tool).build().unwrap();
    let (nobody, alice, bob) = (
        client(&router),
        client(&router).with_principal("alice"),
        client(&router).with_principal("bob"),
    );
    let refused = error(nobody.send(RequestBuilder::new(Method::ListTasks)).await);
    assert_eq!(refused.kind, ErrorKind::CapabilityNotSupported);
    let mut ids = vec![];
    for _ in 0..5 {
        ids.push(alice.task("t").await.id);
        bob.task("t").await;
        settle().await;
    }
    let mut listed = vec![];
    let mut cursor: Option<String> = None;
    loop {
        let mut list = RequestBuilder::new(Method::ListTasks);
        if let Some(cursor) = &cursor {
            list = list.cursor(cursor);
            let theirs = bob.send(RequestBuilder::new(Method::ListTasks).cursor(cursor)).await;
            assert_eq!(error(theirs).kind, ErrorKind::InvalidCursor);
        }
        let Outcome::Complete(Reply::TaskList { tasks, next }) = alice.send(list).await else {
            panic!("no list")
        };
        assert!(tasks.len() <= 2);
        listed.extend(tasks.into_iter().map(|task| task.id));
        match next {
            Some(next) => cursor = Some(next),
            None => break,
        }
    }
    assert_eq!(listed, ids);
}

#[tokio::test(start_paused = true)]
async fn a_client_without_the_tasks_capability_gets_an_error() {
    let router = slow_tools().build().unwrap();
    let id = client(&router).task("optional").await.id;
    let silent = client(&router).with_tasking(TaskRequest::Declined);
    for method in [Method::GetTask, Method::UpdateTask, Method::CancelTask, Method::TaskResult] {
        let refused = error(silent.send_for_task(method, &id).await);
        assert_eq!(refused.kind, ErrorKind::MissingClientCapability);
        let needed = json!({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}});
        assert_eq!(refused.data.as_deref(), Some(&needed));
    }
    let listen = RequestBuilder::new(Method::Listen)
        .param("notifications", &json!({"taskIds": [id]}).to_string());
    let refused = error(silent.send(listen).await);
    assert_eq!(refused.kind, ErrorKind::MissingClientCapability);
}

#[tokio::test(start_paused = true)]
async fn exceeded_limits_are_reported() {
    async fn long() -> String {
        "x".repeat(2000)
    }
    async fn steps(ctx: Ctx) -> &'static str {
        for _ in 0..5 {
            ctx.step("s", async { 1 }).await;
        }
        "never"
    }
    async fn big_step(ctx: Ctx) -> String {
        ctx.step("s", async { "x".repeat(1000) }).await
    }
    async fn many_questions(ctx: Ctx) -> Result<(), ClientRequestError> {
        for key in ["a", "b", "c"] {
            ctx.ask::<Confirm>(key, "Sure?").await?;
        }
        Ok(())
    }
    let options = TaskOptions::default()
        .per_owner(5)
        .result(1000)
        .steps(3)
        .item(500)
        .client_requests(2)
        .waiting(1);
    let router = TestStores::new()
        .server()
        .tasks(options)
        .add(Tool::new("long", long).task(TaskMode::optional()))
        .add(Tool::new("steps", steps).task(TaskMode::optional()))
        .add(Tool::new("big_step", big_step).task(TaskMode::optional()))
        .add(Tool::new("many_questions", many_questions).task(TaskMode::optional()))
        .build()
        .unwrap();
    let client = client(&router);
    let id = client.task("long").await.id;
    settle().await;
    let task = client.get(&id).await;
    assert!(completed_text(&task).contains("1000 is the limit"), "{task:?}");
    for (tool, said) in [("steps", "more than 3 steps"), ("big_step", "500 is the limit")] {
        let id = client.task(tool).await.id;
        settle().await;
        let task = client.get(&id).await;
        assert_eq!(task.status(), TaskStatus::Failed);
        assert!(task.message.as_ref().unwrap().contains(said), "{task:?}");
    }
    let id = client.task("many_questions").await.id;
    settle().await;
    let long = json!({"a": {"action": "accept", "content": {"sure": "x".repeat(600)}}});
    assert_eq!(error(client.update(&id, long).await).kind, ErrorKind::InvalidParams);
    for key in ["a", "b"] {
        settle().await;
        client.update(&id, json!({key: sure()})).await;
    }
    settle().await;
    assert!(completed_text(&client.get(&id).await).contains("at most 2 client requests"));
    let last = client.task("many_questions").await;
    let refused = error(client.call("long").await);
    assert_eq!(refused.kind, ErrorKind::TooManyTasks);
    // Other callers are not affected.
    let alice = client.with_principal("alice");
    alice.task("long").await;
    let wait =
        || client.start(client.request(RequestBuilder::new(Method::TaskResult).target(&last.id)));
    let mut first = wait();
    assert!(futures_util::future::poll_immediate(next(&mut first)).await.is_none());
    assert_eq!(error(done(&mut wait()).await).kind, ErrorKind::Overloaded);
}

#[tokio::test(start_paused = true)]
async fn without_a_free_slot_tasks_are_queued() {
    async fn works(
        State(running): State<Counter>,
        extension: wharf_server::Extension<u32>,
    ) -> String {
        running.hit();
        tokio::time::sleep(seconds(10)).await;
        extension.0.to_string()
    }
    let running = Counter::default();
    let options = TaskOptions::default().running(2);
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = Router::builder().tasks(options).state(running.clone()).add(tool).build().unwrap();
    let client = client(&router);
    let mut ids = vec![];
    for number in 0..5_u32 {
        let mut request = client.request(call("works"));
        request.scope.insert(number);
        ids.push(task(done(&mut client.start(request)).await).id);
    }
    settle().await;
    assert_eq!(running.count(), 2);
    pass(seconds(11)).await;
    assert_eq!(running.count(), 4);
    pass(seconds(25)).await;
    for (number, id) in ids.iter().enumerate() {
        assert_eq!(
            completed_text(&client.get(id).await),
            number.to_string(),
            "extensions of layers are present"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn progress_is_stored_and_notified() {
    async fn works(ctx: Ctx) -> &'static str {
        for n in 1..=100 {
            ctx.progress_of(f64::from(n), 100.0).await;
            ctx.info("a log without a receiver").await;
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        ctx.progress_message(101.0, None, "almost").await;
        tokio::time::sleep(seconds(2)).await;
        "done"
    }
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let client = client(&router);
    let call = call("works").meta(r#"{"progressToken":"t1"}"#);
    let id = task(client.send(call).await).id;
    let (mut listening, agreed) = client.listen(&[&id]).await;
    assert_eq!(agreed, std::slice::from_ref(&id));
    pass(Duration::from_millis(5050)).await;
    let message = client.get(&id).await.message.unwrap();
    assert!(message.ends_with(" of 100"), "{message}");
    let (mut progress, mut statuses, mut messages) = (vec![], vec![], vec![]);
    while statuses.last() != Some(&TaskStatus::Completed) {
        match next(&mut listening).await {
            Event::Notify(Notification::TaskProgress { id: told, token, progress: at, .. }) => {
                assert_eq!((told, token.get()), (id.clone(), r#""t1""#));
                progress.push(at);
            }
            Event::Notify(Notification::Task(task)) => {
                statuses.push(task.status());
                messages.extend(task.message);
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(progress.is_sorted() && progress.len() <= 15, "{progress:?}");
    assert_eq!(progress.last(), Some(&101.0));
    assert_eq!(messages.last().unwrap(), "almost");
    assert!(statuses.len() <= 16, "{statuses:?}");
}

#[tokio::test(start_paused = true)]
async fn a_subscriber_gets_the_status_even_if_it_is_late() {
    async fn asks(ctx: Ctx) -> Result<(), ClientRequestError> {
        tokio::time::sleep(seconds(1)).await;
        ctx.ask::<Confirm>("c", "Sure?").await.map(drop)
    }
    let tool = Tool::new("asks", asks).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let alice = client(&router).with_principal("alice");
    let id = alice.task("asks").await.id;
    let (mut early, _) = alice.listen(&[&id, "unknown"]).await;
    let told = |event| match event {
        Event::Notify(Notification::Task(task)) => task,
        other => panic!("{other:?}"),
    };
    assert_eq!(open_keys(&told(next(&mut early).await)), ["c"]);
    let (mut late, _) = alice.listen(&[&id]).await;
    assert_eq!(open_keys(&told(next(&mut late).await)), ["c"]);
    alice.update(&id, json!({"c": sure()})).await;
    loop {
        let task = told(next(&mut early).await);
        if task.status() == TaskStatus::Completed {
            assert_eq!(task.id, id);
            break;
        }
        assert_eq!(task.status(), TaskStatus::Working);
    }
    let (mut after, _) = alice.listen(&[&id]).await;
    assert_eq!(told(next(&mut after).await).status(), TaskStatus::Completed);
}

#[tokio::test(start_paused = true)]
async fn subscribing_after_the_end_of_a_task_notifies_its_status() {
    let slow = Tool::new("slow", slow).task(TaskMode::optional());
    let quick = Tool::new("quick", async || "quick").task(TaskMode::optional());
    let router = TestStores::new().server().add(quick).add(slow).build().unwrap();
    let alice = client(&router).with_principal("alice");
    let foreign = alice.with_principal("bob").task("quick").await.id;
    for ids in [vec![], vec![alice.task("slow").await.id]] {
        let mut request = alice.request(RequestBuilder::new(Method::Listen));
        let filter =
            LiveSubscriptionFilter::new(SubscriptionFilter::default().tasks(ids.into_iter()));
        request.filter = Some(filter.clone());
        let mut listening = alice.start(request);
        let acknowledged = next(&mut listening).await;
        assert!(matches!(acknowledged, Event::Notify(Notification::Acknowledged(_))));
        let id = alice.task("quick").await.id;
        settle().await;
        // A session edits its filter like this when it sends the task handle.
        filter.edit(|filter| filter.tasks.extend([id.clone(), foreign.clone()]));
        let Event::Notify(Notification::Task(task)) = next(&mut listening).await else {
            panic!("no notification was sent")
        };
        assert_eq!((task.id.as_str(), task.status()), (id.as_str(), TaskStatus::Completed));
        assert!(filter.read(|filter| !filter.tasks.contains(&foreign)));
    }
}

#[tokio::test(start_paused = true)]
async fn only_stored_tasks_run() {
    let effects = Counter::default();
    async fn works(State(effects): State<Counter>) -> String {
        effects.hit().to_string()
    }
    let test_stores = TestStores::new();
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = test_stores.server().state(effects.clone()).add(tool).build().unwrap();
    let client = client(&router);
    test_stores.records.set_broken(true);
    let refused = error(client.call("works").await);
    assert_eq!(refused.kind, ErrorKind::TemporarilyUnavailable);
    assert!(!refused.to_string().contains("secret"));
    pass(seconds(60)).await;
    assert_eq!(effects.count(), 0);
    // Calls that need no store still work.
    let plain = client.with_tasking(TaskRequest::Declined).call("works").await;
    assert_eq!(text(&result(plain)), "1");
    test_stores.records.set_broken(false);
    let id = client.task("works").await.id;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "2");
}

#[tokio::test(start_paused = true)]
async fn a_session_subscribes_while_the_task_store_is_down() {
    async fn works() -> String {
        tokio::time::sleep(seconds(60)).await;
        "done".to_owned()
    }
    let test_stores = TestStores::new();
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = test_stores.server().add(tool).build().unwrap();
    let client = client(&router);
    let id = client.task("works").await.id;
    test_stores.records.set_broken(true);
    let listen = |since| {
        let mut request = client.request(RequestBuilder::new(Method::Listen));
        let filter = wharf_model::SubscriptionFilter::default().tools(true).tasks([id.clone()]);
        request.filter = Some(wharf_model::LiveSubscriptionFilter::new(filter));
        request.since = since;
        client.start(request)
    };
    // A client that subscribes to tasks must be notified that their state is unknown.
    let refused = error(done(&mut listen(None)).await);
    assert_eq!(refused.kind, ErrorKind::TemporarilyUnavailable);
    let mut session = listen(Some(wharf_model::ChangeVersion::FIRST));
    assert!(matches!(next(&mut session).await, Event::Notify(Notification::Acknowledged(_))));
    router.registry().tools_changed();
    let told = next(&mut session).await;
    assert!(matches!(told, Event::Notify(Notification::ToolsChanged)), "{told:?}");
    test_stores.records.set_broken(false);
    pass(seconds(61)).await;
    let Event::Notify(Notification::Task(task)) = next(&mut session).await else { panic!() };
    assert_eq!((&task.id, task.status()), (&id, wharf_model::TaskStatus::Completed));
}

#[tokio::test(start_paused = true)]
async fn stored_tasks_can_be_encrypted() {
    use wharf_model::RecordStore;
    async fn works(ctx: Ctx) -> String {
        ctx.step("s", async { "step secret".to_owned() }).await
    }
    let test_stores = TestStores::new();
    let keys: KeyRing = "ff".repeat(32).parse().unwrap();
    let keys = std::sync::Arc::new(keys);
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = test_stores.server().store_key(keys).add(tool).build().unwrap();
    let client = client(&router).with_principal("alice secret");
    let id = client.task("works").await.id;
    settle().await;
    assert_eq!(completed_text(&client.get(&id).await), "step secret");
    let record = test_stores.records.load(&id).await.unwrap().unwrap();
    let mut kept = vec![record.body, record.owner.into_bytes()];
    kept.extend(test_stores.records.attachments(&id).await.unwrap().into_values());
    for bytes in kept {
        assert!(!String::from_utf8_lossy(&bytes).contains("secret"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_needs_shared_keys() {
    let cluster = TestStores::with_sharing(Sharing::Cluster);
    let own = std::sync::Arc::new(KeyRing::random());
    let problems = cluster.server().state_cipher(own).build().unwrap_err().to_string();
    assert!(problems.contains("WHARF_STATE_KEY"), "{problems}");
    let given: KeyRing = "ff".repeat(32).parse().unwrap();
    assert!(cluster.server().state_cipher(given).build().is_ok());
    assert!(TestStores::new().server().build().is_ok());
}

#[tokio::test(start_paused = true)]
async fn code_starts_tasks_too() {
    async fn works(principal: Option<wharf_model::Principal>) -> String {
        tokio::time::sleep(seconds(5)).await;
        principal.map_or("nobody".into(), |principal| principal.id().to_owned())
    }
    let tool = Tool::new("works", works).task(TaskMode::optional());
    let router = TestStores::new().server().add(tool).build().unwrap();
    let alice = wharf_model::Principal::new("alice");
    let timer = timer();
    let task = router.spawn_task("works", json!({}), Some(alice), &timer).await.unwrap();
    assert_eq!(task.get().await.unwrap().status(), TaskStatus::Working);
    assert_eq!(text(&task.wait().await.unwrap()), "alice");
    assert_eq!(
        completed_text(&client(&router).with_principal("alice").get(task.id()).await),
        "alice"
    );
    let nobodys = router.spawn_task("works", json!({}), None, &timer).await.unwrap();
    assert_eq!(nobodys.cancel().await.unwrap(), TaskStatus::Cancelled);
    assert_eq!(nobodys.wait().await.unwrap_err().kind, ErrorKind::TaskCancelled);
    let unknown = router.spawn_task("no", json!({}), None, &timer).await.unwrap_err();
    assert_eq!(unknown, Error::tool_not_found("no"));
    assert!(router.spawn_task("works", json!(7), None, &timer).await.is_err());
}
