//! Tasks in the caller's hands.
#![allow(clippy::unwrap_used)]

mod support;

use futures_util::StreamExt;
use serde_json::json;
use support::{Fake, SECOND, answering, caller, played::*};
use wharf_client::ClientHandlerBuilder;
use wharf_model::{
    ElicitResult, Error, ErrorKind, Method, Notification, Outcome, TaskRequest, TaskState,
    TaskStatus, ToolResult,
};

fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

fn statuses(link: &Fake) -> Vec<TaskRequest> {
    let calls = link.sent().into_iter().filter(|it| it.method == Method::CallTool);
    calls.map(|it| it.tasking).collect()
}

#[tokio::test(start_paused = true)]
async fn a_handle_is_there_at_once_and_waits_for_the_end() {
    let link = Played::shown([working("halfway"), completed("done")]).link();
    let task = caller(&link).call_task("slow", ()).await.unwrap();
    assert_eq!((task.id(), link.of(Method::GetTask).len()), (Some("t-1"), 0));
    assert_eq!(text(&task.wait().await.unwrap()), "done");
    assert_eq!(statuses(&link), [TaskRequest::Welcome]);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_answers_at_once_makes_a_handle_that_is_done() {
    let link = Fake::default().then(ToolResult::text("at once")).link();
    let task = caller(&link).call_task("quick", ()).await.unwrap();
    assert_eq!(task.id(), None);
    assert_eq!(text(&task.wait().await.unwrap()), "at once");
    assert_eq!(text(&task.wait().await.unwrap()), "at once");
    for error in [task.get().await.unwrap_err(), task.cancel().await.unwrap_err()] {
        assert_eq!(error.kind, ErrorKind::TaskNotFound);
        assert!(error.message.contains("`wait` returns it"), "{}", error.message);
    }
    assert_eq!(link.count(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_kept_id_leads_back_to_the_task() {
    let link = Played::shown([asking(&[("q", "?")]), completed("done")]).link();
    let answers = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    let task = answering(&link, answers).task("t-1");
    assert_eq!(link.count(), 0);
    assert_eq!(text(&task.wait().await.unwrap()), "done");
    assert_eq!(link.of(Method::UpdateTask).len(), 1);
    assert!(link.of(Method::CallTool).is_empty());
}

#[tokio::test(start_paused = true)]
async fn giving_up_the_wait_leaves_the_task_alone() {
    let link = Played::shown([]).always_works().link();
    let caller = caller(&link);
    let task = caller.call_task("slow", ()).await.unwrap();
    let error = task.wait().total(5 * SECOND).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::RequestTimeout);
    drop(task);
    caller.close().await;
    assert!(link.of(Method::CancelTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_end_that_was_seen_never_changes() {
    let link = Played::shown([completed("done")]).always_works().link();
    let task = caller(&link).task("t-1");
    for _ in 0..3 {
        assert_eq!(task.get().await.unwrap().status(), TaskStatus::Completed);
        assert_eq!(text(&task.wait().await.unwrap()), "done");
    }
    assert_eq!(task.changes().count().await, 1);
    assert_eq!(link.of(Method::GetTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn changes_are_what_is_new_up_to_the_end() {
    let looks = [working("a"), working("a"), working("b"), asking(&[("q", "?")]), completed("z")];
    let link = Played::shown(looks).link();
    let changes = caller(&link).task("t-1").changes();
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
    assert!(link.of(Method::UpdateTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn changes_end_with_the_error_of_a_task_that_is_gone() {
    let link = Played::shown([]).always_looks(Error::new(ErrorKind::TaskNotFound)).link();
    let seen: Vec<_> = caller(&link).task("t-1").changes().collect().await;
    assert_eq!(seen, [Err(Error::new(ErrorKind::TaskNotFound))]);
}

#[tokio::test(start_paused = true)]
async fn a_task_is_answered_and_cancelled_by_hand() {
    let link = Played::shown([]).link();
    let task = caller(&link).task("t-1");
    task.update(json!({"q": {"action": "decline"}})).await.unwrap();
    task.cancel().await.unwrap();
    let answers = json!({"taskId": "t-1", "inputResponses": {"q": {"action": "decline"}}});
    assert_eq!(link.of(Method::UpdateTask), [answers]);
    assert_eq!(link.of(Method::CancelTask), [json!({"taskId": "t-1"})]);
    let error = task.update(["no object"]).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InvalidParams);
}

fn tool(support: &str) -> serde_json::Value {
    json!({"name": "slow", "inputSchema": {"type": "object"},
        "execution": {"taskSupport": support}})
}

#[tokio::test(start_paused = true)]
async fn a_server_that_wants_to_be_asked_for_tasks_is_asked() {
    for support in ["optional", "required"] {
        let link = Played::fetched([completed("")]).result("fetched").link();
        link.lists(tool(support));
        let task = caller(&link).call_task("slow", ()).keep_for(60 * SECOND).await.unwrap();
        assert_eq!(task.id(), Some("t-1"));
        assert_eq!(statuses(&link), [TaskRequest::Wanted(Some(60_000))]);
        assert_eq!(text(&task.wait().await.unwrap()), "fetched");
    }
    let link = Played::fetched([]).result("at once").link();
    link.lists(tool("forbidden"));
    let task = caller(&link).call_task("slow", ()).await.unwrap();
    assert_eq!((task.id(), statuses(&link)), (None, vec![TaskRequest::Declined]));
    assert_eq!(text(&task.wait().await.unwrap()), "at once");
}

#[tokio::test(start_paused = true)]
async fn a_list_that_changes_while_it_is_asked_for_makes_no_plain_call_of_a_task() {
    let can = json!({"tools": {}, "tasks": {"requests": {"tools": {"call": {}}}}});
    let link = Fake::with(can)
        .play(async |_, _| {
            tokio::time::sleep(SECOND).await;
            support::tool(serde_json::from_value(tool("optional")).unwrap())
        })
        .then(Outcome::Task(Box::new(task(TaskState::Working))))
        .link();
    let caller = caller(&link);
    let call = caller.call_task("slow", ());
    let change = async {
        tokio::time::sleep(SECOND / 2).await;
        link.say(Notification::ToolsChanged);
    };
    let (started, ()) = tokio::join!(call.into_future(), change);
    assert_eq!(started.unwrap().id(), Some("t-1"));
    assert_eq!(statuses(&link), [TaskRequest::Wanted(None)]);
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_task_has_its_result_wherever_that_must_be_fetched() {
    let link = Played::fetched([completed("")]).result("fetched").link();
    let task = caller(&link).task("t-1");
    let TaskState::Completed(result) = task.get().await.unwrap().state else { panic!() };
    assert_eq!(text(&result), "fetched");
    // A tool's own failure is a result, whatever the server calls the task.
    let failed = with(TaskState::Failed(Box::new(Error::new(ErrorKind::TaskFailed))));
    let own = Outcome::from(ToolResult::error("no"));
    let error = Outcome::from(Error::new(ErrorKind::InvalidParams));
    let link = Played::fetched([failed.clone(), failed]).results([own, error]).link();
    let caller = caller(&link);
    let TaskState::Completed(result) = caller.task("t-1").get().await.unwrap().state else {
        panic!()
    };
    assert!(result.is_error);
    let state = caller.task("t-1").get().await.unwrap().state;
    assert_eq!(state, TaskState::Failed(Box::new(Error::new(ErrorKind::InvalidParams))));
}

#[tokio::test(start_paused = true)]
async fn a_server_that_asks_who_waits_takes_no_answers_otherwise() {
    let link = Played::fetched([]).link();
    let error = caller(&link).task("t-1").update(json!({})).await.unwrap_err();
    assert_eq!((error.kind, link.count()), (ErrorKind::CapabilityNotSupported, 0));
}

#[tokio::test(start_paused = true)]
async fn tasks_are_listed_where_servers_list_them() {
    let link = Played::fetched([]).link();
    assert_eq!(caller(&link).tasks().await.unwrap().len(), 2);
    let link = Played::shown([]).link();
    let error = caller(&link).tasks().await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::CapabilityNotSupported);
    assert!(error.message.contains("does not list tasks"), "{}", error.message);
    let tasks = || wharf_model::Reply::TaskList { tasks: vec![], next: Some("again".into()) };
    let can = json!({"tools": {}, "tasks": {"list": {}}});
    let link = Fake::with(can).always(move |_| tasks().into()).link();
    let error = caller(&link).tasks().await.unwrap_err();
    assert_eq!((error.kind, link.count()), (ErrorKind::ContentTooLarge, 2));
}
