//! Calls that become tasks are followed to their end.
#![allow(clippy::unwrap_used)]

mod support;

use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use support::{Fake, SECOND, answering, caller, caller_with, played::*};
use wharf_client::{CallOptions, ClientHandlerBuilder};
use wharf_model::{
    ClientRequest, ElicitResult, Error, ErrorKind, Method, Outcome, Reply, TaskRequest, TaskState,
    ToolResult,
};

fn methods(link: &Fake) -> Vec<Method> {
    link.sent().iter().map(|it| it.method).filter(|it| *it != Method::Listen).collect()
}

fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_becomes_a_task_ends_with_its_result() {
    let played = Played::shown([working("halfway"), completed("done")]);
    let link = played.link();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = seen.clone();
    let result = caller(&link)
        .call("slow", json!({"n": 1}))
        .on_task(move |task| see.lock().unwrap().push((task.status(), task.message.clone())))
        .await
        .unwrap();
    assert_eq!(text(&result), "done");
    use Method::{CallTool, GetTask};
    assert_eq!(methods(&link), [CallTool, GetTask, GetTask]);
    let sent = link.sent();
    assert_eq!(sent[0].tasking, TaskRequest::Welcome);
    let get = sent.iter().find(|it| it.method == GetTask).unwrap();
    assert_eq!((get.params.clone(), get.tasking), (json!({"taskId": "t-1"}), TaskRequest::Welcome));
    let statuses: Vec<&str> = seen.lock().unwrap().iter().map(|it| it.0.as_str()).collect();
    assert_eq!(statuses, ["working", "working", "completed"]);
    assert_eq!(seen.lock().unwrap()[1].1.as_deref(), Some("halfway"));
}

#[tokio::test(start_paused = true)]
async fn the_ends_of_tasks_are_the_ends_of_calls() {
    let failed = Error::new(ErrorKind::InternalError).with_message("broken");
    let ends = [
        (TaskState::Failed(Box::new(failed)), ErrorKind::InternalError, "broken"),
        (TaskState::Cancelled, ErrorKind::TaskCancelled, "Task cancelled"),
    ];
    for (state, kind, message) in ends {
        let link = Played::shown([with(state)]).link();
        let error = caller(&link).call("slow", ()).await.unwrap_err();
        assert_eq!((error.kind, &*error.message), (kind, message));
        assert!(!methods(&link).contains(&Method::CancelTask));
    }
    let link =
        Played::shown([with(TaskState::Completed(Box::new(ToolResult::error("no"))))]).link();
    assert!(caller(&link).call("slow", ()).await.unwrap().is_error);
    let link = Played::shown([completed("7")]).link();
    assert_eq!(caller(&link).call_as::<i64>("slow", ()).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn looks_are_as_far_apart_as_the_server_says_within_bounds() {
    let gaps = [
        (Some(0), 50, 60),
        (Some(3_000), 3_000, 3_300),
        (Some(1_000_000_000_000_000_000), 60_000, 66_000),
        (None, 1_000, 1_100),
    ];
    for (interval, least, most) in gaps {
        let again = || every(interval);
        let link = Played::shown([again(), again(), again(), completed("done")]).link();
        caller(&link).call("slow", ()).await.unwrap();
        let times: Vec<_> =
            link.sent().iter().filter(|it| it.method == Method::GetTask).map(|it| it.at).collect();
        for pair in times.windows(2) {
            let gap = (pair[1] - pair[0]).as_millis();
            assert!((least..=most).contains(&gap), "{interval:?}: {gap}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_tells_is_asked_less_often() {
    let link = Played::shown([every(Some(2_000)), completed("looked up")])
        .telling(|tell| async move {
            tokio::time::sleep(3 * SECOND).await;
            tell(working("halfway"));
            tokio::time::sleep(3 * SECOND).await;
            tell(completed("told"));
        })
        .link();
    let first = every(Some(2_000));
    link.first(first.clone());
    let result = caller(&link).call("slow", ()).await.unwrap();
    // One look was due before the server agreed to tell, and none between its words.
    assert_eq!((text(&result), link.of(Method::GetTask).len()), ("told", 1));
    let filter = link.sent().iter().find(|it| it.method == Method::Listen).unwrap().tasking;
    assert_eq!(filter, TaskRequest::Welcome);
}

#[tokio::test(start_paused = true)]
async fn word_that_comes_late_or_of_another_task_changes_nothing() {
    let mut other = completed("not ours");
    other.id = "t-2".into();
    let mut stale = completed("stale");
    stale.updated_at = wharf_model::Timestamp::from_millis(1);
    let link = Played::shown([completed("ours")])
        .telling(move |tell| async move {
            tell(other);
            tell(stale);
            std::future::pending().await
        })
        .link();
    assert_eq!(text(&caller(&link).call("slow", ()).await.unwrap()), "ours");
}

#[tokio::test(start_paused = true)]
async fn what_a_task_asks_is_answered_once_and_together() {
    let open = || asking(&[("name", "Your name?"), ("age", "Your age?")]);
    // The server shows the questions for a while after they were answered.
    let looks = (0..8).map(|_| open()).chain([working("thinking"), completed("done")]);
    let link = Played::shown(looks).link();
    let asked = Arc::new(Mutex::new(0));
    let count = asked.clone();
    let answers = ClientHandlerBuilder::new().elicit(move |form| {
        *count.lock().unwrap() += 1;
        let slow = form.message.contains("age");
        async move {
            tokio::time::sleep(if slow { 5 * SECOND } else { SECOND }).await;
            Ok(ElicitResult::accept(json!({"value": form.message})))
        }
    });
    let result = answering(&link, answers).call("slow", ()).await.unwrap();
    assert_eq!((text(&result), *asked.lock().unwrap()), ("done", 2));
    let updates: Vec<Value> = link.of(Method::UpdateTask);
    let form = |text: &str| json!({"action": "accept", "content": {"value": text}});
    let expected = json!({"taskId": "t-1",
        "inputResponses": {"age": form("Your age?"), "name": form("Your name?")}});
    assert_eq!(updates, [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_question_that_somebody_else_settles_is_withdrawn() {
    let link = Played::shown([asking(&[("q", "?")]), completed("done")]).link();
    let answers = ClientHandlerBuilder::new().elicit(async |_| std::future::pending().await);
    assert_eq!(text(&answering(&link, answers).call("slow", ()).await.unwrap()), "done");
    assert!(link.of(Method::UpdateTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_question_nobody_answers_ends_the_call_and_the_task() {
    let link = Played::shown([asking(&[("q", "?")])]).link();
    let error = caller(&link).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::MethodNotFound);
    tokio::time::sleep(SECOND).await;
    assert_eq!(link.of(Method::CancelTask), [json!({"taskId": "t-1"})]);
}

#[tokio::test(start_paused = true)]
async fn it_goes_on_when_the_connection_breaks() {
    let closed = || Outcome::from(Error::new(ErrorKind::ConnectionClosed));
    let link = Played::shown([])
        .looks([closed(), shown(asking(&[("q", "?")])), closed(), shown(completed("done"))])
        .updates([closed(), Reply::TaskUpdated.into()])
        .link();
    let answers = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    assert_eq!(text(&answering(&link, answers).call("slow", ()).await.unwrap()), "done");
    assert_eq!(methods(&link).iter().filter(|it| **it == Method::CallTool).count(), 1);
    assert_eq!(link.of(Method::UpdateTask).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_stays_away_is_given_up_but_not_its_task() {
    let link = Played::shown([]).always_looks(Error::new(ErrorKind::ConnectionClosed)).link();
    let error = caller(&link).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionClosed);
    assert!(error.message.contains("still be running the task t-1"), "{}", error.message);
    tokio::time::sleep(SECOND).await;
    assert!(link.of(Method::CancelTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_task_that_is_gone_ends_the_call() {
    let link = Played::shown([]).always_looks(Error::new(ErrorKind::TaskNotFound)).link();
    let error = caller(&link).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_its_task() {
    let link = Played::shown([]).always_works().link();
    let caller = caller(&link);
    let call = tokio::time::timeout(5 * SECOND, caller.call("slow", ()).into_future()).await;
    assert!(call.is_err());
    // The conversation ends only when the server was told.
    caller.close().await;
    assert_eq!(link.of(Method::CancelTask), [json!({"taskId": "t-1"})]);
}

#[tokio::test(start_paused = true)]
async fn signs_of_life_count_up_to_the_total() {
    let link = Played::shown([]).always_works().link();
    let options = CallOptions::default().idle(3 * SECOND).total(60 * SECOND);
    let error = caller_with(&link, ClientHandlerBuilder::new(), options)
        .call("slow", ())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::RequestTimeout);
    assert!(error.message.contains("`total`"), "{}", error.message);
    let looks = link.of(Method::GetTask).len();
    assert!((50..=60).contains(&looks), "{looks}");
    tokio::time::sleep(SECOND).await;
    assert_eq!(link.of(Method::CancelTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_falls_silent_runs_into_the_timeout() {
    let link = Played::shown([]).silent_looks().link();
    let options = CallOptions::default().idle(3 * SECOND);
    let error = caller_with(&link, ClientHandlerBuilder::new(), options)
        .call("slow", ())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::RequestTimeout);
    assert!(error.message.contains("`timeout`"), "{}", error.message);
}

#[tokio::test(start_paused = true)]
async fn whoever_does_not_follow_tasks_does_not_say_so() {
    let link = Played::shown([]).result("at once").link();
    let options = CallOptions::default().tasks(false);
    let caller = caller_with(&link, ClientHandlerBuilder::new(), options);
    assert_eq!(text(&caller.call("quick", ()).await.unwrap()), "at once");
    assert_eq!(link.sent()[0].tasking, TaskRequest::Unknown);
}

#[tokio::test(start_paused = true)]
async fn other_requests_cannot_become_tasks() {
    let link = Fake::default().then(Outcome::Task(Box::new(task(TaskState::Working)))).link();
    let error = caller(&link).prompt("p", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::InternalError);
}

#[tokio::test(start_paused = true)]
async fn results_of_tasks_are_held_against_the_output_schema() {
    let link = Played::shown([completed("no structured content")]).link();
    let caller = caller(&link);
    link.lists(json!({"name": "slow", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"}}));
    caller.tools().all().await.unwrap();
    let error = caller.call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::OutputSchemaMismatch);
}

// What servers that want to be asked for tasks, and for their results, do differently.

fn tool(support: &str) -> Value {
    json!({"name": "slow", "inputSchema": {"type": "object"},
        "execution": {"taskSupport": support}})
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_runs_only_as_a_task_is_called_as_one() {
    let link = Played::fetched([working("halfway"), completed("")]).result("fetched").link();
    let caller = caller(&link);
    link.lists(tool("required"));
    caller.tools().all().await.unwrap();
    assert_eq!(text(&caller.call("slow", ()).await.unwrap()), "fetched");
    use Method::{CallTool, GetTask, ListTools, TaskResult};
    assert_eq!(methods(&link), [ListTools, CallTool, GetTask, GetTask, TaskResult]);
    let call = link.sent().into_iter().find(|it| it.method == CallTool).unwrap();
    assert_eq!(call.tasking, TaskRequest::Wanted(None));
}

#[tokio::test(start_paused = true)]
async fn a_tool_that_nobody_listed_is_looked_up_when_it_refuses() {
    for kind in [ErrorKind::MethodNotFound, ErrorKind::TaskRequired, ErrorKind::InvalidRequest] {
        let link = Played::fetched([completed("")]).result("fetched").link();
        link.lists(tool("required"));
        link.refuse_plain_calls(Error::new(kind));
        assert_eq!(text(&caller(&link).call("slow", ()).await.unwrap()), "fetched");
        let calls: Vec<_> =
            link.sent().into_iter().filter(|it| it.method == Method::CallTool).collect();
        let said: Vec<_> = calls.iter().map(|it| it.tasking).collect();
        assert_eq!(said, [TaskRequest::Declined, TaskRequest::Wanted(None)]);
    }
    // The same error may mean what it says.
    let link = Played::fetched([]).result("never").link();
    link.lists(tool("optional"));
    link.refuse_plain_calls(Error::new(ErrorKind::MethodNotFound));
    let error = caller(&link).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::MethodNotFound);
    assert_eq!(methods(&link), [Method::CallTool, Method::ListTools]);
}

/// The first TypeScript SDK answers with a failure of the tool, not with an error.
#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_for_want_of_a_task_is_called_as_one() {
    let refusal = || ToolResult::error("MCP error -32601: Tool slow requires task augmentation");
    let link = Played::fetched([completed("")]).result("fetched").link();
    link.lists(tool("required"));
    link.fail_plain_calls(refusal());
    assert_eq!(text(&caller(&link).call("slow", ()).await.unwrap()), "fetched");
    use Method::{CallTool, GetTask, ListTools, TaskResult};
    assert_eq!(methods(&link), [CallTool, ListTools, CallTool, GetTask, TaskResult]);

    // The same words may mean something else, and others lead nowhere.
    for (support, said, asked) in
        [("optional", refusal(), 2), ("required", ToolResult::error("no"), 1)]
    {
        let link = Played::fetched([]).link();
        link.lists(tool(support));
        link.fail_plain_calls(said);
        assert!(caller(&link).call("slow", ()).await.unwrap().is_error);
        assert_eq!(methods(&link).len(), asked);
    }
}

/// That the list changed while it was listed says nothing against what it said about tasks.
#[tokio::test(start_paused = true)]
async fn a_tool_listed_while_the_list_changes_is_called_as_a_task() {
    let link = Played::fetched([completed("")]).result("fetched").link();
    link.lists(tool("required"));
    link.changes_while_listed();
    let caller = caller(&link);
    let mut tools = caller.tools();
    assert_eq!(tools.next().await.unwrap().unwrap().name, "slow");
    assert_eq!(text(&caller.call("slow", ()).await.unwrap()), "fetched");
    use Method::{CallTool, GetTask, ListTools, TaskResult};
    assert_eq!(methods(&link), [ListTools, CallTool, GetTask, TaskResult]);
}

#[tokio::test(start_paused = true)]
async fn whoever_fetches_a_result_is_asked() {
    let looks = [asking(&[]), working("thinking"), working("thinking"), completed("")];
    let link = Played::fetched(looks)
        .result_after(async |outbox| {
            let answer = outbox.ask(ClientRequest::Roots).await.unwrap();
            tokio::time::sleep(2 * SECOND).await;
            Reply::Tool(ToolResult::text(answer)).into()
        })
        .link();
    link.lists(tool("required"));
    let answers = ClientHandlerBuilder::new().fixed_roots([wharf_model::Root::new("file:///here")]);
    let caller = answering(&link, answers);
    caller.tools().all().await.unwrap();
    let result = caller.call("slow", ()).await.unwrap();
    assert_eq!(text(&result), r#"{"roots":[{"uri":"file:///here"}]}"#);
    assert_eq!(link.of(Method::TaskResult).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn fetching_goes_on_when_the_connection_breaks() {
    let link = Played::fetched([asking(&[]), working(""), completed("")])
        .results([
            Error::new(ErrorKind::ConnectionClosed).into(),
            Error::new(ErrorKind::TransportError).into(),
            Reply::Tool(ToolResult::text("fetched")).into(),
        ])
        .link();
    link.lists(tool("required"));
    let caller = caller(&link);
    caller.tools().all().await.unwrap();
    assert_eq!(text(&caller.call("slow", ()).await.unwrap()), "fetched");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_fetched_result_is_the_calls() {
    let error = Error::new(ErrorKind::InvalidParams).with_message("no such ship");
    let failed = with(TaskState::Failed(Box::new(Error::new(ErrorKind::TaskFailed))));
    let link = Played::fetched([failed]).results([error.clone().into()]).link();
    link.lists(tool("required"));
    let caller = caller(&link);
    caller.tools().all().await.unwrap();
    assert_eq!(caller.call("slow", ()).await.unwrap_err(), error);
}

#[tokio::test(start_paused = true)]
async fn status_notifications_spare_a_wait() {
    let first = every(Some(60_000));
    let link = Played::fetched([completed("")])
        .result("fetched")
        .telling(|tell| async move {
            tokio::time::sleep(SECOND).await;
            tell(completed(""));
            std::future::pending().await
        })
        .link();
    link.first(first);
    link.lists(tool("required"));
    let caller = caller(&link);
    caller.tools().all().await.unwrap();
    let begun = tokio::time::Instant::now();
    caller.call("slow", ()).await.unwrap();
    assert_eq!(begun.elapsed(), SECOND);
    assert!(link.of(Method::GetTask).is_empty());
}
