//! Calls that become tasks are followed to their end.

use std::sync::{Arc, Mutex};

use crate::support::{FakeTransport, SECOND, answering, caller, caller_with, scripted_tasks::*};
use serde_json::{Value, json};
use wharf_client::{CallOptions, ClientHandlerBuilder};
use wharf_model::{
    CallError, ClientRequest, ElicitResult, Error, ErrorKind, Method, Outcome, Reply, TaskRequest,
    TaskState, ToolResult,
};

fn methods(transport: &FakeTransport) -> Vec<Method> {
    transport.sent().iter().map(|it| it.method).filter(|it| *it != Method::Listen).collect()
}

fn text(result: &ToolResult) -> &str {
    result.content[0].as_text().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_that_becomes_a_task_ends_with_its_result() {
    let task_server = FakeTaskServer::extension([working("halfway"), completed("done")]);
    let transport = task_server.transport();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let see = seen.clone();
    let result = caller(&transport)
        .call("slow", json!({"n": 1}))
        .on_task(move |task| see.lock().unwrap().push((task.status(), task.message.clone())))
        .await
        .unwrap();
    assert_eq!(text(&result), "done");
    use Method::{CallTool, GetTask};
    assert_eq!(methods(&transport), [CallTool, GetTask, GetTask]);
    let sent = transport.sent();
    assert_eq!(sent[0].tasking, TaskRequest::Welcome);
    let get = sent.iter().find(|it| it.method == GetTask).unwrap();
    assert_eq!((get.params.clone(), get.tasking), (json!({"taskId": "t-1"}), TaskRequest::Welcome));
    let statuses: Vec<&str> = seen.lock().unwrap().iter().map(|it| it.0.as_str()).collect();
    assert_eq!(statuses, ["working", "working", "completed"]);
    assert_eq!(seen.lock().unwrap()[1].1.as_deref(), Some("halfway"));
}

#[tokio::test(start_paused = true)]
async fn final_states_of_tasks_end_their_calls() {
    let failed = Error::new(ErrorKind::InternalError).with_message("broken");
    let ends = [
        (TaskState::Failed(Box::new(failed)), ErrorKind::InternalError, "broken"),
        (TaskState::Cancelled, ErrorKind::TaskCancelled, "Task cancelled"),
    ];
    for (state, kind, message) in ends {
        let transport = FakeTaskServer::extension([with(state)]).transport();
        let error = caller(&transport).call("slow", ()).await.unwrap_err();
        assert_eq!((error.kind(), error.message()), (kind, message));
        assert!(!methods(&transport).contains(&Method::CancelTask));
    }
    let transport =
        FakeTaskServer::extension([with(TaskState::Completed(Box::new(ToolResult::error("no"))))])
            .transport();
    assert!(caller(&transport).call("slow", ()).await.unwrap().is_error);
    let transport = FakeTaskServer::extension([completed("7")]).transport();
    assert_eq!(caller(&transport).call_as::<i64>("slow", ()).await.unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn the_poll_interval_of_the_server_is_used_within_limits() {
    let gaps = [
        (Some(0), 50, 60),
        (Some(3_000), 3_000, 3_300),
        (Some(1_000_000_000_000_000_000), 60_000, 66_000),
        (None, 1_000, 1_100),
    ];
    for (interval, least, most) in gaps {
        let again = || every(interval);
        let transport =
            FakeTaskServer::extension([again(), again(), again(), completed("done")]).transport();
        caller(&transport).call("slow", ()).await.unwrap();
        let times: Vec<_> = transport
            .sent()
            .iter()
            .filter(|it| it.method == Method::GetTask)
            .map(|it| it.at)
            .collect();
        for pair in times.windows(2) {
            let gap = (pair[1] - pair[0]).as_millis();
            assert!((least..=most).contains(&gap), "{interval:?}: {gap}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscribed_task_is_polled_less_often() {
    let transport = FakeTaskServer::extension([every(Some(2_000)), completed("looked up")])
        .status_notifications(|tell| async move {
            tokio::time::sleep(3 * SECOND).await;
            tell(working("halfway"));
            tokio::time::sleep(3 * SECOND).await;
            tell(completed("told"));
        })
        .transport();
    let first = every(Some(2_000));
    transport.first(first.clone());
    let result = caller(&transport).call("slow", ()).await.unwrap();
    // One poll was due before the acknowledgement, and none between the notifications.
    assert_eq!((text(&result), transport.of(Method::GetTask).len()), ("told", 1));
    let filter = transport.sent().iter().find(|it| it.method == Method::Listen).unwrap().tasking;
    assert_eq!(filter, TaskRequest::Welcome);
}

#[tokio::test(start_paused = true)]
async fn late_or_foreign_status_notifications_are_ignored() {
    let mut other = completed("not ours");
    other.id = "t-2".into();
    let mut stale = completed("stale");
    stale.updated_at = wharf_model::Timestamp::from_millis(1);
    let transport = FakeTaskServer::extension([completed("ours")])
        .status_notifications(move |tell| async move {
            tell(other);
            tell(stale);
            std::future::pending().await
        })
        .transport();
    assert_eq!(text(&caller(&transport).call("slow", ()).await.unwrap()), "ours");
}

#[tokio::test(start_paused = true)]
async fn input_requests_of_a_task_are_answered_once_and_together() {
    let open = || asking(&[("name", "Your name?"), ("age", "Your age?")]);
    // The server returns the requests for a while after they were answered.
    let states = (0..8).map(|_| open()).chain([working("thinking"), completed("done")]);
    let transport = FakeTaskServer::extension(states).transport();
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
    let result = answering(&transport, answers).call("slow", ()).await.unwrap();
    assert_eq!((text(&result), *asked.lock().unwrap()), ("done", 2));
    let updates: Vec<Value> = transport.of(Method::UpdateTask);
    let form = |text: &str| json!({"action": "accept", "content": {"value": text}});
    let expected = json!({"taskId": "t-1",
        "inputResponses": {"age": form("Your age?"), "name": form("Your name?")}});
    assert_eq!(updates, [expected]);
}

#[tokio::test(start_paused = true)]
async fn an_input_request_that_another_client_answered_is_withdrawn() {
    let transport =
        FakeTaskServer::extension([asking(&[("q", "?")]), completed("done")]).transport();
    let answers = ClientHandlerBuilder::new().elicit(async |_| std::future::pending().await);
    assert_eq!(text(&answering(&transport, answers).call("slow", ()).await.unwrap()), "done");
    assert!(transport.of(Method::UpdateTask).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_input_request_without_a_handler_ends_the_call_and_the_task() {
    let transport = FakeTaskServer::extension([asking(&[("q", "?")])]).transport();
    let error = caller(&transport).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MethodNotFound);
    tokio::time::sleep(SECOND).await;
    assert_eq!(transport.of(Method::CancelTask), [json!({"taskId": "t-1"})]);
}

#[tokio::test(start_paused = true)]
async fn following_continues_after_a_broken_connection() {
    let closed = || Outcome::from(Error::new(ErrorKind::ConnectionClosed));
    let transport = FakeTaskServer::extension([])
        .states([closed(), shown(asking(&[("q", "?")])), closed(), shown(completed("done"))])
        .updates([closed(), Reply::TaskUpdated.into()])
        .transport();
    let answers = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    assert_eq!(text(&answering(&transport, answers).call("slow", ()).await.unwrap()), "done");
    assert_eq!(methods(&transport).iter().filter(|it| **it == Method::CallTool).count(), 1);
    assert_eq!(transport.of(Method::UpdateTask).len(), 2);
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_server_fails_the_call_without_cancelling_the_task() {
    let transport = FakeTaskServer::extension([])
        .always_state(Error::new(ErrorKind::ConnectionClosed))
        .transport();
    let error = caller(&transport).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed);
    assert!(error.message().contains("still be running the task t-1"), "{}", error.message());
    tokio::time::sleep(SECOND).await;
    assert!(transport.of(Method::CancelTask).is_empty());
}

/// The server stops after it has created the task: the call has arrived, although no poll does.
#[tokio::test(start_paused = true)]
async fn a_call_that_became_a_task_has_arrived() {
    let down = CallError::transport("nothing listens", false, std::io::Error::other("refused"));
    let down = down.into_outcome_error();
    let extension = FakeTaskServer::extension([]).always_state(down.clone());
    let legacy = FakeTaskServer::legacy([]).states([shown(completed(""))]);
    let legacy = legacy.results((0..20).map(|_| down.clone().into()));
    for transport in [extension.transport(), legacy.transport()] {
        transport.lists(json!({"name": "slow", "inputSchema": {"type": "object"},
            "execution": {"taskSupport": "required"}}));
        let caller = caller(&transport);
        caller.tools().all().await.unwrap();
        let error = caller.call("slow", ()).await.unwrap_err();
        let CallError::Transport { may_have_arrived, source, .. } = &error else {
            panic!("{error:?}");
        };
        assert!(*may_have_arrived && source.is_some(), "{error:?}");
        assert!(error.message().contains("still be running the task t-1"), "{error}");
    }
    let transport = FakeTaskServer::extension([]).always_state(down).transport();
    let task = caller(&transport).call_task("slow", ()).await.unwrap();
    let error = task.wait().await.unwrap_err();
    assert!(matches!(error, CallError::Transport { may_have_arrived: true, .. }), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn a_missing_task_ends_the_call() {
    let transport =
        FakeTaskServer::extension([]).always_state(Error::new(ErrorKind::TaskNotFound)).transport();
    let error = caller(&transport).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TaskNotFound);
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_its_task() {
    let transport = FakeTaskServer::extension([]).always_works().transport();
    let caller = caller(&transport);
    let call = tokio::time::timeout(5 * SECOND, caller.call("slow", ()).into_future()).await;
    assert!(call.is_err());
    // `close` completes only after the cancellation was sent.
    caller.close().await;
    assert_eq!(transport.of(Method::CancelTask), [json!({"taskId": "t-1"})]);
}

#[tokio::test(start_paused = true)]
async fn polls_reset_the_idle_timeout_up_to_the_total() {
    let transport = FakeTaskServer::extension([]).always_works().transport();
    let options = CallOptions::default().idle(3 * SECOND).total(60 * SECOND);
    let error = caller_with(&transport, ClientHandlerBuilder::new(), options)
        .call("slow", ())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTimeout);
    assert!(error.message().contains("`total`"), "{}", error.message());
    let states = transport.of(Method::GetTask).len();
    assert!((50..=60).contains(&states), "{states}");
    tokio::time::sleep(SECOND).await;
    assert_eq!(transport.of(Method::CancelTask).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_silent_server_runs_into_the_idle_timeout() {
    let transport = FakeTaskServer::extension([]).silent_states().transport();
    let options = CallOptions::default().idle(3 * SECOND);
    let error = caller_with(&transport, ClientHandlerBuilder::new(), options)
        .call("slow", ())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTimeout);
    assert!(error.message().contains("`timeout`"), "{}", error.message());
}

#[tokio::test(start_paused = true)]
async fn tasks_are_not_declared_if_disabled() {
    let transport = FakeTaskServer::extension([]).result("at once").transport();
    let options = CallOptions::default().tasks(false);
    let caller = caller_with(&transport, ClientHandlerBuilder::new(), options);
    assert_eq!(text(&caller.call("quick", ()).await.unwrap()), "at once");
    assert_eq!(transport.sent()[0].tasking, TaskRequest::Unknown);
}

#[tokio::test(start_paused = true)]
async fn other_requests_cannot_become_tasks() {
    let transport = FakeTransport::default()
        .then(Outcome::Task(Box::new(task(TaskState::Working))))
        .transport();
    let error = caller(&transport).prompt("p", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InternalError);
}

#[tokio::test(start_paused = true)]
async fn results_of_tasks_are_validated_against_the_output_schema() {
    let transport = FakeTaskServer::extension([completed("no structured content")]).transport();
    let caller = caller(&transport);
    transport.lists(json!({"name": "slow", "inputSchema": {"type": "object"},
        "outputSchema": {"type": "object"}}));
    caller.tools().all().await.unwrap();
    let error = caller.call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::OutputSchemaMismatch);
}

// Differences of the legacy dialect.

fn tool(support: &str) -> Value {
    json!({"name": "slow", "inputSchema": {"type": "object"},
        "execution": {"taskSupport": support}})
}

#[tokio::test(start_paused = true)]
async fn a_task_only_tool_is_called_as_a_task() {
    let transport =
        FakeTaskServer::legacy([working("halfway"), completed("")]).result("fetched").transport();
    let caller = caller(&transport);
    transport.lists(tool("required"));
    caller.tools().all().await.unwrap();
    assert_eq!(text(&caller.call("slow", ()).await.unwrap()), "fetched");
    use Method::{CallTool, GetTask, ListTools, TaskResult};
    assert_eq!(methods(&transport), [ListTools, CallTool, GetTask, GetTask, TaskResult]);
    let call = transport.sent().into_iter().find(|it| it.method == CallTool).unwrap();
    assert_eq!(call.tasking, TaskRequest::Wanted(None));
}

#[tokio::test(start_paused = true)]
async fn an_unlisted_tool_is_listed_after_it_rejects_the_call() {
    for kind in [ErrorKind::MethodNotFound, ErrorKind::TaskRequired, ErrorKind::InvalidRequest] {
        let transport = FakeTaskServer::legacy([completed("")]).result("fetched").transport();
        transport.lists(tool("required"));
        transport.refuse_plain_calls(Error::new(kind));
        assert_eq!(text(&caller(&transport).call("slow", ()).await.unwrap()), "fetched");
        let calls: Vec<_> =
            transport.sent().into_iter().filter(|it| it.method == Method::CallTool).collect();
        let said: Vec<_> = calls.iter().map(|it| it.tasking).collect();
        assert_eq!(said, [TaskRequest::Declined, TaskRequest::Wanted(None)]);
    }
    // The same error may have another cause.
    let transport = FakeTaskServer::legacy([]).result("never").transport();
    transport.lists(tool("optional"));
    transport.refuse_plain_calls(Error::new(ErrorKind::MethodNotFound));
    let error = caller(&transport).call("slow", ()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::MethodNotFound);
    assert_eq!(methods(&transport), [Method::CallTool, Method::ListTools]);
}

/// The first TypeScript SDK returns a failed result and not an error.
#[tokio::test(start_paused = true)]
async fn a_tool_that_fails_without_a_task_is_called_as_one() {
    let refusal = || ToolResult::error("MCP error -32601: Tool slow requires task augmentation");
    let transport = FakeTaskServer::legacy([completed("")]).result("fetched").transport();
    transport.lists(tool("required"));
    transport.fail_plain_calls(refusal());
    assert_eq!(text(&caller(&transport).call("slow", ()).await.unwrap()), "fetched");
    use Method::{CallTool, GetTask, ListTools, TaskResult};
    assert_eq!(methods(&transport), [CallTool, ListTools, CallTool, GetTask, TaskResult]);

    // The same text may have another cause, and other texts lead to no task.
    for (support, said, asked) in
        [("optional", refusal(), 2), ("required", ToolResult::error("no"), 1)]
    {
        let transport = FakeTaskServer::legacy([]).transport();
        transport.lists(tool(support));
        transport.fail_plain_calls(said);
        assert!(caller(&transport).call("slow", ()).await.unwrap().is_error);
        assert_eq!(methods(&transport).len(), asked);
    }
}

/// A list that changed while it was read still counts for task support.
#[tokio::test(start_paused = true)]
async fn a_tool_listed_while_the_list_changes_is_called_as_a_task() {
    let transport = FakeTaskServer::legacy([completed("")]).result("fetched").transport();
    transport.lists(tool("required"));
    transport.changes_while_listed();
    let caller = caller(&transport);
    let mut tools = caller.tools();
    assert_eq!(tools.next().await.unwrap().unwrap().name, "slow");
    assert_eq!(text(&caller.call("slow", ()).await.unwrap()), "fetched");
    use Method::{CallTool, GetTask, ListTools, TaskResult};
    assert_eq!(methods(&transport), [ListTools, CallTool, GetTask, TaskResult]);
}

#[tokio::test(start_paused = true)]
async fn input_requests_arrive_while_the_result_is_fetched() {
    let states = [asking(&[]), working("thinking"), working("thinking"), completed("")];
    let transport = FakeTaskServer::legacy(states)
        .result_after(async |outbox| {
            let answer = outbox.ask(ClientRequest::Roots).await.unwrap();
            tokio::time::sleep(2 * SECOND).await;
            Reply::Tool(ToolResult::text(answer)).into()
        })
        .transport();
    transport.lists(tool("required"));
    let answers = ClientHandlerBuilder::new().fixed_roots([wharf_model::Root::new("file:///here")]);
    let caller = answering(&transport, answers);
    caller.tools().all().await.unwrap();
    let result = caller.call("slow", ()).await.unwrap();
    assert_eq!(text(&result), r#"{"roots":[{"uri":"file:///here"}]}"#);
    assert_eq!(transport.of(Method::TaskResult).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn fetching_continues_after_a_broken_connection() {
    let transport = FakeTaskServer::legacy([asking(&[]), working(""), completed("")])
        .results([
            Error::new(ErrorKind::ConnectionClosed).into(),
            Error::new(ErrorKind::TransportError).into(),
            Reply::Tool(ToolResult::text("fetched")).into(),
        ])
        .transport();
    transport.lists(tool("required"));
    let caller = caller(&transport);
    caller.tools().all().await.unwrap();
    assert_eq!(text(&caller.call("slow", ()).await.unwrap()), "fetched");
}

#[tokio::test(start_paused = true)]
async fn the_error_of_a_fetched_result_ends_the_call() {
    let error = Error::new(ErrorKind::InvalidParams).with_message("no such ship");
    let failed = with(TaskState::Failed(Box::new(Error::new(ErrorKind::TaskFailed))));
    let transport = FakeTaskServer::legacy([failed]).results([error.clone().into()]).transport();
    transport.lists(tool("required"));
    let caller = caller(&transport);
    caller.tools().all().await.unwrap();
    assert_eq!(caller.call("slow", ()).await.unwrap_err(), error);
}

#[tokio::test(start_paused = true)]
async fn status_notifications_shorten_the_wait() {
    let first = every(Some(60_000));
    let transport = FakeTaskServer::legacy([completed("")])
        .result("fetched")
        .status_notifications(|tell| async move {
            tokio::time::sleep(SECOND).await;
            tell(completed(""));
            std::future::pending().await
        })
        .transport();
    transport.first(first);
    transport.lists(tool("required"));
    let caller = caller(&transport);
    caller.tools().all().await.unwrap();
    let begun = tokio::time::Instant::now();
    caller.call("slow", ()).await.unwrap();
    assert_eq!(begun.elapsed(), SECOND);
    assert!(transport.of(Method::GetTask).is_empty());
}
