//! Rules that apply only to HTTP.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use wharf_wire::{Connection, McpHeaders, Received, ServerProtocol, SupportedEras, sse};

use crate::common::*;

/// Builds headers as received: names in lower case, values unchanged.
pub(crate) fn mcp_headers<'a>(pairs: &[(&'a str, &'a str)]) -> McpHeaders<'a> {
    let mut mcp_headers = McpHeaders::default();
    for &(name, value) in pairs {
        match name {
            "version" => mcp_headers.version.add(value.as_bytes()),
            "method" => mcp_headers.method.add(value.as_bytes()),
            "name" => mcp_headers.name.add(value.as_bytes()),
            param => mcp_headers.params.push((param, value.as_bytes())),
        }
    }
    mcp_headers
}

fn send_stateless(wire: &Arc<ServerProtocol>, message: &Value, pairs: &[(&str, &str)]) -> Received {
    wire.receive_http(message.to_string().into(), &mcp_headers(pairs))
}

pub(crate) fn send(message: &Value, pairs: &[(&str, &str)]) -> Received {
    send_stateless(&Arc::new(wire()), message, pairs)
}

pub(crate) fn next(
    connection: &mut Connection,
    message: &Value,
    pairs: &[(&str, &str)],
) -> Received {
    connection.receive_http(message.to_string().into(), &mcp_headers(pairs))
}

/// Opens a session in `version` over HTTP.
pub(crate) fn session(version: &str) -> Connection {
    let mut connection = connection();
    let hello = initialize(version, json!({}));
    let (_, codec) = call(next(&mut connection, &hello, &[]));
    encoded(&codec, wharf_model::Reply::Discover(Box::new(discovery())));
    connection
}

pub(crate) fn tool_call(name: &str) -> Value {
    modern("c", "tools/call", json!({"name": name}))
}

pub(crate) const V: (&str, &str) = ("version", MODERN);
pub(crate) const M: (&str, &str) = ("method", "tools/call");
pub(crate) const N: (&str, &str) = ("name", "add");

#[test]
fn a_legacy_version_header_must_be_supported() {
    let list = request("l", "tools/list", json!({}));
    for version in LEGACY {
        call(send(&list, &[("version", version)]));
    }
    call(send(&list, &[]));
    let both: Vec<Value> = LEGACY.into_iter().rev().map(Value::from).collect();
    for bad in ["2025-06-19", "", "2025-06-18, 2025-06-18", "latest", "2025-06-18 x"] {
        let note = notification("notifications/initialized", json!({}));
        let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
        let batch = json!([list, list]);
        for message in [&list, &note, &answer, &batch, &initialize("2025-06-18", json!({}))] {
            for received in [
                send(message, &[("version", bad)]),
                next(&mut connection(), message, &[("version", bad)]),
                next(&mut session("2025-03-26"), message, &[("version", bad)]),
            ] {
                let (refused, code, status) = error(received);
                assert_eq!((code, status), (-32022, 400), "{bad} {message}");
                let supported = refused["error"]["data"]["supported"].as_array().unwrap();
                assert!(both.iter().all(|version| supported.contains(version)));
            }
        }
        assert_eq!(error(send(&list, &[("version", bad)])).0["id"], "l");
    }
    let twice = [("version", "2025-06-18"), ("version", "2025-06-18")];
    for received in [send(&list, &twice), next(&mut session("2025-06-18"), &list, &twice)] {
        let (refused, code, status) = error(received);
        assert_eq!((code, status), (-32600, 400));
        assert_eq!(refused["id"], "l");
    }
}

#[test]
fn a_stateless_message_has_the_revision_of_its_header() {
    let audio = || wharf_model::ToolResult::new([wharf_model::Content::audio("x", "audio/wav")]);
    for (pairs, kind) in [(&[][..], "audio"), (&[("version", "2024-11-05")], "resource")] {
        let (_, codec) = call(send(&request(1, "tools/call", json!({"name": "a"})), pairs));
        assert_eq!(encoded(&codec, audio()).0["result"]["content"][0]["type"], kind);
    }
    let batch = json!([request(1, "ping", json!({})), request(2, "ping", json!({}))]);
    for pairs in [&[][..], &[("version", "2025-03-26")]] {
        assert!(matches!(send(&batch, pairs), Received::Batch(each) if each.len() == 2));
    }
    for version in ["2024-11-05", "2025-06-18", "2025-11-25", MODERN] {
        let (_, code, status) = error(send(&batch, &[("version", version)]));
        assert_eq!((code, status), (-32600, 400), "{version}");
    }
    // A stateless notification cannot refer to another message.
    for method in ["notifications/cancelled", "notifications/initialized", "notifications/x"] {
        let note = notification(method, json!({"requestId": 1}));
        for pairs in [&[][..], &[("version", "2025-11-25")], &[V]] {
            assert!(matches!(send(&note, pairs), Received::Ignore), "{method}");
        }
    }
    for answer in [
        json!({"jsonrpc": "2.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}),
    ] {
        for pairs in [&[][..], &[("version", "2025-11-25")], &[V]] {
            let (refused, code, status) = error(send(&answer, pairs));
            assert_eq!((code, status), (-32600, 400));
            assert_eq!(refused.get("id"), None);
        }
        let (_, code, status) = error(next(&mut session("2025-11-25"), &answer, &[V]));
        assert_eq!((code, status), (-32600, 400));
    }
    let (message, status) = reply(send(&request(1, "ping", json!({})), &[]));
    assert_eq!((message["result"].clone(), status), (json!({}), 200));
}

#[test]
fn stateless_initialize_announces_nothing_that_needs_a_session() {
    let (_, codec) = call(send(&initialize("2025-06-18", json!({})), &[]));
    let answer = encoded(&codec, wharf_model::Reply::Discover(Box::new(discovery()))).0;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    let offered = json!({"tools": {}, "resources": {}, "completions": {},
        "extensions": {"com.example/x": {}}});
    assert_eq!(answer["result"]["capabilities"], offered);
    let (request, _) = call(send(&request(1, "tools/call", json!({"name": "a"})), &[]));
    assert_eq!(request.log_level, None);
}

#[test]
fn a_new_http_connection_accepts_only_initialize_and_modern_requests() {
    let refused = |message: Value, pairs: &[(&str, &str)]| {
        let (answer, code, status) = error(next(&mut connection(), &message, pairs));
        assert_eq!((code, status), (-32600, 400), "{message}");
        let text = answer["error"]["message"].as_str().unwrap().to_owned();
        (answer["id"].clone(), text)
    };
    for method in ["tools/list", "ping", "resources/subscribe", "un/known"] {
        for pairs in [&[][..], &[("version", "2025-06-18")]] {
            let (id, text) = refused(request(5, method, json!({})), pairs);
            assert_eq!(id, 5);
            assert!(text.contains("Mcp-Session-Id") && text.contains("initialize"), "{text}");
        }
    }
    refused(notification("notifications/initialized", json!({})), &[]);
    refused(json!([request(1, "ping", json!({}))]), &[]);
    refused(json!({"jsonrpc": "2.0", "id": 1, "result": {}}), &[]);
    // Modern requests need no session.
    let list = modern(1, "tools/list", json!({}));
    call(next(&mut connection(), &list, &[V, ("method", "tools/list")]));
    let note = notification("notifications/cancelled", json!({"requestId": 1}));
    assert!(matches!(next(&mut connection(), &note, &[V]), Received::Ignore));
    let (_, code, _) = error(next(&mut connection(), &list, &[]));
    assert_eq!(code, -32020);
    call(next(&mut connection(), &initialize("2025-06-18", json!({})), &[]));
    call(next(&mut connection(), &initialize("x", json!({})), &[("version", "2025-11-25")]));
}

#[test]
fn a_session_is_open_once_initialize_is_answered() {
    for version in LEGACY {
        let mut connection = connection();
        assert!(!connection.is_open() && !connection.polls());
        let (_, codec) = call(next(&mut connection, &initialize(version, json!({})), &[]));
        assert!(!connection.is_open() && !connection.polls());
        encoded(&codec, wharf_model::Reply::Discover(Box::new(discovery())));
        assert!(connection.is_open());
        assert_eq!(connection.polls(), version == "2025-11-25");
    }
    let mut connection = connection();
    let (_, codec) = call(next(&mut connection, &initialize("2025-06-18", json!({})), &[]));
    encoded(&codec, wharf_model::Error::new(wharf_model::ErrorKind::Overloaded));
    assert!(!connection.is_open());
    assert_eq!(error(next(&mut connection, &request(1, "ping", json!({})), &[])).2, 400);
}

#[test]
fn a_session_keeps_its_revision_whatever_the_header() {
    let mut session_2025 = session("2025-03-26");
    let batch = json!([request(1, "ping", json!({})), request(2, "ping", json!({}))]);
    for pairs in [&[][..], &[("version", "2025-03-26")], &[("version", "2025-11-25")]] {
        assert!(matches!(next(&mut session_2025, &batch, pairs), Received::Batch(_)));
        assert_eq!(error(next(&mut session("2025-06-18"), &batch, pairs)).2, 400);
    }
    assert_eq!(error(next(&mut session_2025, &batch, &[V])).1, -32600);
    let again = initialize("2025-06-18", json!({}));
    let (_, code, status) = error(next(&mut session_2025, &again, &[]));
    assert_eq!((code, status), (-32600, 400));
    let answer = json!({"jsonrpc": "2.0", "id": 3, "result": {}});
    assert!(matches!(next(&mut session_2025, &answer, &[]), Received::Answer(3, Ok(_))));
    let cancel = notification("notifications/cancelled", json!({"requestId": 9}));
    assert!(matches!(next(&mut session_2025, &cancel, &[]), Received::Cancel(_)));
    assert!(matches!(next(&mut session_2025, &cancel, &[V]), Received::Ignore));
    let ready = notification("notifications/initialized", json!({}));
    let (_, codec) = call(next(&mut session_2025, &ready, &[("version", "2025-03-26")]));
    assert!(codec.is_silent());
    // An unknown method is not a reason to leave the session.
    let unknown = error(next(&mut session_2025, &request(1, "un/known", json!({})), &[]));
    assert_eq!((unknown.1, unknown.2), (-32601, 200));
}

#[test]
fn a_server_of_one_era_refuses_the_other() {
    let modern_only = Arc::new(wire().eras(SupportedEras::Modern));
    let legacy_only = Arc::new(wire().eras(SupportedEras::Legacy));
    assert!(legacy_only.has_sessions() && wire().has_sessions());
    assert!(!modern_only.has_sessions());
    let list = request(1, "tools/list", json!({}));
    for pairs in [&[("version", "2025-11-25")][..], &[("version", "v9")]] {
        let (answer, code, status) = error(send_stateless(&modern_only, &list, pairs));
        assert_eq!((code, status), (-32022, 400));
        assert_eq!(answer["error"]["data"]["supported"], json!(modern_dates()));
    }
    for message in [&list, &tool_call("add"), &request(1, "ping", json!({"_meta": {}}))] {
        let (answer, code, status) = error(send_stateless(&modern_only, message, &[]));
        assert_eq!((code, status), (-32020, 400), "{message}");
        assert_eq!(answer["error"]["data"]["header"], "MCP-Protocol-Version");
    }
    assert_eq!(error(send_stateless(&modern_only, &list, &[V])).1, -32602);
    let note = notification("x", json!({}));
    for batch in [json!([request(1, "ping", json!({})), note]), json!([note])] {
        for pairs in [&[][..], &[V]] {
            let (_, code, status) = error(send_stateless(&modern_only, &batch, pairs));
            assert_eq!((code, status), (-32600, 400));
        }
    }
    let hello = initialize("2025-06-18", json!({}));
    let (answer, code, status) = error(send_stateless(&modern_only, &hello, &[]));
    assert_eq!((code, status), (-32022, 400));
    assert!(answer["error"]["message"].as_str().unwrap().contains(MODERN));
    // A modern client takes any modern error code as a sign of a modern server.
    let discover = modern(1, "server/discover", json!({}));
    for (message, pairs) in [
        (&discover, &[V, ("method", "server/discover")][..]),
        (&tool_call("add"), &[V, M, N]),
        (&list, &[V]),
    ] {
        let (answer, code, status) = error(send_stateless(&legacy_only, message, pairs));
        assert_eq!((code, status), (-32602, 400), "{message}");
        assert_eq!(answer["error"]["data"]["supported"][0], "2025-11-25");
        assert_eq!(answer["error"]["data"]["requested"], MODERN);
    }
    call(send_stateless(&legacy_only, &list, &[]));
}

#[test]
fn a_modern_method_is_unknown_in_a_legacy_revision() {
    for method in ["server/discover", "subscriptions/listen"] {
        let plain = request("d", method, json!({"notifications": {}}));
        for version in LEGACY {
            for received in [
                send(&plain, &[("version", version)]),
                next(&mut session(version), &plain, &[]),
                next(&mut session(version), &plain, &[("version", version)]),
                Arc::new(wire()).receive(plain.to_string().into(), version.parse().ok()),
            ] {
                let (message, code, status) = error(received);
                assert_eq!((code, status), (-32601, 200), "{method} {version}");
                assert_eq!(message["error"]["data"]["method"], method);
            }
            // The metadata of a request overrides the session.
            let meant = modern(1, method, json!({"notifications": {}}));
            let pairs = [V, ("method", method)];
            call(next(&mut session(version), &meant, &pairs));
        }
        // Without header or session, the method determines the era.
        assert_eq!(error(send(&plain, &[])).1, -32602);
        assert_eq!(error(next(&mut connection(), &plain, &[])).1, -32602);
    }
}

#[test]
fn the_not_initialized_error_lists_the_supported_handshakes() {
    let list = request(1, "tools/list", json!({}));
    for (eras, modern) in [(SupportedEras::Legacy, false), (SupportedEras::Both, true)] {
        let mut connection = Connection::new(Arc::new(wire().eras(eras)));
        for received in [next(&mut connection, &list, &[]), receive(&mut connection, &list)] {
            let (message, ..) = error(received);
            let text = message["error"]["message"].as_str().unwrap();
            assert!(text.contains("initialize"), "{text}");
            assert_eq!(text.contains(modern_dates()[0]), modern, "{text}");
        }
    }
}

#[test]
fn a_server_without_streams_announces_nothing_that_needs_them() {
    let wire = Arc::new(wire().without_streams());
    let params = json!({"notifications": {"toolsListChanged": true}});
    let listen = modern(1, "subscriptions/listen", params);
    let (answer, code, status) =
        error(send_stateless(&wire, &listen, &[V, ("method", "subscriptions/listen")]));
    assert_eq!((code, status), (-32601, 404));
    assert_eq!(answer["id"], 1);
    assert_eq!(error(send_stateless(&wire, &listen, &[V, M])).1, -32020, "headers come first");

    let offered = || wharf_model::Reply::Discover(Box::new(discovery()));
    let discover = modern(1, "server/discover", json!({}));
    let (_, codec) = call(send_stateless(&wire, &discover, &[V, ("method", "server/discover")]));
    let capabilities = encoded(&codec, offered()).0["result"]["capabilities"].clone();
    let left = json!({"tools": {}, "resources": {}, "completions": {},
        "extensions": {"com.example/x": {}}});
    assert_eq!(capabilities, left);
    let (_, codec) = call(send_stateless(&wire, &initialize("2025-11-25", json!({})), &[]));
    let capabilities = encoded(&codec, offered()).0["result"]["capabilities"].clone();
    assert_eq!(capabilities, left);

    let meta = json!({"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"});
    let wanting = modern(1, "tools/call", json!({"name": "add", "_meta": meta}));
    let (request, _) = call(send_stateless(&wire, &wanting, &[V, M, N]));
    assert!(!request.progress && request.log_level.is_none());
    let (request, _) = call(send(&wanting, &[V, M, N]));
    assert!(request.progress && request.log_level.is_some());

    let mut connection = Connection::new(wire);
    open(&mut connection, "2025-06-18");
    let ready = notification("notifications/initialized", json!({}));
    assert!(matches!(receive(&mut connection, &ready), Received::Ignore));
    let subscribe = crate::common::request(1, "resources/subscribe", json!({"uri": "a:b"}));
    assert_eq!(error(receive(&mut connection, &subscribe)).1, -32601);
}

#[test]
fn events_are_framed() {
    let framed = |write: &dyn Fn(&mut Vec<u8>)| {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    };
    assert_eq!(framed(&|out| sse::event(out, None, b"{}")), "data: {}\n\n");
    assert_eq!(framed(&|out| sse::event(out, Some("2-3"), b"{}")), "id: 2-3\ndata: {}\n\n");
    assert_eq!(framed(&|out| sse::priming(out, "2-0", None)), "id: 2-0\ndata: \n\n");
    let second = Duration::from_millis(1500);
    assert_eq!(
        framed(&|out| sse::priming(out, "2-0", Some(second))),
        "id: 2-0\nretry: 1500\ndata: \n\n"
    );
    assert_eq!(framed(&|out| sse::retry(out, second)), "retry: 1500\n\n");
    assert_eq!(
        framed(&|out| sse::named(out, "endpoint", b"/messages?session=1")),
        "event: endpoint\ndata: /messages?session=1\n\n"
    );
    assert!(sse::KEEP_ALIVE.starts_with(b":") && sse::KEEP_ALIVE.ends_with(b"\n"));
}
