//! Requests of the made-up revision, on a server.

use std::sync::Arc;

use serde_json::{Value, json, value::RawValue};
use wharf_model::{
    Content, Error, ErrorKind, Implementation, Method, Page, PageBody, ReadResult, Reply, ToolInfo,
    ToolResult,
};

use super::{NEW, OLD, call, encoded, protocol, receive, rejection, request};
use crate::{Era, HeaderField, McpHeaders, Received, Revision, ServerProtocol};

fn tools() -> Reply {
    let tool: ToolInfo = serde_json::from_value(json!({
        "name": "moor", "inputSchema": {"type": "object"}, "icons": [{"src": "data:,"}],
        "title": "Moor", "berth": 3,
    }))
    .unwrap();
    let body = Arc::new(PageBody::new(vec![Arc::new(tool)]));
    Reply::Tools(Page::new(body))
}

fn content() -> Content {
    serde_json::from_value(json!({
        "type": "text", "text": "moored", "berth": 3,
        "annotations": {"priority": 1.0, "lastModified": "2026-01-01T00:00:00Z"},
    }))
    .unwrap()
}

#[test]
fn the_made_up_revision_is_the_newest() {
    assert_eq!(Revision::NEWEST.as_str(), NEW);
    assert_eq!(Revision::newest(Era::Modern).as_str(), NEW);
    assert_eq!(Revision::ALL.last(), Some(&Revision::NEWEST));
    assert_eq!(Revision::FIRST_MODERN.as_str(), OLD);
    let (_, codec) = call(NEW, "tools/list", json!({}));
    assert_eq!(codec.revision, Revision::NEWEST);
    let (_, codec) = call(OLD, "tools/list", json!({}));
    assert_eq!(codec.revision.as_str(), OLD);
}

#[test]
fn a_list_has_the_fields_of_the_requests_revision() {
    let page = tools();
    for (date, has_icons) in [(OLD, true), (NEW, false), (OLD, true)] {
        let (_, codec) = call(date, "tools/list", json!({}));
        let (reply, status) = encoded(&codec, page.clone());
        let tool = &reply["result"]["tools"][0];
        assert_eq!(tool.get("icons").is_some(), has_icons, "{date} {tool}");
        assert_eq!(tool.get("berth").is_some(), !has_icons, "{date} {tool}");
        assert_eq!((&tool["name"], &tool["title"]), (&json!("moor"), &json!("Moor")));
        assert_eq!((&reply["result"]["resultType"], status), (&json!("complete"), 200));
        assert_eq!(reply["result"].get("ttlMs").is_some(), has_icons, "{date} {reply}");
    }
}

#[test]
fn a_custom_result_has_the_fields_of_the_requests_revision() {
    let tide = r#"{"height":3,"ttlMs":1000,"cacheScope":"public","resultType":"own"}"#;
    let protocol = ServerProtocol::new(Implementation::new("harbour", "1.0.0"));
    let protocol = Arc::new(protocol.custom_methods(["tides/now"]));
    for (date, has_hints) in [(OLD, true), (NEW, false)] {
        let message = request(date, "tides/now", json!({}));
        let Received::Call(_, codec) = protocol.receive(message.to_string().into(), None) else {
            panic!("{message}")
        };
        let own = RawValue::from_string(tide.to_owned()).unwrap();
        let (reply, _) = encoded(&codec, Reply::Custom(own.into()));
        let result = &reply["result"];
        assert_eq!((&result["height"], &result["resultType"]), (&json!(3), &json!("complete")));
        assert_eq!(result.get("ttlMs").is_some(), has_hints, "{date} {result}");
        assert_eq!(result.get("cacheScope").is_some(), has_hints, "{date} {result}");
    }
}

#[test]
fn content_has_the_fields_of_the_requests_revision() {
    for (date, is_new) in [(OLD, false), (NEW, true)] {
        let (_, codec) = call(date, "tools/call", json!({"name": "moor"}));
        let (reply, _) = encoded(&codec, Reply::Tool(ToolResult::new(vec![content()])));
        let item = &reply["result"]["content"][0];
        assert_eq!(item.get("berth").is_some(), is_new, "{date} {item}");
        assert_eq!(item["annotations"].get("lastModified").is_some(), !is_new, "{date} {item}");
        assert_eq!(item["annotations"]["priority"], 1.0);
        let (_, codec) = call(date, "resources/read", json!({"uri": "a:b"}));
        let read: ReadResult =
            serde_json::from_value(json!({"contents": [{"uri": "a:b", "text": "x", "berth": 3}]}))
                .unwrap();
        let (reply, _) = encoded(&codec, Reply::Read(read));
        let contents = &reply["result"]["contents"][0];
        assert_eq!(contents.get("berth").is_some(), is_new, "{date} {contents}");
    }
}

#[test]
fn a_discovery_describes_the_server_in_the_requests_revision() {
    for (date, is_new) in [(OLD, false), (NEW, true)] {
        let (_, codec) = call(date, "server/discover", json!({}));
        let (reply, _) = encoded(&codec, Reply::Discover(Box::default()));
        let server = &reply["result"]["_meta"]["io.modelcontextprotocol/serverInfo"];
        assert_eq!(server["name"], "harbour");
        assert_eq!(server.get("websiteUrl").is_some(), !is_new, "{date} {server}");
        let supported = &reply["result"]["supportedVersions"];
        assert_eq!((&supported[0], &supported[1]), (&json!(NEW), &json!(OLD)));
    }
}

#[test]
fn a_method_is_available_only_in_its_revision() {
    let (request_of, codec) = call(NEW, "berths/assign", json!({"ship": "Sinbad"}));
    assert_eq!((request_of.method, &*request_of.method_name()), (Method::Custom, "berths/assign"));
    assert!(request_of.params().contains("Sinbad"));
    let assigned = RawValue::from_string(r#"{"berth":7}"#.to_owned()).unwrap();
    let (reply, status) = encoded(&codec, Reply::Custom(assigned.into()));
    assert_eq!((&reply["result"]["berth"], status), (&json!(7), 200));
    assert_eq!(reply["result"]["resultType"], "complete");
    let (error, status) = rejection(receive(&request(OLD, "berths/assign", json!({}))));
    assert_eq!((&error["code"], status), (&json!(-32601), 404), "{error}");
    // The method alone determines the era, like every method that only modern revisions have.
    let bare = json!({"jsonrpc": "2.0", "id": 1, "method": "berths/assign", "params": {}});
    let (error, status) = rejection(receive(&bare));
    assert_eq!((&error["code"], status), (&json!(-32602), 400), "{error}");
}

#[test]
fn an_error_has_the_code_and_status_of_the_requests_revision() {
    for (date, code, status) in [(OLD, -32602, 200), (NEW, -32030, 404)] {
        let (_, codec) = call(date, "resources/read", json!({"uri": "a:b"}));
        let (reply, sent) = encoded(&codec, Error::new(ErrorKind::ResourceNotFound));
        assert_eq!((&reply["error"]["code"], sent), (&json!(code), status), "{date}");
    }
}

#[test]
fn headers_are_checked_in_the_requests_revision() {
    let received = |header: &str, body: &str| {
        let message = request(body, "berths/assign", json!({}));
        let headers = McpHeaders {
            version: HeaderField::One(header.as_bytes()),
            method: HeaderField::One(b"berths/assign"),
            ..McpHeaders::default()
        };
        protocol().receive_http(message.to_string().into(), &headers)
    };
    assert!(matches!(received(NEW, NEW), Received::Call(..)));
    for (header, body, code, status) in [
        (OLD, OLD, -32601, 404),
        (NEW, OLD, -32020, 400),
        ("2030-01-01", "2030-01-01", -32022, 400),
    ] {
        let (error, sent) = rejection(received(header, body));
        assert_eq!((&error["code"], sent), (&json!(code), status), "{header} {body} {error}");
    }
    let (error, _) = rejection(received("2030-01-01", "2030-01-01"));
    let supported: &Vec<Value> = error["data"]["supported"].as_array().unwrap();
    assert!(supported.contains(&json!(NEW)) && supported.contains(&json!(OLD)));
    assert!(error["message"].as_str().unwrap().contains("2027-01-15, 2026-07-28"), "{error}");
}
