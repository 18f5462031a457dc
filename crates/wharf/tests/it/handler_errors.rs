//! Errors that a handler's `?` returns about the server's own data: their text does not reach a client.

use futures_util::StreamExt;
use serde_json::{Value, json};
use wharf::{
    Endpoint, Error, ProtocolVersion, Server,
    model::{CompletionRequest, RequestExtensions},
    prelude::*,
};

/// Parses server data that does not have the expected form.
fn parse() -> Result<u8, Error> {
    Ok(serde_json::from_str("\"hunter2\"")?)
}

/// Reads a file whose name is a secret.
fn open() -> Result<u8, Error> {
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "/etc/hunter2"))?
}

fn endpoint(fail: fn() -> Result<u8, Error>) -> Endpoint {
    let text = move || fail().map(|number| number.to_string());
    Server::new("test", "1")
        .add(Tool::new("t", move || async move { fail() }))
        .add(Resource::new("x:r", move || async move { text() }))
        .add(Prompt::new("p", move || async move { text() }))
        .add(
            Resource::new("x:{type}", async |_: Uri| "x")
                .complete("type", move |_: CompletionRequest| text().map(|value| vec![value])),
        )
        .build()
        .unwrap()
}

/// One request to each kind of handler.
fn requests() -> [Value; 4] {
    let request = |method: &str, params: Value| json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    [
        request("tools/call", json!({"name": "t", "arguments": {}})),
        request("resources/read", json!({"uri": "x:r"})),
        request("prompts/get", json!({"name": "p"})),
        complete_request(json!({"name": "type", "value": ""})),
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

#[tokio::test]
async fn no_text_of_a_handlers_own_failure_reaches_a_client() {
    for fail in [parse as fn() -> _, open] {
        let endpoint = endpoint(fail);
        for request in requests() {
            for reply in [
                modern(&endpoint, request.clone()).await,
                legacy(&endpoint, &request, "2025-11-25").await,
                legacy(&endpoint, &request, "2024-11-05").await,
            ] {
                let error = serde_json::from_str::<Value>(&reply).unwrap()["error"].take();
                assert_eq!(error["code"], -32603, "{request}: {reply}");
                assert_eq!(error["message"], "Internal error", "{request}: {reply}");
                assert!(!reply.contains("hunter2") && !reply.contains("u8"), "{reply}");
            }
        }
    }
}

#[tokio::test]
async fn a_fault_in_the_callers_json_stays_the_callers_with_its_text() {
    let endpoint = endpoint(|| Ok(1));
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
    for fail in [parse, open] {
        let tool = Tool::new("t", move || async move { fail().map_err(Transparent) });
        let endpoint = Server::new("test", "1").add(tool).build().unwrap();
        let [request, ..] = requests();
        for text in [
            modern(&endpoint, request.clone()).await,
            legacy(&endpoint, &request, "2025-11-25").await,
        ] {
            assert!(text.contains("Internal error") && !text.contains("hunter2"), "{text}");
        }
    }
}
