//! `Server::mask_errors`: the text of a handler's error is logged and does not reach a client.

use std::{
    io,
    sync::{Arc, Mutex},
};

use futures_util::StreamExt;
use serde_json::{Value, json};
use wharf::{
    Content, Endpoint, Error, ErrorKind, ProtocolVersion, Server, ToolError, ToolResult,
    model::{CompletionRequest, RequestExtensions},
    prelude::*,
    server::CustomMethod,
    tasks::TaskMode,
};

const SECRET: &str = "hunter2";

/// Revisions with a handshake, whose messages do not carry the version.
const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];

fn io_error() -> io::Error {
    io::Error::other(format!("/etc/{SECRET}"))
}

/// Error of a handler.
type Fail = fn() -> ToolError;

/// Each kind of failure of a handler.
const WAYS: [(&str, Fail); 9] = [
    ("text", || ToolError::new(SECRET)),
    ("content", || ToolError::content(vec![Content::text(SECRET), Content::text("no")])),
    ("question mark", || io_error().into()),
    ("error of I/O", || Error::from(io_error()).into()),
    ("internal", || Error::internal(SECRET).into()),
    ("message", || Error::new(ErrorKind::InternalError).with_message(SECRET).into()),
    ("data", || {
        Error::new(ErrorKind::ToolExecutionFailed)
            .with_data(json!({"password": SECRET}))
            .with_source(SECRET)
            .into()
    }),
    ("upstream", || Error::new(ErrorKind::TransportError).with_message(SECRET).into()),
    ("custom code", || Error::custom(42, SECRET).into()),
];

/// Log lines of this thread.
#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl LogBuffer {
    fn start() -> (LogBuffer, tracing::subscriber::DefaultGuard) {
        let log = LogBuffer::default();
        let writer = log.clone();
        let lines = tracing_subscriber::fmt().with_ansi(false).with_writer(move || writer.clone());
        (log, tracing::subscriber::set_default(lines.finish()))
    }

    /// Returns the line with this id.
    fn line(&self, id: &str) -> String {
        let text = String::from_utf8(self.0.lock().unwrap().clone()).unwrap();
        let line = text.lines().find(|line| line.contains(&format!("error_id=\"{id}\"")));
        line.unwrap_or_else(|| panic!("{id} is not in the log: {text}")).to_owned()
    }
}

fn server(fail: Fail) -> Endpoint {
    let failing = move || async move { Err::<String, _>(fail()) };
    let task = Tool::new("task", failing).task(TaskMode::optional());
    Server::new("test", "1")
        .mask_errors(true)
        .add(Tool::new("tool", failing))
        .add(Tool::blocking("blocking", move || Err::<String, _>(fail())))
        .add(Tool::inline("inline", move || Err::<String, _>(fail())))
        .add(task)
        .add(Resource::new("x:r", failing))
        .add(Prompt::new("p", failing))
        .add(
            Resource::new("x:{type}", async |_: Uri| "x")
                .complete("type", move |_: CompletionRequest| Err::<Vec<String>, _>(fail())),
        )
        .add(CustomMethod::new("acme/tide", move || async move { Err::<Json<Value>, _>(fail()) }))
        .build()
        .unwrap()
}

fn request(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

/// One request to each kind of handler, with the name that the log line contains.
fn requests() -> Vec<(&'static str, Value)> {
    let call =
        |name: &'static str| (name, request("tools/call", json!({"name": name, "arguments": {}})));
    let reference = json!({"type": "ref/resource", "uri": "x:{type}"});
    let argument = json!({"name": "type", "value": ""});
    vec![
        call("tool"),
        call("blocking"),
        call("inline"),
        call("task"),
        ("x:r", request("resources/read", json!({"uri": "x:r"}))),
        ("p", request("prompts/get", json!({"name": "p"}))),
        ("", request("completion/complete", json!({"ref": reference, "argument": argument}))),
        ("", request("acme/tide", json!({}))),
    ]
}

async fn reply(endpoint: &Endpoint, mut request: Value, revision: &str) -> String {
    let mut extensions = RequestExtensions::new();
    let has_task = |name| request["params"].get(name).is_some();
    let uses_tasks = has_task("task") || has_task("taskId");
    match LEGACY.contains(&revision) {
        true => extensions.insert(revision.parse::<ProtocolVersion>().unwrap()),
        false => {
            let meta = &mut request["params"]["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = json!(revision);
            meta["io.modelcontextprotocol/clientCapabilities"] = match uses_tasks {
                true => json!({"extensions": {"io.modelcontextprotocol/tasks": {}}}),
                false => json!({}),
            };
        }
    }
    let mut replies = endpoint.handle_stream(request.to_string(), extensions);
    String::from_utf8(replies.next().await.unwrap().to_vec()).unwrap()
}

/// Returns the id in a masked reply.
fn id_in(reply: &str) -> &str {
    assert!(!reply.contains(SECRET), "{reply}");
    let (_, rest) = reply.split_once("Internal error (id ").unwrap_or_else(|| panic!("{reply}"));
    let id = rest.split(')').next().unwrap();
    assert!(id.len() == 16 && id.bytes().all(|it| it.is_ascii_hexdigit()), "{reply}");
    id
}

#[tokio::test]
async fn every_way_to_fail_is_masked_in_every_revision() {
    let (log, _guard) = LogBuffer::start();
    for (way, fail) in WAYS {
        let endpoint = server(fail);
        for revision in LEGACY.into_iter().chain(["2026-07-28"]) {
            for (name, request) in requests() {
                let text = reply(&endpoint, request.clone(), revision).await;
                let line = log.line(id_in(&text));
                assert!(line.contains(SECRET) && line.contains("ERROR"), "{way}: {line}");
                assert!(line.contains(&format!("name=\"{name}")), "{way}: {line}");
                let method = request["method"].as_str().unwrap();
                assert!(line.contains(&format!("method=\"{method}\"")), "{way}: {line}");
            }
        }
    }
}

#[tokio::test]
async fn a_tool_result_with_is_error_is_masked() {
    let (log, _guard) = LogBuffer::start();
    let endpoint = Server::new("test", "1").mask_errors(true).build().unwrap();
    // Also for a tool that is added while the server runs.
    let tool = Tool::new("tool", async || ToolResult::error(SECRET));
    endpoint.registry().add(tool).unwrap();
    let text = reply(&endpoint, requests().remove(0).1, "2026-07-28").await;
    assert!(log.line(id_in(&text)).contains(SECRET));
    let value: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["result"]["isError"], true);
}

#[tokio::test]
async fn a_task_stores_no_text_of_an_error() {
    let (log, _guard) = LogBuffer::start();
    for (way, fail) in WAYS {
        let endpoint = server(fail);
        let task = endpoint.spawn_task("task", json!({})).await.unwrap();
        let text = match task.wait().await {
            Ok(result) => serde_json::to_string(&result).unwrap(),
            Err(error) => format!("{error:?}"),
        };
        assert!(log.line(id_in(&text)).contains(SECRET), "{way}");
    }
}

/// Calls the tool `task` as a task in this revision, and returns the text that the client receives at its end.
async fn followed(endpoint: &Endpoint, revision: &str) -> String {
    let arguments = json!({"name": "task", "arguments": {}, "task": {"ttl": 60_000}});
    let created = reply(endpoint, request("tools/call", arguments), revision).await;
    let created: Value = serde_json::from_str(&created).unwrap();
    let result = &created["result"];
    let task = result.get("task").unwrap_or(result);
    let id = task["taskId"].as_str().unwrap_or_else(|| panic!("{created}"));
    loop {
        let state = reply(endpoint, request("tasks/get", json!({"taskId": id})), revision).await;
        if state.contains("\"working\"") {
            tokio::task::yield_now().await;
            continue;
        }
        // The legacy dialect has a separate method for the result.
        return match LEGACY.contains(&revision) {
            true => {
                let asked = request("tasks/result", json!({"taskId": id}));
                state + &reply(endpoint, asked, revision).await
            }
            false => state,
        };
    }
}

#[tokio::test]
async fn a_client_that_follows_a_task_receives_no_text_of_its_error() {
    let (log, _guard) = LogBuffer::start();
    for (way, fail) in WAYS {
        let endpoint = server(fail);
        for revision in ["2025-11-25", "2026-07-28"] {
            let text = followed(&endpoint, revision).await;
            assert!(log.line(id_in(&text)).contains(SECRET), "{way}, {revision}");
        }
    }
}

#[tokio::test]
async fn a_fault_of_the_caller_keeps_its_text() {
    let fail: [fn() -> Error; 3] = [
        || Error::invalid_params("`depth` is at most 12"),
        || Error::new(ErrorKind::Forbidden).with_message("`depth` is for captains"),
        || Error::resource_not_found("x:depth"),
    ];
    for fail in fail {
        let tool = Tool::new("tool", move || async move { Err::<(), _>(fail()) });
        let endpoint = Server::new("test", "1").mask_errors(true).add(tool).build().unwrap();
        let text = reply(&endpoint, requests().remove(0).1, "2026-07-28").await;
        assert!(text.contains("depth") && !text.contains("(id "), "{text}");
    }
    let typed = Tool::new("tool", async |_: Args<Depth>| "x");
    let endpoint = Server::new("test", "1").mask_errors(true).add(typed).build().unwrap();
    let text = reply(&endpoint, requests().remove(0).1, "2026-07-28").await;
    assert!(text.contains("depth") && !text.contains("(id "), "{text}");
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Depth {
    #[expect(dead_code, reason = "only its absence counts")]
    depth: u8,
}

#[tokio::test]
async fn without_the_option_the_model_receives_the_text() {
    let tool = Tool::new("tool", async || Err::<(), _>(ToolError::new("give me a number")));
    let endpoint = Server::new("test", "1").add(tool).build().unwrap();
    let text = reply(&endpoint, requests().remove(0).1, "2026-07-28").await;
    assert!(text.contains("give me a number"), "{text}");
}

#[test]
fn a_proxy_cannot_mask_the_errors_of_its_upstream_server() {
    let upstream = Server::new("upstream", "1").build().unwrap().service();
    let error = Server::new("proxy", "1").upstream(upstream).mask_errors(true).build().unwrap_err();
    assert!(error.to_string().contains("mask them there"), "{error}");
}
