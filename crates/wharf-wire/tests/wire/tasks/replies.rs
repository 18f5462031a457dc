//! Replies to task methods, in both dialects.

use wharf_model::{
    ClientRequest, Content, ElicitForm, Error, ErrorKind, Notification, Outcome, Reply,
    SamplingMessage, SamplingRequest, ToolResult,
};

use super::*;

fn client_requests() -> Vec<(String, ClientRequest)> {
    let form = ElicitForm::new("Who?", json!({"type": "object", "properties": {}}));
    vec![
        ("name".into(), ClientRequest::Elicit(Box::new(form))),
        ("roots".into(), ClientRequest::Roots),
    ]
}

fn encode_task(version: &str, task: Task) -> Value {
    let codec = codec_of(version, "tasks/get", json!({"taskId": "786512e2"}));
    let (reply, status) = encoded(&codec, Reply::Task(Box::new(task)));
    assert_eq!((status, &reply["id"]), (200, &json!(7)));
    match version == MODERN {
        true => bare(reply["result"].clone()),
        false => reply["result"].clone(),
    }
}

#[test]
fn a_created_task_has_only_the_task_fields() {
    let begun = |version: &str, task: Task| {
        let (reply, status) = encoded(&task_call_codec(version), Outcome::Task(Box::new(task)));
        assert_eq!(status, 200);
        reply["result"].clone()
    };
    for state in [
        TaskState::Working,
        TaskState::InputRequired(client_requests()),
        TaskState::Completed(ToolResult::text("x").into()),
        TaskState::Failed(Error::new(ErrorKind::InternalError).into()),
        TaskState::Cancelled,
    ] {
        let mut task = task(state);
        task.message = Some("On it \"now\"".into());
        let status = task.status().as_str();
        let said = json!({"statusMessage": "On it \"now\""});
        let flat = with(json!({"resultType": "task"}), with(fields(MODERN, status), said.clone()));
        assert_eq!(bare(begun(MODERN, task.clone())), flat);
        assert_eq!(
            begun(TASK_PARAM_REVISION, task),
            json!({"task": with(fields(TASK_PARAM_REVISION, status), said)})
        );
    }
    let mut endless = task(TaskState::Working);
    (endless.ttl, endless.poll_interval) = (None, None);
    let flat = begun(MODERN, endless.clone());
    assert!(flat["ttlMs"].is_null() && flat.as_object().unwrap().contains_key("ttlMs"));
    assert!(!flat.as_object().unwrap().contains_key("pollIntervalMs"));
    let nested = &begun(TASK_PARAM_REVISION, endless)["task"];
    assert!(nested["ttl"].is_null() && nested.as_object().unwrap().contains_key("ttl"));
    assert!(!nested.as_object().unwrap().contains_key("pollInterval"));
}

#[test]
fn a_client_without_task_support_gets_no_handle() {
    let handle = || Outcome::Task(Box::new(task(TaskState::Working)));
    let mut codecs: Vec<Codec> =
        LEGACY.iter().map(|it| codec_of(it, "tools/call", json!({"name": "t"}))).collect();
    codecs.push(codec(MODERN, "tools/call", json!({"name": "t", "task": {}})));
    codecs.extend(
        [TASK_PARAM_REVISION, MODERN].map(|it| codec_of(it, "prompts/get", json!({"name": "p"}))),
    );
    codecs.extend(
        [TASK_PARAM_REVISION, MODERN].map(|it| codec_of(it, "tasks/get", json!({"taskId": "1"}))),
    );
    codecs.push(codec_of("2025-06-18", "tools/call", json!({"name": "t", "task": {}})));
    for codec in codecs {
        let (reply, _) = encoded(&codec, handle());
        assert_eq!(reply["error"]["code"], -32603, "{codec:?}");
    }
}

#[test]
fn the_modern_dialect_writes_the_fields_of_the_state() {
    let mut odd = ToolResult::error("no such city").with_meta("com.example/k", 1);
    odd.meta.as_mut().unwrap().insert(RELATED.into(), json!({"taskId": "other"}));
    let failure = Error::new(ErrorKind::ResourceNotFound).with_message("gone");
    for (state, status, more) in [
        (TaskState::Working, "working", json!({})),
        (
            TaskState::InputRequired(client_requests()),
            "input_required",
            json!({"inputRequests": {
                "name": {"method": "elicitation/create", "params": {
                    "mode": "form", "message": "Who?",
                    "requestedSchema": {"type": "object", "properties": {}},
                }},
                "roots": {"method": "roots/list"},
            }}),
        ),
        (TaskState::InputRequired(vec![]), "input_required", json!({"inputRequests": {}})),
        (
            TaskState::Completed(ToolResult::text("72F").into()),
            "completed",
            json!({"result": {
                "resultType": "complete", "content": [{"type": "text", "text": "72F"}],
            }}),
        ),
        (
            TaskState::Completed(odd.into()),
            "completed",
            json!({"result": {
                "resultType": "complete", "content": [{"type": "text", "text": "no such city"}],
                "isError": true, "_meta": {"com.example/k": 1},
            }}),
        ),
        (
            TaskState::Failed(failure.into()),
            "failed",
            json!({
                "statusMessage": "gone",
                "error": {"code": -32602, "message": "gone", "data": {"reason": "resource_not_found"}},
            }),
        ),
        // The failure of a tool is reported as it would be without a task.
        (
            TaskState::Failed(Error::new(ErrorKind::ToolTimeout).into()),
            "completed",
            json!({"result": {
                "resultType": "complete", "isError": true,
                "content": [{"type": "text", "text": "Tool timed out"}],
            }}),
        ),
        (TaskState::Cancelled, "cancelled", json!({})),
    ] {
        let expected = with(fields(MODERN, status), more);
        let result = encode_task(MODERN, task(state.clone()));
        assert_eq!(result, with(expected.clone(), json!({"resultType": "complete"})));
        // A notification has the same fields.
        let codec = codec_of(MODERN, "subscriptions/listen", json!({"notifications": {}}));
        let mut out = Vec::new();
        assert!(codec.notify(&Notification::Task(Box::new(task(state))), &mut out));
        let listen = json!({"_meta": {"io.modelcontextprotocol/subscriptionId": 7}});
        assert_eq!(parse(&out)["method"], "notifications/tasks");
        assert_eq!(parse(&out)["params"], with(expected, listen));
    }
}

#[test]
fn the_legacy_dialect_writes_the_status_only() {
    let long = "é".repeat(500);
    let short = format!("{}…", "é".repeat(128));
    let mut image = ToolResult::new([Content::image([1], "image/png")]);
    image.is_error = true;
    for (state, status, said) in [
        (TaskState::Working, "working", None),
        (TaskState::InputRequired(client_requests()), "input_required", None),
        (TaskState::Completed(ToolResult::text("72F").into()), "completed", None),
        (TaskState::Completed(ToolResult::error(" bad date\n").into()), "failed", Some("bad date")),
        (TaskState::Completed(ToolResult::error(long).into()), "failed", Some(&*short)),
        (TaskState::Completed(image.into()), "failed", Some("Tool execution failed")),
        (
            TaskState::Completed(ToolResult::error(" ").into()),
            "failed",
            Some("Tool execution failed"),
        ),
        (
            TaskState::Failed(Error::new(ErrorKind::InternalError).into()),
            "failed",
            Some("Internal error"),
        ),
        (
            TaskState::Failed(Error::new(ErrorKind::ToolTimeout).into()),
            "failed",
            Some("Tool timed out"),
        ),
        (TaskState::Cancelled, "cancelled", None),
    ] {
        let mut task = task(state);
        let mut expected = fields(TASK_PARAM_REVISION, status);
        if let Some(said) = said {
            expected["statusMessage"] = said.into();
        }
        assert_eq!(encode_task(TASK_PARAM_REVISION, task.clone()), expected);
        task.message = Some("own words".into());
        expected["statusMessage"] = "own words".into();
        assert_eq!(encode_task(TASK_PARAM_REVISION, task), expected);
    }
}

#[test]
fn an_update_is_acknowledged() {
    let codec = codec_of(MODERN, "tasks/update", json!({"taskId": "1", "inputResponses": {}}));
    let (reply, status) = encoded(&codec, Reply::TaskUpdated);
    assert_eq!(status, 200);
    assert_eq!(bare(reply["result"].clone()), json!({"resultType": "complete"}));
}

#[test]
fn cancelling_an_ended_task_is_an_error_only_in_the_legacy_dialect() {
    let failed = ToolResult::error("no");
    for (state, status) in [
        (TaskState::Completed(ToolResult::text("x").into()), "completed"),
        (TaskState::Completed(failed.into()), "failed"),
        (TaskState::Failed(Error::new(ErrorKind::InternalError).into()), "failed"),
        (TaskState::Cancelled, "cancelled"),
    ] {
        for too_late in [true, false] {
            let reply = Reply::TaskCancelled { task: task(state.clone()).into(), too_late };
            let modern = codec_of(MODERN, "tasks/cancel", json!({"taskId": "1"}));
            let (answer, http) = encoded(&modern, reply.clone());
            assert_eq!(http, 200);
            assert_eq!(bare(answer["result"].clone()), json!({"resultType": "complete"}));
            let (answer, http) = encoded(
                &codec_of(TASK_PARAM_REVISION, "tasks/cancel", json!({"taskId": "1"})),
                reply,
            );
            assert_eq!(http, 200);
            if too_late {
                let told = format!("Cannot cancel task: already in terminal status '{status}'");
                assert_eq!(answer["error"]["code"], -32602);
                assert_eq!(answer["error"]["message"], told);
            } else {
                assert_eq!(answer["result"]["status"], status);
                assert_eq!(answer["result"]["taskId"], "786512e2");
            }
        }
    }
}

#[test]
fn tasks_are_listed() {
    let codec = codec_of(TASK_PARAM_REVISION, "tasks/list", json!({}));
    let list = |tasks, next| encoded(&codec, Reply::TaskList { tasks, next }).0["result"].clone();
    assert_eq!(list(vec![], None), json!({"tasks": []}));
    let failed = TaskState::Completed(ToolResult::error("no").into());
    let tasks = vec![task(TaskState::Working), task(failed)];
    let second = with(fields(TASK_PARAM_REVISION, "failed"), json!({"statusMessage": "no"}));
    assert_eq!(
        list(tasks, Some("more".into())),
        json!({"tasks": [fields(TASK_PARAM_REVISION, "working"), second], "nextCursor": "more"})
    );
}

#[test]
fn a_result_names_its_task() {
    let codec = codec_of(TASK_PARAM_REVISION, "tasks/result", json!({"taskId": "a\"b"}));
    let related = json!({RELATED: {"taskId": "a\"b"}});
    let (reply, status) = encoded(&codec, ToolResult::text("x"));
    assert_eq!(status, 200);
    let content = json!([{"type": "text", "text": "x"}]);
    assert_eq!(reply["result"], json!({"content": content, "_meta": related}));
    let mut own = ToolResult::error("x").with_meta("com.example/k", 1);
    own.meta.as_mut().unwrap().insert(RELATED.into(), json!({"taskId": "forged"}));
    assert_eq!(
        encoded(&codec, own).0["result"],
        json!({
            "content": content, "isError": true,
            "_meta": with(related, json!({"com.example/k": 1})),
        })
    );
}

#[test]
fn a_failed_task_result_equals_the_failed_tool_result() {
    let codec = codec_of(TASK_PARAM_REVISION, "tasks/result", json!({"taskId": "1"}));
    let (reply, _) = encoded(&codec, Error::new(ErrorKind::ToolTimeout));
    assert_eq!(reply["result"]["isError"], true);
    assert_eq!(reply["result"]["_meta"], json!({RELATED: {"taskId": "1"}}));
    for (error, code) in [
        (Error::new(ErrorKind::InternalError), -32603),
        (Error::new(ErrorKind::TaskNotFound), -32602),
        (Error::new(ErrorKind::TaskCancelled), -32602),
        (Error::custom(42, "own"), 42),
    ] {
        assert_eq!(encoded(&codec, error).0["error"]["code"], code);
    }
}

#[test]
fn messages_of_a_task_name_the_task() {
    let params = json!({"taskId": "1", "_meta": {"progressToken": "p"}});
    let codec = codec_of(TASK_PARAM_REVISION, "tasks/result", params);
    let related = json!({RELATED: {"taskId": "1"}});
    let encode_request = |ask: ClientRequest| {
        let mut out = Vec::new();
        assert!(codec.ask(3, &ask, &mut out));
        parse(&out)["params"].clone()
    };
    assert_eq!(encode_request(ClientRequest::Roots), json!({"_meta": related}));
    let form = ElicitForm::new("Who?", json!({"type": "object", "properties": {}}));
    let form = encode_request(ClientRequest::Elicit(Box::new(form)));
    assert_eq!((&form["message"], &form["_meta"]), (&json!("Who?"), &related));
    let mut sampling = SamplingRequest::new(5).message(SamplingMessage::user("hi"));
    sampling.meta = serde_json::from_value(json!({"com.example/k": 1})).unwrap();
    let sampling = encode_request(ClientRequest::Sample(Box::new(sampling)));
    assert_eq!(sampling["_meta"], with(related.clone(), json!({"com.example/k": 1})));
    for notification in [
        Notification::Progress { progress: 1.0, total: None, message: None },
        Notification::Log {
            level: wharf_model::LogLevel::Info,
            logger: None,
            data: serde_json::value::to_raw_value("hi").unwrap(),
        },
    ] {
        let mut out = Vec::new();
        assert!(codec.notify(&notification, &mut out));
        assert_eq!(parse(&out)["params"]["_meta"], related);
    }
    // Other calls belong to no task.
    let mut out = Vec::new();
    assert!(codec_of(TASK_PARAM_REVISION, "tools/call", json!({"name": "t"})).ask(
        3,
        &ClientRequest::Roots,
        &mut out
    ));
    assert!(parse(&out)["params"].is_null());
}

#[test]
fn a_tool_that_runs_only_as_a_task_or_never() {
    let fail = |version: &str, kind: ErrorKind| {
        let codec = match version == MODERN {
            true => codec(MODERN, "tools/call", json!({"name": "t"})),
            false => codec_of(version, "tools/call", json!({"name": "t"})),
        };
        let (reply, status) = encoded(&codec, Error::new(kind));
        (reply["error"].clone(), status)
    };
    let (error, status) = fail(MODERN, ErrorKind::TaskRequired);
    assert_eq!((&error["code"], status), (&json!(-32021), 400));
    assert_eq!(
        error["data"],
        json!({"reason": "task_required", "requiredCapabilities": {"extensions": {TASKS_EXTENSION: {}}}})
    );
    let (error, status) = fail(TASK_PARAM_REVISION, ErrorKind::TaskRequired);
    assert_eq!((&error["code"], status), (&json!(-32601), 200));
    assert_eq!(error["data"], json!({"reason": "task_required"}));
    for (version, code) in [(MODERN, -32602), (TASK_PARAM_REVISION, -32601)] {
        let (error, status) = fail(version, ErrorKind::TaskForbidden);
        assert_eq!((&error["code"], status), (&json!(code), 200));
    }
    // Required capabilities that are present already are kept.
    let own = json!({"requiredCapabilities": {"extensions": {TASKS_EXTENSION: {"x": 1}}}});
    let error = Error::new(ErrorKind::TaskRequired).with_data(own.clone());
    let (reply, _) = encoded(&codec(MODERN, "tools/call", json!({"name": "t"})), error);
    assert_eq!(reply["error"]["data"], with(own, json!({"reason": "task_required"})));
}
