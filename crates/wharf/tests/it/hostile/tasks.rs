//! Tasks that never end, have invalid ids, or are malformed.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use serde_json::{Value, json};
use wharf::{
    ErrorKind,
    client::{ClientBuilder, ClientHandlerBuilder},
    model::ElicitResult,
};

use crate::hostile::scripted_server::{
    Action, ReceivedRequest, ScriptedServer, builder, http_json, in_time, line, tool,
};

/// Task with these members in place of the usual ones.
fn task(members: Value) -> Value {
    let mut task = json!({"taskId": "t-1", "status": "working", "createdAt": "2026-11-17T02:00:00Z",
        "lastUpdatedAt": "2026-11-17T02:00:00Z", "ttlMs": null, "pollIntervalMs": 1});
    for (name, value) in members.as_object().unwrap() {
        task[name] = value.clone();
    }
    task
}

/// Reply of a modern server whose task begins as `first`; `look` returns its later state.
fn modern(asked: &ReceivedRequest, first: &Value, look: &dyn Fn() -> Value) -> Option<Value> {
    let of = |mut result: Value, kind: &str| {
        result["resultType"] = kind.into();
        asked.reply(result)
    };
    match asked.method() {
        "server/discover" => Some(of(
            json!({"supportedVersions": ["2026-07-28"], "ttlMs": 0, "cacheScope": "public",
                "capabilities": {"tools": {}, "extensions": {"io.modelcontextprotocol/tasks": {}}},
                "serverInfo": {"name": "played", "version": "1"}}),
            "complete",
        )),
        "tools/call" => Some(of(first.clone(), "task")),
        "tasks/get" => Some(of(look(), "complete")),
        "tasks/update" | "tasks/cancel" => Some(of(json!({}), "complete")),
        "subscriptions/listen" => Some(json!({"jsonrpc": "2.0", "id": asked.message["id"],
            "error": {"code": -32601, "message": "no"}})),
        _ => None,
    }
}

async fn modern_lines(
    first: Value,
    look: impl Fn() -> Value + Send + Sync + 'static,
) -> ScriptedServer {
    ScriptedServer::lines(move |asked| match modern(asked, &first, &look) {
        Some(reply) => Action::Say(line(&reply)),
        None => Action::Nothing,
    })
    .await
}

fn hasty() -> ClientBuilder {
    builder().total(Duration::from_secs(2))
}

fn count(server: &ScriptedServer, method: &str) -> usize {
    server.methods().iter().filter(|it| *it == method).count()
}

/// Waits until the server has received a request for `method`.
async fn asked_for(server: &ScriptedServer, method: &str) {
    while count(server, method) == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_task_that_never_ends_is_given_up_and_cancelled() {
    for interval in [json!(0), json!(1), json!(1_000_000_000_000_000_000_u64)] {
        let look = task(json!({"pollIntervalMs": interval}));
        let server = modern_lines(look.clone(), move || look.clone()).await;
        let client = in_time(hasty().connect(server.lines_url())).await.unwrap();
        let error = in_time(client.call("t", ())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RequestTimeout, "{error}");
        in_time(asked_for(&server, "tasks/cancel")).await;
        // At most one poll every 50 ms, whatever interval the server announces.
        assert!(count(&server, "tasks/get") <= 40, "{:?}", server.methods());
        assert_eq!(count(&server, "tools/call"), 1);
    }
}

#[tokio::test]
async fn an_id_of_a_megabyte_is_not_sent_back() {
    let first = task(json!({"taskId": "x".repeat(1 << 20)}));
    let server = modern_lines(first.clone(), move || first.clone()).await;
    let client = in_time(hasty().connect(server.lines_url())).await.unwrap();
    let error = in_time(client.call("t", ())).await.unwrap_err();
    assert!(error.message().len() < 400, "{} bytes", error.message().len());
    assert_eq!(count(&server, "tasks/get"), 0);
}

#[tokio::test]
async fn an_invalid_task_is_an_error_and_no_panic() {
    let odd = [
        json!({"status": "someday"}),
        json!({"status": 7}),
        json!({"status": "completed"}),
        json!({"status": "failed", "error": "x"}),
        json!({"status": "input_required", "inputRequests": [1]}),
        json!({"createdAt": "yesterday"}),
        json!({"taskId": "t-2"}),
        json!({"ttlMs": "long"}),
    ];
    for members in odd {
        let look = task(members.clone());
        let server = modern_lines(task(json!({})), move || look.clone()).await;
        let client = in_time(hasty().connect(server.lines_url())).await.unwrap();
        let ended = in_time(client.call("t", ())).await;
        let error = ended.expect_err(&members.to_string());
        assert!(error.message().len() < 1000, "{members}: {error}");
    }
}

#[tokio::test]
async fn questions_that_never_end_are_not_answered_for_ever() {
    let asked = Arc::new(AtomicUsize::new(0));
    let form = json!({"method": "elicitation/create", "params": {"mode": "form", "message": "?",
        "requestedSchema": {"type": "object", "properties": {}}}});
    let look = move || {
        let key = format!("q{}", asked.fetch_add(1, Ordering::Relaxed));
        task(json!({"status": "input_required", "inputRequests": {key: form}}))
    };
    let server = modern_lines(task(json!({})), look).await;
    let answers = ClientHandlerBuilder::new().elicit(async |_| Ok(ElicitResult::decline()));
    let client = in_time(builder().handler(answers).connect(server.lines_url())).await.unwrap();
    let error = in_time(client.call("t", ())).await.unwrap_err();
    assert!(error.message().contains("more than 8 times"), "{error}");
    assert!(count(&server, "tasks/update") <= 8);
}

#[tokio::test]
async fn headers_name_the_task() {
    let done = task(json!({"status": "completed", "result": {"content": []}}));
    let server = ScriptedServer::http(move |asked| {
        match modern(asked, &task(json!({})), &|| done.clone()) {
            Some(reply) => Action::Say(http_json(200, &reply)),
            None => Action::Say(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec()),
        }
    })
    .await;
    let client = in_time(hasty().connect(server.url())).await.unwrap();
    in_time(client.call("t", ())).await.unwrap();
    let asked = server.asked.lock().unwrap();
    let call = asked.iter().find(|it| it.method() == "tools/call").unwrap();
    let declared = &call.message["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"];
    assert_eq!(declared["extensions"], json!({"io.modelcontextprotocol/tasks": {}}));
    let get = asked.iter().find(|it| it.method() == "tasks/get").unwrap();
    assert_eq!(
        (get.header("mcp-method"), get.header("mcp-name")),
        (Some("tasks/get"), Some("t-1"))
    );
}

/// Reply of a 2025-11-25 server whose only tool runs only as a task.
fn legacy(asked: &ReceivedRequest, look: &Value, result: Option<Value>) -> Option<Value> {
    let failed = |code: i32| {
        json!({"jsonrpc": "2.0", "id": asked.message["id"],
            "error": {"code": code, "message": "no"}})
    };
    let as_task = asked.message["params"].get("task").is_some();
    match asked.method() {
        "initialize" => Some(asked.reply(json!({"protocolVersion": "2025-11-25",
            "capabilities": {"tools": {}, "tasks": {"cancel": {},
                "requests": {"tools": {"call": {}}}},
                // A server of both eras may announce the modern tasks extension as well.
                "extensions": {"io.modelcontextprotocol/tasks": {}}},
            "serverInfo": {"name": "played", "version": "1"}}))),
        "tools/list" => {
            let mut only = tool("t", json!({"type": "object"}));
            only["execution"] = json!({"taskSupport": "required"});
            Some(asked.reply(json!({"tools": [only]})))
        }
        "tools/call" if as_task => Some(asked.reply(json!({"task": look}))),
        "tools/call" => Some(failed(-32601)),
        "tasks/get" => Some(asked.reply(look.clone())),
        "tasks/result" => result.map(|result| asked.reply(result)),
        "notifications/initialized" | "notifications/cancelled" => None,
        _ => Some(failed(-32601)),
    }
}

fn legacy_task(status: &str) -> Value {
    json!({"taskId": "t-1", "status": status, "createdAt": "2026-11-17T02:00:00Z",
        "lastUpdatedAt": "2026-11-17T02:00:00Z", "ttl": null, "pollInterval": 1})
}

#[tokio::test]
async fn a_legacy_tool_that_refuses_plain_calls_is_called_as_a_task() {
    let result = json!({"content": [{"type": "text", "text": "fetched"}],
        "_meta": {"io.modelcontextprotocol/related-task": {"taskId": "t-1"}}});
    let server = ScriptedServer::lines(move |asked| {
        match legacy(asked, &legacy_task("completed"), Some(result.clone())) {
            Some(reply) => Action::Say(line(&reply)),
            None => Action::Nothing,
        }
    })
    .await;
    let client = in_time(hasty().connect(server.lines_url())).await.unwrap();
    let result = in_time(client.call("t", ())).await.unwrap();
    assert_eq!(result.content[0].as_text(), Some("fetched"));
    assert_eq!((count(&server, "tools/call"), count(&server, "tasks/result")), (2, 1));
}

#[tokio::test]
async fn a_result_that_never_comes_is_not_waited_for_without_end() {
    for status in ["completed", "input_required", "failed", "working"] {
        let server =
            ScriptedServer::lines(move |asked| match legacy(asked, &legacy_task(status), None) {
                Some(reply) => Action::Say(line(&reply)),
                None => Action::Nothing,
            })
            .await;
        let client = in_time(hasty().connect(server.lines_url())).await.unwrap();
        let error = in_time(client.call("t", ())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::RequestTimeout, "{status}: {error}");
        assert!(count(&server, "tasks/result") <= 1, "{status}: {:?}", server.methods());
        in_time(asked_for(&server, "tasks/cancel")).await;
    }
}
