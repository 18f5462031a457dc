//! Task handles.

use crate::support::{FakeTransport, SECOND, answering, caller, scripted_tasks::*};
use futures_util::StreamExt;
use serde_json::json;
use wharf_client::ClientHandlerBuilder;
use wharf_model::{
    ElicitResult, Error, ErrorKind, Method, Notification, Outcome, TaskRequest, TaskState,
    TaskStatus, ToolResult,
};

fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

fn statuses(transport: &FakeTransport) -> Vec<TaskRequest> {
    let calls = transport.sent().into_iter().filter(|it| it.method == Method::CallTool);
    calls.map(|it| it.tasking).collect()
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_returned_immediately_and_waits_for_the_end() {
    let transport = FakeTaskServer::extension([working("halfway"), completed("done")]).transport();
    let task = caller(&transport).call_task("slow", ()).await.unwrap();
    assert_eq!((task.id(), transport.of(Method::GetTask).len()), (Some("t-1"), 0));
    assert_eq!(text(&task.wait().await.unwrap()), "done");
    assert_eq!(statuses(&transport), [TaskRequest::Welcome]);
}

#[tokio::test(start_paused = true)]
async fn an_immediate_result_makes_a_finished_handle() {
    let transport = FakeTransport::default().then(ToolResult::text("at once")).transport();
    let task = caller(&transport).call_task("quick", ()).await.unwrap();
    assert_eq!(task.id(), None);
    assert_eq!(text(&task.wait().await.unwrap()), "at once");
    assert_eq!(text(&task.wait().await.unwrap()), "at once");
    for error in [task.get().await.unwrap_err(), task.cancel().await.unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::TaskNotFound);
        assert!(error.message().contains("`wait` returns it"), "{}", error.message());
    }
    assert_eq!(transport.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_stored_id_returns_to_the_task() {
    let transport =
        FakeTaskServer::extension([asking(&[("q", "?")]), completed("done")]).transport();
    let answers = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    let task = answering(&transport, answers).task("t-1");
    assert_eq!(transport.count(), 0);
    assert_eq!(text(&task.wait().await.unwrap()), "done");
    assert_eq!(transport.of(Method::UpdateTask).len(), 1);
    assert!(transport.of(Method::CallTool).is_empty());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_wait_does_not_cancel_the_task() {
    let transport = FakeTaskServer::extension([]).always_works().transport();
    let caller = caller(&transport);
    let task = caller.call_task("slow", ()).await.unwrap();
    let error = task.wait().total(5 * SECOND).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTimeout);
    drop(task);
    caller.close().await;
    assert!(transport.of(Method::CancelTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_final_state_never_changes() {
    let transport = FakeTaskServer::extension([completed("done")]).always_works().transport();
    let task = caller(&transport).task("t-1");
    for _ in 0..3 {
        assert_eq!(task.get().await.unwrap().status(), TaskStatus::Completed);
        assert_eq!(text(&task.wait().await.unwrap()), "done");
    }
    assert_eq!(task.changes().count().await, 1);
    assert_eq!(transport.of(Method::GetTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_yields_each_new_state_up_to_the_final_one() {
    let states = [working("a"), working("a"), working("b"), asking(&[("q", "?")]), completed("z")];
    let transport = FakeTaskServer::extension(states).transport();
    let changes = caller(&transport).task("t-1").changes();
    let seen: Vec<_> = changes.map(|it| it.unwrap()).collect().await;
    let told: Vec<_> =
        seen.iter().map(|it| (it.status().as_str(), it.message.as_deref())).collect();
    let expected = [
        ("working", Some("a")),
        ("working", Some("b")),
        ("input_required", None),
        ("completed", None),
    ];
    assert_eq!(told, expected);
    assert!(transport.of(Method::UpdateTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn changes_end_with_the_error_of_a_task_that_is_gone() {
    let transport =
        FakeTaskServer::extension([]).always_state(Error::new(ErrorKind::TaskNotFound)).transport();
    let seen: Vec<_> = caller(&transport).task("t-1").changes().collect().await;
    let kinds: Vec<_> = seen.iter().map(|it| it.as_ref().unwrap_err().kind()).collect();
    assert_eq!(kinds, [ErrorKind::TaskNotFound]);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_answered_and_cancelled_through_its_handle() {
    let transport = FakeTaskServer::extension([]).transport();
    let task = caller(&transport).task("t-1");
    task.update(json!({"q": {"action": "decline"}})).await.unwrap();
    task.cancel().await.unwrap();
    let answers = json!({"taskId": "t-1", "inputResponses": {"q": {"action": "decline"}}});
    assert_eq!(transport.of(Method::UpdateTask), [answers]);
    assert_eq!(transport.of(Method::CancelTask), [json!({"taskId": "t-1"})]);
    let error = task.update(["no object"]).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidParams);
}

fn tool(support: &str) -> serde_json::Value {
    json!({"name": "slow", "inputSchema": {"type": "object"},
        "execution": {"taskSupport": support}})
}

#[tokio::test(start_paused = true)]
async fn a_task_is_requested_from_a_legacy_server() {
    for support in ["optional", "required"] {
        let transport = FakeTaskServer::legacy([completed("")]).result("fetched").transport();
        transport.lists(tool(support));
        let task = caller(&transport).call_task("slow", ()).keep_for(60 * SECOND).await.unwrap();
        assert_eq!(task.id(), Some("t-1"));
        assert_eq!(statuses(&transport), [TaskRequest::Wanted(Some(60_000))]);
        assert_eq!(text(&task.wait().await.unwrap()), "fetched");
    }
    let transport = FakeTaskServer::legacy([]).result("at once").transport();
    transport.lists(tool("forbidden"));
    let task = caller(&transport).call_task("slow", ()).await.unwrap();
    assert_eq!((task.id(), statuses(&transport)), (None, vec![TaskRequest::Declined]));
    assert_eq!(text(&task.wait().await.unwrap()), "at once");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_changes_meanwhile_still_leads_to_a_task_call() {
    let can = json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}});
    let transport = FakeTransport::with(can)
        .play(async |_, _| {
            tokio::time::sleep(SECOND).await;
            crate::support::tool(serde_json::from_value(tool("optional")).unwrap())
        })
        .then(Outcome::Task(Box::new(task(TaskState::Working))))
        .transport();
    let caller = caller(&transport);
    let call = caller.call_task("slow", ());
    let change = async {
        tokio::time::sleep(SECOND / 2).await;
        transport.notify(Notification::ToolsChanged);
    };
    let (started, ()) = tokio::join!(call.into_future(), change);
    assert_eq!(started.unwrap().id(), Some("t-1"));
    assert_eq!(statuses(&transport), [TaskRequest::Wanted(None)]);
}

#[tokio::test(start_paused = true)]
async fn the_final_state_includes_a_result_that_must_be_fetched() {
    let transport = FakeTaskServer::legacy([completed("")]).result("fetched").transport();
    let task = caller(&transport).task("t-1");
    let TaskState::Completed(result) = task.get().await.unwrap().state else { panic!() };
    assert_eq!(text(&result), "fetched");
    // A failure of the tool is a result, whatever the task's status.
    let failed = with(TaskState::Failed(Box::new(Error::new(ErrorKind::TaskFailed))));
    let own = Outcome::from(ToolResult::error("no"));
    let error = Outcome::from(Error::new(ErrorKind::InvalidParams));
    let transport =
        FakeTaskServer::legacy([failed.clone(), failed]).results([own, error]).transport();
    let caller = caller(&transport);
    let TaskState::Completed(result) = caller.task("t-1").get().await.unwrap().state else {
        panic!()
    };
    assert!(result.is_error);
    let state = caller.task("t-1").get().await.unwrap().state;
    assert_eq!(state, TaskState::Failed(Box::new(Error::new(ErrorKind::InvalidParams))));
}

#[tokio::test(start_paused = true)]
async fn a_legacy_server_accepts_answers_only_during_wait() {
    let transport = FakeTaskServer::legacy([]).transport();
    let error = caller(&transport).task("t-1").update(json!({})).await.unwrap_err();
    assert_eq!((error.kind(), transport.count()), (ErrorKind::CapabilityNotSupported, 0));
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_where_servers_list_them() {
    let transport = FakeTaskServer::legacy([]).transport();
    assert_eq!(caller(&transport).tasks().await.unwrap().len(), 2);
    let transport = FakeTaskServer::extension([]).transport();
    let error = caller(&transport).tasks().await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::CapabilityNotSupported);
    assert!(error.message().contains("does not list tasks"), "{}", error.message());
    let tasks = || wharf_model::Reply::TaskList { tasks: vec![], next: Some("again".into()) };
    let can = json!({"tools": {}, "tasks": {"list": {}}});
    let transport = FakeTransport::with(can).always(move |_| tasks().into()).transport();
    let error = caller(&transport).tasks().await.unwrap_err();
    assert_eq!((error.kind(), transport.count()), (ErrorKind::ContentTooLarge, 2));
}
