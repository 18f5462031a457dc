//! Tasks of a client: requests, and decoding of what servers send.

use std::sync::Arc;

use wharf_model::{
    ClientCapabilities, ClientRequest, ErrorKind, LiveSubscriptionFilter, Method, Notification,
    Outcome, Reply, RequestBuilder, TaskRequest, TaskStatus, ToolResult,
};
use wharf_wire::{CallId, ClientCodec, ClientIdentity, ServerMessage, ServerNotification};

use super::*;

fn written(version: &str, request: &wharf_model::Request) -> Option<Value> {
    let mut out = Vec::new();
    let written = client_codec(revision(version)).call(request, &CallId::from(1), &mut out);
    match written {
        Ok(()) => Some(parse(&out)),
        Err(error) => {
            assert!(error.kind.is_method_not_found() && out.is_empty());
            None
        }
    }
}

#[test]
fn calls_are_written_where_the_revision_has_them() {
    for (method, versions) in [
        (Method::GetTask, &[TASK_PARAM_REVISION, MODERN][..]),
        (Method::UpdateTask, &[MODERN]),
        (Method::CancelTask, &[TASK_PARAM_REVISION, MODERN]),
        (Method::TaskResult, &[TASK_PARAM_REVISION]),
        (Method::ListTasks, &[TASK_PARAM_REVISION]),
    ] {
        for version in LEGACY.into_iter().chain([MODERN]) {
            let request = match method {
                Method::ListTasks => RequestBuilder::new(method).cursor("c").build(),
                Method::UpdateTask => {
                    RequestBuilder::new(method).target("1").input_responses(r#"{"a":{}}"#).build()
                }
                _ => RequestBuilder::new(method).target("1").build(),
            };
            let message = written(version, &request);
            assert_eq!(message.is_some(), versions.contains(&version), "{version} {method:?}");
            let Some(message) = message else { continue };
            let mut params = message["params"].clone();
            let meta = params.as_object_mut().unwrap().remove("_meta");
            assert_eq!(meta.is_some(), version == MODERN);
            let expected = match method {
                Method::ListTasks => json!({"cursor": "c"}),
                Method::UpdateTask => json!({"taskId": "1", "inputResponses": {"a": {}}}),
                _ => json!({"taskId": "1"}),
            };
            assert_eq!((&message["method"], params), (&json!(method.name()), expected));
        }
    }
}

#[test]
fn a_task_is_requested_in_the_form_of_the_revision() {
    let call = |tasking: TaskRequest, version: &str| {
        let mut request = RequestBuilder::new(Method::CallTool)
            .target("t")
            .param("task", r#"{"ttl":"not ours"}"#)
            .build();
        request.tasking = tasking;
        written(version, &request).unwrap()["params"]["task"].clone()
    };
    for (tasking, expected) in [
        (TaskRequest::Unknown, json!(null)),
        (TaskRequest::Declined, json!(null)),
        (TaskRequest::Welcome, json!(null)),
        (TaskRequest::Wanted(None), json!({})),
        (TaskRequest::Wanted(Some(60_000)), json!({"ttl": 60_000})),
    ] {
        assert_eq!(call(tasking, TASK_PARAM_REVISION), expected);
        for other in ["2024-11-05", "2025-03-26", "2025-06-18", MODERN] {
            assert!(call(tasking, other).is_null(), "{other}");
        }
    }
    // In other calls it is an ordinary parameter.
    let prompt = RequestBuilder::new(Method::GetPrompt).target("p").param("task", "5").build();
    assert_eq!(written(TASK_PARAM_REVISION, &prompt).unwrap()["params"]["task"], 5);
}

#[test]
fn a_modern_client_declares_the_tasks_extension() {
    let capabilities = ClientCapabilities::default().extension(TASKS_EXTENSION, Default::default());
    let client = Arc::new(ClientIdentity { capabilities, ..ClientIdentity::default() });
    let request = RequestBuilder::new(Method::CallTool).target("t").build();
    for (version, says) in [(MODERN, true), (TASK_PARAM_REVISION, false)] {
        let mut out = Vec::new();
        let client_codec = ClientCodec::new(revision(version), client.clone());
        client_codec.call(&request, &CallId::from(1), &mut out).unwrap();
        let meta = &parse(&out)["params"]["_meta"];
        let said =
            &meta["io.modelcontextprotocol/clientCapabilities"]["extensions"][TASKS_EXTENSION];
        assert_eq!(said.is_object(), says);
    }
    let mut listen = RequestBuilder::new(Method::Listen).build();
    listen.filter = Some(LiveSubscriptionFilter::new(
        wharf_model::SubscriptionFilter::default().tasks(["1".to_owned()]),
    ));
    let message = written(MODERN, &listen).unwrap();
    assert_eq!(message["params"]["notifications"], json!({"taskIds": ["1"]}));
}

#[test]
fn the_id_goes_into_a_header() {
    for method in ["tasks/get", "tasks/update", "tasks/cancel"] {
        let headers = client_codec(revision(MODERN)).headers(method, Some("ä"), None);
        assert_eq!(headers[1].1, method);
        assert_eq!(headers[2], ("Mcp-Name".to_owned(), "=?base64?w6Q=?=".to_owned()));
        assert_eq!(
            client_codec(revision(TASK_PARAM_REVISION)).headers(method, Some("1"), None).len(),
            1
        );
    }
}

fn read(version: &str, method: Method, result: &Value) -> Result<Outcome, wharf_model::Error> {
    client_codec(revision(version)).result(method, &result.to_string())
}

fn decode_task(version: &str, result: &Value) -> Task {
    match read(version, Method::GetTask, result) {
        Ok(Outcome::Complete(Reply::Task(task))) => *task,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handle_is_read_in_both_dialects() {
    let flat = with(json!({"resultType": "task"}), fields(MODERN, "working"));
    let nested = json!({"task": fields(TASK_PARAM_REVISION, "working"), "_meta": {}});
    for (version, result) in [(MODERN, flat), (TASK_PARAM_REVISION, nested)] {
        let Ok(Outcome::Task(read)) = read(version, Method::CallTool, &result) else { panic!() };
        assert_eq!(*read, task(TaskState::Working));
    }
    // A result is a handle only in revisions with tasks, and only of a tool call.
    let flat = with(json!({"resultType": "task"}), fields(MODERN, "working"));
    assert!(read(MODERN, Method::GetPrompt, &flat).is_err());
    assert!(read(MODERN, Method::ListTools, &flat).is_err());
    let plain = |outcome| matches!(outcome, Ok(Outcome::Complete(Reply::Tool(_))));
    assert!(plain(read(
        TASK_PARAM_REVISION,
        Method::CallTool,
        &json!({"task": {}, "content": []})
    )));
    assert!(plain(read(TASK_PARAM_REVISION, Method::TaskResult, &json!({"task": {}}))));
    assert!(plain(read("2025-06-18", Method::CallTool, &json!({"task": {}}))));
    assert!(plain(read(MODERN, Method::CallTool, &json!({"task": {}, "resultType": "complete"}))));
}

#[test]
fn task_states_are_read_with_their_fields() {
    let result = json!({"content": [{"type": "text", "text": "x"}], "isError": true, "resultType": "complete",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}});
    let requests = json!({"b": {"method": "roots/list"}, "a": {"method": "elicitation/create",
        "params": {"mode": "url", "message": "m", "url": "https://x/y"}}});
    for (status, more) in [
        ("working", json!({"result": {"content": []}})),
        ("cancelled", json!({"error": {"code": 1, "message": "x"}})),
        ("completed", json!({"result": result})),
        (
            "failed",
            json!({"error": {"code": -32602, "message": "gone", "data": {"reason": "resource_not_found"}}}),
        ),
        ("input_required", json!({"inputRequests": requests})),
    ] {
        let task = decode_task(MODERN, &with(fields(MODERN, status), more));
        assert_eq!(task.status().as_str(), status);
        match task.state {
            TaskState::Completed(it) => assert_eq!(*it, ToolResult::error("x")),
            TaskState::Failed(error) => {
                assert_eq!((error.kind, &*error.message), (ErrorKind::ResourceNotFound, "gone"));
            }
            TaskState::InputRequired(asked) => {
                assert_eq!(asked.len(), 2);
                assert!(
                    asked.iter().any(|it| matches!(it, (key, ClientRequest::Roots) if key == "b"))
                );
            }
            _ => {}
        }
    }
    // Where the result is a separate call, only the status is sent.
    let failed = with(fields(TASK_PARAM_REVISION, "failed"), json!({"statusMessage": "no luck"}));
    let TaskState::Failed(error) = decode_task(TASK_PARAM_REVISION, &failed).state else {
        panic!()
    };
    assert_eq!((error.kind, &*error.message), (ErrorKind::TaskFailed, "no luck"));
    let TaskState::Failed(error) =
        decode_task(TASK_PARAM_REVISION, &fields(TASK_PARAM_REVISION, "failed")).state
    else {
        panic!()
    };
    assert_eq!(error.message, "Task failed");
    let done = decode_task(TASK_PARAM_REVISION, &fields(TASK_PARAM_REVISION, "completed")).state;
    assert_eq!(done, TaskState::Completed(ToolResult::default().into()));
    assert_eq!(
        decode_task(TASK_PARAM_REVISION, &fields(TASK_PARAM_REVISION, "input_required")).state,
        TaskState::InputRequired(vec![])
    );
    // Some examples of the extension write the result type of a handle here.
    decode_task(MODERN, &with(fields(MODERN, "working"), json!({"resultType": "task"})));
}

#[test]
fn missing_optional_fields_get_defaults() {
    for version in [TASK_PARAM_REVISION, MODERN] {
        let bare =
            json!({"taskId": "1", "status": "working", "createdAt": "2025-11-25T10:30:00+00:00"});
        let task = decode_task(version, &bare);
        assert_eq!((task.ttl, task.poll_interval, task.message), (None, None, None));
        assert_eq!(task.updated_at, task.created_at);
        let [ttl, interval] = match version == MODERN {
            true => ["ttlMs", "pollIntervalMs"],
            false => ["ttl", "pollInterval"],
        };
        let task = decode_task(version, &with(bare, json!({ttl: 60000.0, interval: 1e30})));
        assert_eq!((task.ttl, task.poll_interval), (Some(60_000), Some(u64::MAX)));
    }
}

#[test]
fn a_malformed_task_is_an_error_with_the_reason() {
    let deep = format!("{}1{}", "[".repeat(200), "]".repeat(200));
    for version in [TASK_PARAM_REVISION, MODERN] {
        let [ttl, interval] = match version == MODERN {
            true => ["ttlMs", "pollIntervalMs"],
            false => ["ttl", "pollInterval"],
        };
        for (field, value, named) in [
            ("taskId", json!(null), "taskId"),
            ("taskId", json!(5), "taskId"),
            ("taskId", json!(""), "taskId"),
            ("taskId", json!("x".repeat(1025)), "taskId"),
            ("status", json!("paused"), "unknown `status` \"paused\""),
            ("status", json!(["working"]), "status"),
            ("status", json!("x".repeat(10_000)), "status"),
            ("statusMessage", json!({}), "statusMessage"),
            ("createdAt", json!(null), "createdAt"),
            ("createdAt", json!("yesterday"), "unknown `createdAt` \"yesterday\""),
            ("lastUpdatedAt", json!(17), "lastUpdatedAt"),
            (ttl, json!(-1), ttl),
            (ttl, json!("60"), ttl),
            (interval, json!([]), interval),
        ] {
            let odd = with(fields(version, "working"), json!({field: value}));
            let handle = match version == MODERN {
                true => with(odd.clone(), json!({"resultType": "task"})),
                false => json!({"task": odd.clone()}),
            };
            for (method, result) in [(Method::GetTask, &odd), (Method::CallTool, &handle)] {
                let error = read(version, method, result).unwrap_err();
                assert_eq!(error.kind, ErrorKind::ValidationFailed);
                assert!(error.message.contains(named), "{}", error.message);
                assert!(error.message.len() < 1000);
            }
        }
        for odd in [json!(null), json!([]), json!("task"), json!(5)] {
            assert!(read(version, Method::GetTask, &odd).is_err());
            assert!(
                read(TASK_PARAM_REVISION, Method::ListTasks, &json!({"tasks": [odd.clone()]}))
                    .is_err()
            );
        }
    }
    for (status, more, named) in [
        ("completed", json!({}), "result"),
        ("completed", json!({"result": []}), "object"),
        ("completed", json!({"result": {"content": 5}}), "Invalid result of tasks/get"),
        ("failed", json!({}), "error"),
        ("failed", json!({"error": "no"}), "error"),
        ("input_required", json!({}), "inputRequests"),
        ("input_required", json!({"inputRequests": []}), "inputRequests"),
        ("input_required", json!({"inputRequests": {"a": {"method": "x/y"}}}), "x/y"),
    ] {
        let error = read(MODERN, Method::GetTask, &with(fields(MODERN, status), more)).unwrap_err();
        assert!(error.message.contains(named), "{}", error.message);
    }
    let many: serde_json::Map<_, _> =
        (0..1001).map(|n| (n.to_string(), json!({"method": "roots/list"}))).collect();
    let many = with(fields(MODERN, "input_required"), json!({"inputRequests": many}));
    let error = read(MODERN, Method::GetTask, &many).unwrap_err();
    assert_eq!(error.kind, ErrorKind::ContentTooLarge);
    let deep = format!(r#"{{"taskId":"1","status":"completed","result":{deep}}}"#);
    assert!(client_codec(revision(MODERN)).result(Method::GetTask, &deep).is_err());
}

#[test]
fn other_replies_are_read() {
    let complete = json!({"resultType": "complete"});
    let reply = |version: &str, method, result: &Value| match read(version, method, result) {
        Ok(Outcome::Complete(reply)) => reply,
        other => panic!("{other:?}"),
    };
    assert!(matches!(reply(MODERN, Method::UpdateTask, &complete), Reply::TaskUpdated));
    let Reply::TaskCancelled { task: unknown, too_late: false } =
        reply(MODERN, Method::CancelTask, &complete)
    else {
        panic!()
    };
    assert_eq!(unknown.id, "");
    let Reply::TaskCancelled { task: known, too_late: false } =
        reply(TASK_PARAM_REVISION, Method::CancelTask, &fields(TASK_PARAM_REVISION, "cancelled"))
    else {
        panic!()
    };
    assert_eq!(*known, task(TaskState::Cancelled));
    let list = json!({"tasks": [fields(TASK_PARAM_REVISION, "working")], "nextCursor": "n"});
    let Reply::TaskList { tasks, next } = reply(TASK_PARAM_REVISION, Method::ListTasks, &list)
    else {
        panic!()
    };
    assert_eq!((tasks, next), (vec![task(TaskState::Working)], Some("n".to_owned())));
    for odd in [json!({}), json!({"tasks": {}}), json!({"tasks": [], "nextCursor": 5})] {
        assert!(read(TASK_PARAM_REVISION, Method::ListTasks, &odd).is_err());
    }
    let result = json!({"content": [], "_meta": {RELATED: {"taskId": "1"}}});
    let Reply::Tool(it) = reply(TASK_PARAM_REVISION, Method::TaskResult, &result) else { panic!() };
    assert_eq!(it, ToolResult::default());
    let result = json!({"content": [], "_meta": {RELATED: {"taskId": "1"}, "k": 1}});
    let Reply::Tool(it) = reply(TASK_PARAM_REVISION, Method::TaskResult, &result) else { panic!() };
    assert_eq!(it.meta.unwrap().len(), 1);
}

fn decode_notification(version: &str, method: &str, params: Value) -> Option<ServerNotification> {
    match decode(&client_codec(revision(version)), &notification(method, params)) {
        ServerMessage::ServerNotification(decoded) => Some(decoded),
        ServerMessage::Ignored => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn notifications_are_read_in_the_form_of_the_revision() {
    for version in LEGACY.into_iter().chain([MODERN]) {
        for (method, spoken) in
            [("notifications/tasks", MODERN), ("notifications/tasks/status", TASK_PARAM_REVISION)]
        {
            let decoded = decode_notification(version, method, fields(spoken, "working"));
            assert_eq!(decoded.is_some(), version == spoken, "{version} {method}");
            if let Some(Notification::Task(it)) = decoded.map(|it| it.notification) {
                assert_eq!(*it, task(TaskState::Working));
            }
        }
    }
    let meta = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 4}});
    let done = json!({"result": {"content": []}});
    let params = with(with(fields(MODERN, "completed"), done), meta);
    let told = decode_notification(MODERN, "notifications/tasks", params).unwrap();
    assert_eq!(told.subscription, Some(CallId::from(4)));
    let Notification::Task(it) = told.notification else { panic!() };
    assert_eq!(it.status(), TaskStatus::Completed);
    for odd in [json!({}), fields(MODERN, "someday"), fields(MODERN, "completed")] {
        assert!(decode_notification(MODERN, "notifications/tasks", odd).is_none());
    }
}

#[test]
fn task_progress_is_distinct_from_call_progress() {
    let params = json!({"progressToken": 4, "progress": 0.5, "message": "half"});
    let related = with(params.clone(), json!({"_meta": {RELATED: {"taskId": "1"}}}));
    let told = decode_notification(TASK_PARAM_REVISION, "notifications/progress", related.clone())
        .unwrap();
    assert_eq!(told.token, Some(CallId::from(4)));
    let Notification::TaskProgress { id, token, progress, .. } = told.notification else {
        panic!()
    };
    assert_eq!((&*id, token.get(), progress), ("1", "4", 0.5));
    for (version, params) in [
        (TASK_PARAM_REVISION, params.clone()),
        (TASK_PARAM_REVISION, with(params.clone(), json!({"_meta": {RELATED: "1"}}))),
        (TASK_PARAM_REVISION, with(params.clone(), json!({"_meta": {RELATED: {"taskId": 1}}}))),
        (TASK_PARAM_REVISION, with(params, json!({"_meta": 5}))),
        (MODERN, related.clone()),
        ("2025-06-18", related),
    ] {
        let told = decode_notification(version, "notifications/progress", params).unwrap();
        assert!(matches!(told.notification, Notification::Progress { .. }));
    }
}
