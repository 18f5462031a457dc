//! Every method, in every revision, with its capability on and off: a method that the revision lacks or the server does
//! not advertise is rejected with "method not found".

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use wharf::prelude::*;

const MODERN: &str = "2026-07-28";
const REVISIONS: [&str; 5] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", MODERN];

/// Era that has a method.
#[derive(Clone, Copy, PartialEq)]
enum Has {
    Both,
    Legacy,
    Modern,
    Neither,
}

/// Method, parameters, the era that has it, and true if it requires a capability.
fn methods() -> Vec<(&'static str, Value, Has, bool)> {
    use Has::{Both, Legacy, Modern, Neither};
    let prompt =
        json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}});
    vec![
        ("tools/list", json!({}), Both, true),
        ("tools/call", json!({"name": "t"}), Both, true),
        ("resources/list", json!({}), Both, true),
        ("resources/templates/list", json!({}), Both, true),
        ("resources/read", json!({"uri": "test://r"}), Both, true),
        ("prompts/list", json!({}), Both, true),
        ("prompts/get", json!({"name": "p", "arguments": {"a": "x"}}), Both, true),
        ("completion/complete", prompt, Both, true),
        ("ping", json!({}), Legacy, false),
        ("logging/setLevel", json!({"level": "info"}), Legacy, true),
        ("resources/subscribe", json!({"uri": "test://r"}), Legacy, true),
        ("resources/unsubscribe", json!({"uri": "test://r"}), Legacy, true),
        ("server/discover", json!({}), Modern, false),
        ("tasks/list", json!({}), Neither, false),
        ("roots/list", json!({}), Neither, false),
        ("sampling/createMessage", json!({}), Neither, false),
        ("elicitation/create", json!({}), Neither, false),
        ("notifications/initialized", json!({}), Neither, false),
        ("no/such/method", json!({}), Neither, false),
    ]
}

/// A tool.
#[tool(cheap)]
fn t() -> &'static str {
    "t"
}

/// A resource.
#[resource("test://r", cheap)]
fn r() -> &'static str {
    "r"
}

/// A prompt.
#[prompt(cheap)]
fn p(#[complete("x")] a: String) -> String {
    a
}

fn full() -> Server {
    Server::new("full", "1").tool::<t>().resource::<r>().prompt::<p>()
}

fn empty() -> Server {
    Server::new("empty", "1").logging(false)
}

/// Sends one request in `revision`, after the handshake if the revision has one, and returns the reply.
async fn ask(server: Server, revision: &str, method: &str, mut params: Value) -> Value {
    let (ours, theirs) = tokio::io::duplex(1 << 16);
    let endpoint = server.build().unwrap();
    let (read, write) = tokio::io::split(theirs);
    tokio::spawn(async move { endpoint.serve_stream(read, write).await });
    let (read, mut write) = tokio::io::split(ours);
    let mut lines = BufReader::new(read).lines();
    let mut messages = Vec::new();
    if revision == MODERN {
        params["_meta"] = json!({
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        });
    } else {
        let hello = json!({"protocolVersion": revision, "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}});
        messages.push(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": hello}));
        messages.push(json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    }
    messages.push(json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}));
    for message in messages {
        write.write_all(format!("{message}\n").as_bytes()).await.unwrap();
    }
    loop {
        let line = lines.next_line().await.unwrap().unwrap();
        let reply: Value = serde_json::from_str(&line).unwrap();
        if reply["id"] == 1 {
            return reply;
        }
    }
}

#[tokio::test]
async fn only_declared_methods_are_supported() {
    for revision in REVISIONS {
        for (method, params, has, gated) in methods() {
            let era = if revision == MODERN { Has::Modern } else { Has::Legacy };
            let known = has == Has::Both || has == era;
            let code = -32601;
            let reply = ask(full(), revision, method, params.clone()).await;
            assert_eq!(reply["error"]["code"] == code, !known, "{revision} {method}: {reply}");
            assert_eq!(reply["result"].is_object(), known, "{revision} {method}: {reply}");

            // The first revision has no capability for completions, so the method is always available.
            let free = revision == "2024-11-05" && method == "completion/complete";
            let answered = known && (!gated || free);
            let reply = ask(empty(), revision, method, params).await;
            assert_eq!(reply["error"]["code"] == code, !answered, "{revision} {method}: {reply}");
            assert_eq!(reply["result"].is_object(), answered, "{revision} {method}: {reply}");
        }
    }
}

#[tokio::test]
async fn a_server_of_one_era_names_its_revisions() {
    let modern = || full().only(wharf::Era::Modern);
    let reply = ask(modern(), MODERN, "tools/call", json!({"name": "t"})).await;
    assert!(reply["result"].is_object(), "{reply}");
    let endpoint = modern().build().unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    let reply = endpoint.handle(hello, wharf::model::RequestExtensions::new()).await.unwrap();
    let reply: Value = serde_json::from_slice(&reply).unwrap();
    assert_eq!(reply["error"]["data"]["supported"], json!([MODERN]), "{reply}");
    assert!(reply["error"]["message"].as_str().unwrap().contains(MODERN), "{reply}");

    let legacy = || full().only(wharf::Era::Legacy);
    let reply = ask(legacy(), "2025-06-18", "tools/call", json!({"name": "t"})).await;
    assert!(reply["result"].is_object(), "{reply}");
    let reply = ask(legacy(), MODERN, "server/discover", json!({})).await;
    assert_eq!(reply["error"]["code"], -32601, "{reply}");
}
