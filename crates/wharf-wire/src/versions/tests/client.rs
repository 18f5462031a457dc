//! Calls in the made-up revision, by a client.

use std::sync::Arc;

use serde_json::Value;
use wharf_model::{ErrorKind, Implementation, Method, Outcome, Reply, RequestBuilder};

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
    assert_eq!(codec(NEW).name(Method::ListTasks), Some("tasks/search"));
    assert_eq!(written(NEW, Method::ListTasks)["method"], "tasks/search");
    assert_eq!(codec("2025-11-25").name(Method::ListTasks), Some("tasks/list"));
    assert!(!codec(OLD).has(Method::ListTasks));
    let request = RequestBuilder::new(Method::ListTasks).build();
    let error = codec(OLD).call(&request, &CallId::from(7), &mut Vec::new()).unwrap_err();
    assert_eq!(error.kind, ErrorKind::MethodNotFound);
    assert!(error.message.contains(OLD), "{error}");
    let result = r#"{"resultType":"complete","tasks":[],"nextCursor":"n"}"#;
    let outcome = codec(NEW).result(Method::ListTasks, result).unwrap();
    assert!(matches!(outcome, Outcome::Complete(Reply::TaskList { next: Some(_), .. })));
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
