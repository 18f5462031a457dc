//! One message in, one reply out, without an async runtime: a thread blocks on the future.

use std::time::Duration;

use futures_util::{StreamExt, future::BoxFuture};
use serde_json::{Value, json};
use wharf::{Endpoint, Era, ProtocolVersion, Server, model::RequestExtensions, prelude::*};

#[derive(Clone)]
struct ClientHandle(&'static str);

#[tool]
async fn greet(caller: Option<Extension<ClientHandle>>) -> String {
    let name = caller.map_or("nobody", |Extension(ClientHandle(name))| name);
    format!("Hello, {name}!")
}

#[tool]
async fn count(to: u32, ctx: Ctx) -> u32 {
    for step in 1..=to {
        ctx.progress(step.into()).await;
    }
    to
}

#[tool]
fn blocking() -> &'static str {
    std::thread::sleep(Duration::from_millis(1));
    "done"
}

#[tool(timeout = "20ms")]
async fn stuck() {
    std::future::pending().await
}

#[derive(Deserialize, JsonSchema)]
struct Confirm {
    confirmed: bool,
}

#[tool]
async fn confirm(ctx: Ctx) -> Result<bool, ToolError> {
    Ok(ctx.ask::<Confirm>("confirm", "Really?").await?.confirmed)
}

fn server() -> Server {
    Server::new("handle", "1.0.0")
        .tool::<greet>()
        .tool::<count>()
        .tool::<blocking>()
        .tool::<stuck>()
        .tool::<confirm>()
}

fn endpoint() -> Endpoint {
    server().build().expect("it builds")
}

/// Minimal executor.
fn wait<T>(future: impl Future<Output = T> + Send) -> T {
    use std::{
        sync::Arc,
        task::{Context, Poll, Wake},
        thread::{self, Thread},
    };
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let mut future: BoxFuture<'_, T> = Box::pin(future);
    let waker = Arc::new(Unpark(thread::current())).into();
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn handle(endpoint: &Endpoint, message: &Value, scope: RequestExtensions) -> Option<Value> {
    let reply = wait(endpoint.handle(message.to_string(), scope))?;
    Some(serde_json::from_slice(&reply).expect("a message"))
}

fn modern(method: &str, mut params: Value) -> Value {
    let meta = &mut params["_meta"];
    meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    meta["io.modelcontextprotocol/clientCapabilities"] = json!({"elicitation": {}});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn tool(name: &str, arguments: Value) -> Value {
    modern("tools/call", json!({"name": name, "arguments": arguments}))
}

fn legacy(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn pinned(date: &str) -> RequestExtensions {
    let mut scope = RequestExtensions::new();
    scope.insert(date.parse::<ProtocolVersion>().expect("a revision"));
    scope
}

#[test]
fn request_extensions_reach_the_handler() {
    let endpoint = endpoint();
    let mut scope = RequestExtensions::new();
    scope.insert(ClientHandle("Ann"));
    let reply = handle(&endpoint, &tool("greet", json!({})), scope).unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "Hello, Ann!");
    let reply = handle(&endpoint, &tool("greet", json!({})), RequestExtensions::new()).unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "Hello, nobody!");
}

#[test]
fn a_notification_has_no_reply() {
    let note = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(handle(&endpoint(), &note, RequestExtensions::new()), None);
}

#[test]
fn a_malformed_message_gets_an_error() {
    let reply = wait(endpoint().handle("{", RequestExtensions::new())).unwrap();
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(reply["error"]["code"], -32700);
}

#[test]
fn blocking_handlers_and_timeouts_need_no_runtime() {
    let endpoint = endpoint();
    let reply = handle(&endpoint, &tool("blocking", json!({})), RequestExtensions::new()).unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "done");
    let reply = handle(&endpoint, &tool("stuck", json!({})), RequestExtensions::new()).unwrap();
    assert_eq!(reply["result"]["isError"], true);
}

#[test]
fn notifications_come_before_the_reply() {
    let mut message = tool("count", json!({"to": 3}));
    message["params"]["_meta"]["progressToken"] = json!("t");
    let endpoint = endpoint();
    let replies = endpoint.handle_stream(message.to_string(), RequestExtensions::new());
    let messages: Vec<Value> = wait(replies.collect::<Vec<_>>())
        .iter()
        .map(|message| serde_json::from_slice(message).unwrap())
        .collect();
    assert_eq!(messages.len(), 4);
    assert!(messages[..3].iter().all(|told| told["method"] == "notifications/progress"));
    assert_eq!(messages[3]["result"]["content"][0]["text"], "3");
    let only = handle(&endpoint, &message, RequestExtensions::new()).unwrap();
    assert_eq!(only["result"], messages[3]["result"]);
}

#[test]
fn a_question_takes_two_messages() {
    let endpoint = endpoint();
    let mut call = tool("confirm", json!({}));
    let asked = handle(&endpoint, &call, RequestExtensions::new()).unwrap();
    assert_eq!(asked["result"]["resultType"], "input_required", "{asked}");
    call["params"]["inputResponses"] =
        json!({"confirm": {"action": "accept", "content": {"confirmed": true}}});
    call["params"]["requestState"] = asked["result"]["requestState"].clone();
    let reply = handle(&endpoint, &call, RequestExtensions::new()).unwrap();
    assert_eq!(reply["result"]["content"][0]["text"], "true", "{reply}");
}

#[test]
fn a_protocol_version_applies_to_a_message_without_one() {
    let endpoint = endpoint();
    let list = legacy("tools/list", json!({}));
    let old = handle(&endpoint, &list, pinned("2024-11-05")).unwrap();
    assert!(old["result"]["tools"][0].get("annotations").is_none(), "{old}");
    let call = legacy("tools/call", json!({"name": "count", "arguments": {"to": "x"}}));
    let reply = handle(&endpoint, &call, pinned("2025-06-18")).unwrap();
    assert_eq!(reply["error"]["code"], -32602);
    let reply = handle(&endpoint, &call, pinned("2025-11-25")).unwrap();
    assert_eq!(reply["result"]["isError"], true);
}

#[test]
fn subscriptions_need_a_streaming_reply() {
    let endpoint = endpoint();
    let listen =
        modern("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    let reply = handle(&endpoint, &listen, RequestExtensions::new()).unwrap();
    assert!(reply["error"]["code"].is_i64(), "{reply}");

    let mut replies = endpoint.handle_stream(listen.to_string(), RequestExtensions::new());
    let told: Value = serde_json::from_slice(&wait(replies.next()).unwrap()).unwrap();
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    endpoint.registry().add(Tool::new("late", async || "late")).unwrap();
    let told: Value = serde_json::from_slice(&wait(replies.next()).unwrap()).unwrap();
    assert_eq!(told["method"], "notifications/tools/list_changed");
    endpoint.shutdown();
    let last: Value = serde_json::from_slice(&wait(replies.next()).unwrap()).unwrap();
    assert_eq!(last["result"]["resultType"], "complete");
    assert_eq!(wait(replies.next()), None);
}

#[test]
fn a_batch_is_answered_as_one() {
    let ping = |id| json!({"jsonrpc": "2.0", "id": id, "method": "ping"});
    let batch = json!([ping(1), ping(2)]);
    let reply = handle(&endpoint(), &batch, pinned("2025-03-26")).unwrap();
    assert_eq!(reply.as_array().map(Vec::len), Some(2), "{reply}");
}

#[test]
fn a_server_of_one_era_refuses_the_other() {
    let modern_only = server().only(Era::Modern).build().unwrap();
    let params = json!({
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "old", "version": "1"},
    });
    let reply =
        handle(&modern_only, &legacy("initialize", params), RequestExtensions::new()).unwrap();
    assert_eq!(reply["error"]["code"], -32022, "{reply}");
    assert_eq!(reply["error"]["data"]["supported"], json!(["2026-07-28"]));
    let legacy_only = server().only(Era::Legacy).build().unwrap();
    let reply =
        handle(&legacy_only, &modern("server/discover", json!({})), RequestExtensions::new())
            .unwrap();
    assert!(reply["error"]["code"].is_i64(), "{reply}");
}

#[test]
fn a_failed_build_reports_all_problems() {
    let error = server().tool::<greet>().add(Tool::new("", async || "")).build().unwrap_err();
    let text = error.to_string();
    assert!(text.contains("greet"), "{text}");
}
