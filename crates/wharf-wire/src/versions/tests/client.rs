//! Calls in the made-up revision, by a client.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_model::{CacheHint, ErrorKind, Implementation, Method, Outcome, Reply, RequestBuilder};

use super::{NEW, OLD, revision};
use crate::{CallId, ClientCodec, ClientIdentity, ServerMessage};

fn codec(date: &str) -> ClientCodec {
    let info = Implementation::new("client", "1").website_url("https://client.example");
    let identity = ClientIdentity { info, ..ClientIdentity::default() };
    ClientCodec::new(revision(date), Arc::new(identity))
}

fn written(date: &str, method: Method) -> Value {
    let request = RequestBuilder::new(method).target("moor").param("berth", "3");
    let mut out = Vec::new();
    codec(date).call(&request.build(), &CallId::from(7), &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

#[test]
fn a_call_has_the_fields_of_its_revision() {
    for (date, is_new) in [(OLD, false), (NEW, true)] {
        let params = &written(date, Method::CallTool)["params"];
        assert_eq!(params.get("berth").is_some(), is_new, "{date} {params}");
        let meta = &params["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/protocolVersion"], date);
        let client = &meta["io.modelcontextprotocol/clientInfo"];
        assert_eq!(client.get("websiteUrl").is_some(), !is_new, "{date} {client}");
        let headers = codec(date).headers("tools/call", Some("moor"), None);
        assert_eq!(headers[0], ("MCP-Protocol-Version".to_owned(), date.to_owned()));
    }
}

#[test]
fn a_method_is_available_only_in_its_revision() {
    assert_eq!(codec(NEW).name(Method::Custom), Some("berths/assign"));
    assert_eq!(codec(OLD).name(Method::Custom), None);
    let request = RequestBuilder::custom("berths/assign").param("ship", r#""Sinbad""#).build();
    let mut out = Vec::new();
    codec(NEW).call(&request, &CallId::from(7), &mut out).unwrap();
    let sent: Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(
        (&sent["method"], &sent["params"]["ship"]),
        (&json!("berths/assign"), &json!("Sinbad"))
    );
    let headers = codec(NEW).headers("berths/assign", None, None);
    assert!(headers.contains(&("Mcp-Method".to_owned(), "berths/assign".to_owned())));
    let result = r#"{"resultType":"complete","berth":7}"#;
    let outcome = codec(NEW).result(Method::Custom, result).unwrap();
    let Outcome::Complete(Reply::Custom(json)) = outcome else { panic!("{outcome:?}") };
    assert!(json.get().contains(r#""berth":7"#), "{}", json.get());
    assert_eq!(codec("2025-11-25").name(Method::ListTasks), Some("tasks/list"));
    assert!(!codec(OLD).has(Method::ListTasks));
    let request = RequestBuilder::new(Method::ListTasks).build();
    let error = codec(OLD).call(&request, &CallId::from(7), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::MethodNotFound);
    assert!(error.message.contains(OLD), "{error}");
}

#[test]
fn an_error_code_is_read_in_its_revision() {
    let reply = r#"{"jsonrpc":"2.0","id":1,"error":{"code":-32030,"message":"no"}}"#;
    for (date, kind) in [(OLD, ErrorKind::InternalError), (NEW, ErrorKind::ResourceNotFound)] {
        let [ServerMessage::Reply { result: Err(error), .. }] =
            &codec(date).decode(reply.into()).unwrap()[..]
        else {
            panic!("{date}")
        };
        assert_eq!((error.kind, error.code), (kind, Some(-32030)), "{date}");
    }
}

fn complete(date: &str, method: Method, result: &Value) -> Reply {
    match codec(date).result(method, &result.to_string()).unwrap() {
        Outcome::Complete(reply) => reply,
        other => panic!("{date} {other:?}"),
    }
}

#[test]
fn an_added_field_of_a_tool_is_read() {
    let result = json!({"resultType": "complete", "ttlMs": 5000, "cacheScope": "public", "tools": [
        {"name": "moor", "inputSchema": {"type": "object"}, "berth": 3},
    ]});
    for (date, has_hints) in [(OLD, true), (NEW, false)] {
        let Reply::Tools(page) = complete(date, Method::ListTools, &result) else { panic!() };
        let tool = serde_json::to_value(&*page.body.items[0]).unwrap();
        assert_eq!((&tool["name"], &tool["berth"]), (&json!("moor"), &json!(3)), "{date}");
        assert_eq!(page.cache != CacheHint::default(), has_hints, "{date} {:?}", page.cache);
    }
}

#[test]
fn content_without_a_removed_field_is_read() {
    let result = json!({
        "resultType": "complete", "ttlMs": 5000,
        "content": [{"type": "text", "text": "moored", "berth": 3, "annotations": {"priority": 1.0}}],
    });
    for (date, is_new) in [(OLD, false), (NEW, true)] {
        let Reply::Tool(tool) = complete(date, Method::CallTool, &result) else { panic!() };
        let item = serde_json::to_value(&tool.content[0]).unwrap();
        assert_eq!((&item["text"], &item["berth"]), (&json!("moored"), &json!(3)), "{date}");
        assert_eq!(item["annotations"], json!({"priority": 1.0}), "{date}");
        // A field of the protocol in one revision is the server's own in another.
        let read = serde_json::to_value(&tool).unwrap();
        assert_eq!(read.get("ttlMs").is_some(), is_new, "{date} {read}");
        assert_eq!(read.get("resultType"), None, "{date} {read}");
    }
}
