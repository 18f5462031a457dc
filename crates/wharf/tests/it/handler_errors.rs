//! Errors that a handler's `?` returns about the server's own data: their text does not reach a client.

use futures_util::StreamExt;
use serde_json::{Value, json};
use wharf::{
    Endpoint, Error, ProtocolVersion, Server,
    model::{CompletionRequest, RequestExtensions},
    prelude::*,
    server::{CustomMethod, IntoToolError},
};

/// Parses server data that does not have the expected form.
fn parse() -> Result<u8, Error> {
    Ok(serde_json::from_str("\"hunter2\"")?)
}

/// Reads a file whose name is a secret.
fn open() -> Result<u8, Error> {
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "/etc/hunter2"))?
}

/// [`parse`] in a function that returns the error of a tool.
fn parse_in_tool() -> Result<u8, ToolError> {
    Ok(serde_json::from_str("\"hunter2\"")?)
}

/// [`open`] in a function that returns the error of a tool.
fn open_in_tool() -> Result<u8, ToolError> {
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "/etc/hunter2"))?
}

/// [`open`] in a function that returns the error itself.
fn open_as_io() -> std::io::Result<u8> {
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "/etc/hunter2"))
}

/// Error of an application whose text and source both have a secret.
fn wrapped() -> Result<u8, Wrapped> {
    open_as_io().map_err(Wrapped)
}

#[derive(Debug)]
struct Wrapped(std::io::Error);

impl std::fmt::Display for Wrapped {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("cannot open hunter2")
    }
}

impl std::error::Error for Wrapped {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Server whose handlers of each kind fail in this way.
fn endpoint<E: IntoToolError + 'static>(fail: fn() -> Result<u8, E>) -> Endpoint {
    let text = move || fail().map(|number| number.to_string());
    Server::new("test", "1")
        .add(Tool::new("t", move || async move { fail() }))
        .add(Resource::new("x:r", move || async move { text() }))
        .add(Prompt::new("p", move || async move { text() }))
        .add(
            Resource::new("x:{type}", async |_: Uri| "x")
                .complete("type", move |_: CompletionRequest| text().map(|value| vec![value])),
        )
        .add(CustomMethod::new("acme/tide", move || async move {
            fail().map(|number| Json(json!({"tide": number})))
        }))
        .build()
        .unwrap()
}

/// One request to each kind of handler.
fn requests() -> [Value; 5] {
    let request = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    [
        request("tools/call", json!({"name": "t", "arguments": {}})),
        request("resources/read", json!({"uri": "x:r"})),
        request("prompts/get", json!({"name": "p"})),
        complete_request(json!({"name": "type", "value": ""})),
        request("acme/tide", json!({})),
    ]
}

fn complete_request(argument: Value) -> Value {
    let reference = json!({"type": "ref/resource", "uri": "x:{type}"});
    json!({"jsonrpc": "2.0", "id": 1, "method": "completion/complete",
        "params": {"ref": reference, "argument": argument}})
}

async fn modern(endpoint: &Endpoint, mut request: Value) -> String {
    let meta = &mut request["params"]["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({});
    reply(endpoint, &request, RequestExtensions::new()).await
}

async fn legacy(endpoint: &Endpoint, request: &Value, date: &str) -> String {
    let mut extensions = RequestExtensions::new();
    extensions.insert(date.parse::<ProtocolVersion>().unwrap());
    reply(endpoint, request, extensions).await
}

async fn reply(endpoint: &Endpoint, request: &Value, extensions: RequestExtensions) -> String {
    let reply = endpoint.handle_stream(request.to_string(), extensions).next().await.unwrap();
    String::from_utf8(reply.to_vec()).unwrap()
}

/// The replies to each request in three revisions.
async fn replies(endpoint: &Endpoint) -> Vec<(Value, String)> {
    let mut replies = Vec::new();
    for request in requests() {
        let modern = modern(endpoint, request.clone()).await;
        replies.push((request.clone(), modern));
        for date in ["2025-11-25", "2024-11-05"] {
            let legacy = legacy(endpoint, &request, date).await;
            replies.push((request.clone(), legacy));
        }
    }
    replies
}

#[tokio::test]
async fn no_text_of_a_handlers_own_failure_reaches_a_client() {
    for fail in [parse as fn() -> _, open] {
        for (request, reply) in replies(&endpoint(fail)).await {
            assert_is_internal(&request, &reply);
        }
    }
}

fn assert_is_internal(request: &Value, reply: &str) {
    let error = serde_json::from_str::<Value>(reply).unwrap()["error"].take();
    assert_eq!(error["code"], -32603, "{request}: {reply}");
    assert_eq!(error["message"], "Internal error", "{request}: {reply}");
    assert!(!reply.contains("hunter2") && !reply.contains("u8"), "{reply}");
}

/// As the specification recommends for tools, the model receives that the tool failed.
fn assert_is_internal_or_failed_tool(request: &Value, reply: &str) {
    if request["method"] != "tools/call" {
        return assert_is_internal(request, reply);
    }
    let result = serde_json::from_str::<Value>(reply).unwrap()["result"].take();
    assert_eq!(result["isError"], true, "{reply}");
    assert_eq!(result["content"][0]["text"], "Tool execution failed", "{reply}");
    assert!(!reply.contains("hunter2") && !reply.contains("u8"), "{reply}");
}

#[tokio::test]
async fn no_text_of_an_error_that_question_mark_converts_reaches_a_client() {
    for fail in [parse_in_tool as fn() -> _, open_in_tool] {
        for (request, reply) in replies(&endpoint(fail)).await {
            assert_is_internal_or_failed_tool(&request, &reply);
        }
    }
    for (request, reply) in replies(&endpoint(open_as_io)).await {
        assert_is_internal_or_failed_tool(&request, &reply);
    }
    for (request, reply) in replies(&endpoint(wrapped)).await {
        assert_is_internal_or_failed_tool(&request, &reply);
    }
}

#[tokio::test]
async fn the_model_receives_a_text_that_the_handler_chose() {
    let shown = || open_as_io().map_err(ToolError::new);
    for (request, reply) in replies(&endpoint(shown)).await {
        assert!(reply.contains("/etc/hunter2"), "{request}: {reply}");
    }
}

#[tokio::test]
async fn a_fault_in_the_callers_json_stays_the_callers_with_its_text() {
    let endpoint = endpoint(|| Ok::<_, Error>(1));
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen",
        "params": {"notifications": 7}});
    for (request, text) in [
        (complete_request(json!({"name": "type", "value": 7})), "invalid type"),
        (subscribe, "notification filter"),
    ] {
        let reply = modern(&endpoint, request).await;
        let error = serde_json::from_str::<Value>(&reply).unwrap()["error"].take();
        assert_eq!(error["code"], -32602, "{reply}");
        assert!(error["message"].as_str().unwrap().contains(text), "{reply}");
    }
}

/// Application error that wraps another error, as `#[error(transparent)]` does.
#[derive(Debug)]
struct Transparent(Error);

impl std::fmt::Display for Transparent {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for Transparent {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.0.source()
    }
}

#[tokio::test]
async fn an_error_that_delegates_its_source_reveals_no_more() {
    for fail in [parse as fn() -> _, open] {
        let tool = Tool::new("t", move || async move { fail().map_err(Transparent) });
        let endpoint = Server::new("test", "1").add(tool).build().unwrap();
        let [request, ..] = requests();
        for text in [
            modern(&endpoint, request.clone()).await,
            legacy(&endpoint, &request, "2025-11-25").await,
        ] {
            assert_is_internal_or_failed_tool(&request, &text);
        }
    }
}
