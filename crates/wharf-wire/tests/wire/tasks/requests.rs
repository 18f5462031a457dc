//! Task parameters of requests, and their validation.

use std::sync::Arc;

use wharf_model::{Method, TaskRequest};
use wharf_wire::{Connection, MessageLimits, Received};

use super::*;
use crate::http::{V, send};

const CALLS: [(&str, Method); 5] = [
    ("tasks/get", Method::GetTask),
    ("tasks/update", Method::UpdateTask),
    ("tasks/cancel", Method::CancelTask),
    ("tasks/result", Method::TaskResult),
    ("tasks/list", Method::ListTasks),
];

fn params(method: &str) -> Value {
    match method {
        "tasks/list" => json!({"cursor": "c"}),
        "tasks/update" => json!({"taskId": "1", "inputResponses": {"a": {"action": "accept"}}}),
        _ => json!({"taskId": "1"}),
    }
}

#[test]
fn each_revision_has_its_own_calls() {
    let of = |names: &[&'static str]| names.to_vec();
    for (version, has) in [
        ("2024-11-05", vec![]),
        ("2025-03-26", vec![]),
        ("2025-06-18", vec![]),
        (TASK_PARAM_REVISION, of(&["tasks/get", "tasks/cancel", "tasks/result", "tasks/list"])),
        (MODERN, of(&["tasks/get", "tasks/cancel", "tasks/update"])),
    ] {
        for (name, method) in CALLS {
            let received = match version == MODERN {
                true => receive(&mut connection(), &request_with_tasks(name, params(name))),
                false => receive(&mut session(version), &request(7, name, params(name))),
            };
            if has.contains(&name) {
                let (request, _) = call(received);
                assert_eq!((request.method, request.tasking), (method, TaskRequest::Welcome));
                let target = if name == "tasks/list" { "" } else { "1" };
                assert_eq!(request.target(), target, "{version} {name}");
            } else {
                let status = if version == MODERN { 404 } else { 200 };
                let (message, code, got) = error(received);
                assert_eq!((code, got), (-32601, status), "{version} {name}");
                assert_eq!(message["error"]["data"]["method"], name);
            }
        }
    }
}

#[test]
fn input_responses_come_with_an_update() {
    let (request, _) = call(receive(
        &mut connection(),
        &request_with_tasks(
            "tasks/update",
            json!({"taskId": "1", "inputResponses": {"a": {"x": 1}}}),
        ),
    ));
    assert_eq!(request.input_responses(), Some(r#"{"a":{"x":1}}"#));
    for odd in [json!(null), json!([]), json!("{}"), json!(1)] {
        let params = json!({"taskId": "1", "inputResponses": odd});
        let (message, code, _) =
            error(receive(&mut connection(), &request_with_tasks("tasks/update", params)));
        assert_eq!((code, &message["error"]["data"]["field"]), (-32602, &json!("inputResponses")));
    }
    let params = json!({"taskId": "1"});
    assert_eq!(
        error(receive(&mut connection(), &request_with_tasks("tasks/update", params))).1,
        -32602
    );
}

#[test]
fn a_task_has_an_id_of_bounded_length() {
    for version in [TASK_PARAM_REVISION, MODERN] {
        let ask = |id: Value| match version == MODERN {
            true => {
                receive(&mut connection(), &request_with_tasks("tasks/get", json!({"taskId": id})))
            }
            false => {
                receive(&mut session(version), &request(7, "tasks/get", json!({"taskId": id})))
            }
        };
        let (longest, longer) = ("x".repeat(256), "x".repeat(257));
        assert_eq!(call(ask(json!(longest))).0.target(), longest);
        for odd in [json!(longer), json!(null), json!(5), json!({}), json!(["1"])] {
            let (message, code, status) = error(ask(odd));
            assert_eq!((code, status), (-32602, 200));
            assert_eq!(message["error"]["data"]["field"], "taskId");
        }
    }
    let twice = r#"{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"taskId":"a","t\u0061skId":"b"}}"#;
    assert_eq!(error(session(TASK_PARAM_REVISION).receive(twice.into())).1, -32600);
}

#[test]
fn the_id_is_repeated_in_a_header() {
    let got = |name: &str, pairs: &[(&str, &str)]| {
        let message = request_with_tasks("tasks/get", json!({"taskId": name}));
        let pairs: Vec<_> =
            [V, ("method", "tasks/get")].into_iter().chain(pairs.to_vec()).collect();
        send(&message, &pairs)
    };
    call(got("1", &[("name", "1")]));
    call(got("ä", &[("name", "=?base64?w6Q=?=")]));
    for pairs in [&[][..], &[("name", "2")], &[("name", "1"), ("name", "1")], &[("name", "ä")]] {
        let (message, code, status) = error(got("1", pairs));
        assert_eq!((code, status), (-32020, 400));
        assert_eq!(message["error"]["data"]["header"], "Mcp-Name");
    }
    for method in ["tasks/update", "tasks/cancel"] {
        let message = request_with_tasks(method, params(method));
        call(send(&message, &[V, ("method", method), ("name", "1")]));
        let (_, code, _) = error(send(&message, &[V, ("method", method), ("name", "2")]));
        assert_eq!(code, -32020);
    }
    // There is no such method, whatever the header contains.
    let message = request_with_tasks("tasks/result", json!({"taskId": "1"}));
    let (_, code, status) = error(send(&message, &[V, ("method", "tasks/result"), ("name", "2")]));
    assert_eq!((code, status), (-32601, 404));
}

#[test]
fn a_modern_client_declares_tasks_with_each_request() {
    let tasking = |capabilities: Value| {
        let meta = json!({"io.modelcontextprotocol/clientCapabilities": capabilities});
        let message = modern(1, "tools/call", json!({"name": "t", "_meta": meta}));
        call(receive(&mut connection(), &message)).0.tasking
    };
    for (capabilities, expected) in [
        (json!({}), TaskRequest::Declined),
        (json!({"elicitation": {}, "sampling": {"tools": {}}}), TaskRequest::Declined),
        (json!({"tasks": {"requests": {}}}), TaskRequest::Declined),
        (json!({"extensions": {"com.example/tasks": {}}}), TaskRequest::Declined),
        (json!({"extensions": {TASKS_EXTENSION: {}}}), TaskRequest::Welcome),
        (
            json!({"roots": {}, "extensions": {"a/b": {}, TASKS_EXTENSION: {"x": 1}}}),
            TaskRequest::Welcome,
        ),
    ] {
        assert_eq!(tasking(capabilities.clone()), expected, "{capabilities}");
    }
    let listen = json!({"notifications": {"taskIds": ["1", "2"]}});
    for (message, expected) in [
        (modern(1, "subscriptions/listen", listen.clone()), TaskRequest::Declined),
        (request_with_tasks("subscriptions/listen", listen), TaskRequest::Welcome),
        (modern(1, "tasks/get", json!({"taskId": "1"})), TaskRequest::Declined),
    ] {
        assert_eq!(call(receive(&mut connection(), &message)).0.tasking, expected, "{message}");
    }
}

#[test]
fn a_legacy_client_requests_each_task() {
    let tool = |version: &str, task: Value| {
        let params = json!({"name": "t", "task": task});
        receive(&mut session(version), &request(1, "tools/call", params))
    };
    for (task, expected) in [
        (json!(null), TaskRequest::Declined),
        (json!({}), TaskRequest::Wanted(None)),
        (json!({"ttl": null, "pollInterval": 5}), TaskRequest::Wanted(None)),
        (json!({"ttl": 60000}), TaskRequest::Wanted(Some(60_000))),
        (json!({"ttl": 0}), TaskRequest::Wanted(Some(0))),
        (json!({"ttl": 1.5}), TaskRequest::Wanted(Some(1))),
        (json!({"ttl": 1e300}), TaskRequest::Wanted(Some(u64::MAX))),
    ] {
        assert_eq!(call(tool(TASK_PARAM_REVISION, task.clone())).0.tasking, expected, "{task}");
        for older in ["2024-11-05", "2025-03-26", "2025-06-18"] {
            assert_eq!(call(tool(older, task.clone())).0.tasking, TaskRequest::Unknown);
        }
    }
    for (task, field) in [
        (json!([]), "task"),
        (json!(true), "task"),
        (json!("x"), "task"),
        (json!({"ttl": -1}), "task.ttl"),
        (json!({"ttl": "60"}), "task.ttl"),
        (json!({"ttl": {}}), "task.ttl"),
    ] {
        let (message, code, status) = error(tool(TASK_PARAM_REVISION, task.clone()));
        assert_eq!((code, status), (-32602, 200), "{task}");
        assert_eq!(message["error"]["data"]["field"], field);
        // In other calls the field has no meaning.
        call(tool("2025-06-18", task.clone()));
        call(receive(
            &mut connection(),
            &request_with_tasks("tools/call", json!({"name": "t", "task": task})),
        ));
    }
    let other = request(1, "prompts/get", json!({"name": "p", "task": 5}));
    assert_eq!(
        call(receive(&mut session(TASK_PARAM_REVISION), &other)).0.tasking,
        TaskRequest::Declined
    );
}

#[test]
fn a_task_request_without_task_support_is_ignored() {
    let call_with = |task: Value| request(1, "tools/call", json!({"name": "t", "task": task}));
    for tasks in
        [None, Some(json!({"list": {}})), Some(json!({"requests": {"tools": {"call": null}}}))]
    {
        let mut discovery = discovery_with_tasks();
        discovery.capabilities.tasks = tasks.map(|it| serde_json::from_value(it).unwrap());
        let mut connection = connection();
        open_with(&mut connection, TASK_PARAM_REVISION, json!({}), discovery);
        for task in [json!({"ttl": 5}), json!("odd")] {
            let (request, _) = call(receive(&mut connection, &call_with(task)));
            assert_eq!(request.tasking, TaskRequest::Declined);
        }
    }
    // Without a session nothing was announced.
    let wire = Arc::new(wire());
    let alone =
        wire.receive(call_with(json!({})).to_string().into(), Some(revision(TASK_PARAM_REVISION)));
    let (request, codec) = call(alone);
    assert_eq!(request.tasking, TaskRequest::Wanted(None));
    assert!(codec.may_become_task());
    assert!(
        encoded(&codec, wharf_model::Outcome::Task(Box::new(task(TaskState::Working)))).0["result"]
            ["task"]
            .is_object()
    );
}

#[test]
fn tasks_that_a_listen_names_are_bounded() {
    let limits = MessageLimits::default().subscriptions(2);
    let mut connection = Connection::new(Arc::new(wire().limits(limits)));
    let mut listen = |ids: Value| {
        let params = json!({"notifications": {"taskIds": ids}});
        receive(&mut connection, &request_with_tasks("subscriptions/listen", params))
    };
    let (request, _) = call(listen(json!(["a", "b", "a"])));
    assert_eq!(request.filter.as_ref().unwrap().read(|it| it.tasks.len()), 2);
    assert_eq!(error(listen(json!(["a", "b", "c"]))).1, 1004);
    assert_eq!(error(listen(json!(["x".repeat(257)]))).1, -32602);
    for odd in [json!("a"), json!([1]), json!({"a": 1})] {
        assert_eq!(error(listen(odd)).1, -32602);
    }
}

#[test]
fn polling_needs_no_stream() {
    let wire = Arc::new(wire().without_streams());
    let message = request_with_tasks("tasks/get", json!({"taskId": "1"}));
    assert_eq!(
        call(wire.receive(message.to_string().into(), None)).0.tasking,
        TaskRequest::Welcome
    );
    let tool = request(1, "tools/call", json!({"name": "t", "task": {}}));
    let mut connection = Connection::new(wire);
    open_with(&mut connection, TASK_PARAM_REVISION, json!({}), discovery_with_tasks());
    let (request, codec) = call(receive(&mut connection, &tool));
    assert_eq!(request.tasking, TaskRequest::Wanted(None));
    let (reply, _) =
        encoded(&codec, wharf_model::Outcome::Task(Box::new(task(TaskState::Working))));
    assert_eq!(reply["result"]["task"]["taskId"], "786512e2");
    let ready = notification("notifications/initialized", json!({}));
    assert!(matches!(receive(&mut connection, &ready), Received::Ignore));
}

#[test]
fn the_legacy_tasks_capability_is_kept() {
    let said = json!({"tasks": {"list": {}, "requests": {"sampling": {"createMessage": {}}}}});
    let mut connection = connection();
    open_with(&mut connection, TASK_PARAM_REVISION, said.clone(), discovery_with_tasks());
    let (request, _) = call(receive(&mut connection, &request(1, "tools/list", json!({}))));
    let kept = serde_json::to_value(&request.peer().capabilities).unwrap();
    assert_eq!(kept, said);
}

#[test]
fn task_support_is_announced_in_the_form_of_each_era() {
    for version in LEGACY {
        let reply = open_with(&mut connection(), version, json!({}), discovery_with_tasks());
        let capabilities = &reply["result"]["capabilities"];
        assert_eq!(capabilities["tasks"].is_object(), version == TASK_PARAM_REVISION, "{version}");
        assert!(capabilities["extensions"].get(TASKS_EXTENSION).is_none(), "{capabilities}");
    }
    let (_, codec) = call(receive(&mut connection(), &modern(1, "server/discover", json!({}))));
    let reply = encoded(&codec, wharf_model::Reply::Discover(Box::new(discovery_with_tasks()))).0;
    let capabilities = &reply["result"]["capabilities"];
    assert!(capabilities["tasks"].is_null());
    assert_eq!(capabilities["extensions"][TASKS_EXTENSION], json!({}));
}
