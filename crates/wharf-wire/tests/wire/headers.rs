//! Validation of the headers of a modern request against its body.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use wharf_wire::{HeaderField, encode_header};

use crate::{
    common::*,
    http::{M, N, V, mcp_headers, send, tool_call},
};

#[test]
fn headers_that_match_are_accepted() {
    let read = modern(1, "resources/read", json!({"uri": "file:///a b"}));
    let prompt = modern(1, "prompts/get", json!({"name": "Grüße"}));
    let complete = modern(1, "completion/complete", json!({}));
    let gruesse = encode_header("Grüße");
    for (message, pairs) in [
        (tool_call("add"), vec![V, M, N]),
        (tool_call("add"), vec![V, M, ("name", "  add\t")]),
        (tool_call("add"), vec![("version", " 2026-07-28 "), ("method", "\ttools/call"), N]),
        (tool_call("add"), vec![V, M, ("name", "=?base64?YWRk?=")]),
        (tool_call(""), vec![V, M, ("name", "")]),
        (tool_call(""), vec![V, M, ("name", "=?base64??=")]),
        (tool_call("=?base64?="), vec![V, M, ("name", "=?base64?=")]),
        (tool_call("=?base64?YWRk"), vec![V, M, ("name", "=?base64?YWRk")]),
        (tool_call("=?BASE64?YWRk?="), vec![V, M, ("name", "=?BASE64?YWRk?=")]),
        (read, vec![V, ("method", "resources/read"), ("name", "file:///a b")]),
        (prompt, vec![V, ("method", "prompts/get"), ("name", &*gruesse)]),
        (complete, vec![V, ("method", "completion/complete")]),
        // Headers that repeat no field are ignored.
        (modern(1, "tools/list", json!({})), vec![V, ("method", "tools/list"), N, N]),
    ] {
        call(send(&message, &pairs));
    }
}

#[test]
fn headers_that_do_not_match_are_refused() {
    let escaped = r#"{"jsonrpc":"2.0","id":"c","method":"tools\/call","params":{"name":"\u0061dd","_meta":{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28",
        "io.modelcontextprotocol/clientCapabilities":{}}}}"#;
    // Escapes in the body make no difference.
    call(Arc::new(wire()).receive_http(escaped.into(), &mcp_headers(&[V, M, N])));
    for (header, pairs) in [
        ("MCP-Protocol-Version", vec![M, N]),
        ("MCP-Protocol-Version", vec![V, V, M, N]),
        ("MCP-Protocol-Version", vec![("version", "2025-11-25"), M, N]),
        ("MCP-Protocol-Version", vec![("version", "v999"), M, N]),
        ("MCP-Protocol-Version", vec![("version", ""), M, N]),
        ("Mcp-Method", vec![V, N]),
        ("Mcp-Method", vec![V, M, M, N]),
        ("Mcp-Method", vec![V, ("method", "tools/list"), N]),
        ("Mcp-Method", vec![V, ("method", "TOOLS/CALL"), N]),
        ("Mcp-Method", vec![V, ("method", "tools /call"), N]),
        // Only names are encoded.
        ("Mcp-Method", vec![V, ("method", "=?base64?dG9vbHMvY2FsbA==?="), N]),
        ("Mcp-Name", vec![V, M]),
        ("Mcp-Name", vec![V, M, N, N]),
        ("Mcp-Name", vec![V, M, N, ("name", "sub")]),
        ("Mcp-Name", vec![V, M, ("name", "sub")]),
        ("Mcp-Name", vec![V, M, ("name", "Add")]),
        ("Mcp-Name", vec![V, M, ("name", "\"add\"")]),
        ("Mcp-Name", vec![V, M, ("name", "ädd")]),
        ("Mcp-Name", vec![V, M, ("name", "add\u{7f}")]),
        ("Mcp-Name", vec![V, M, ("name", "add\0")]),
        ("Mcp-Name", vec![V, M, ("name", "=?base64?YWRk?==")]),
        ("Mcp-Name", vec![V, M, ("name", "=?BASE64?YWRk?=")]),
    ] {
        let (message, code, status) = error(send(&tool_call("add"), &pairs));
        assert_eq!((code, status), (-32020, 400), "{pairs:?}");
        assert_eq!(message["error"]["data"]["header"], header, "{pairs:?}");
        assert_eq!(message["error"]["data"]["reason"], "header_mismatch");
        assert_eq!(message["id"], "c");
    }
}

#[test]
fn base64_has_one_spelling() {
    let named = |body: &str, header: &str| send(&tool_call(body), &[V, M, ("name", header)]);
    for (text, header) in [
        ("Hello", "=?base64?SGVsbG8=?="),
        ("Hello, 世界", "=?base64?SGVsbG8sIOS4lueVjA==?="),
        (" padded ", "=?base64?IHBhZGRlZCA=?="),
        ("line1\nline2", "=?base64?bGluZTEKbGluZTI=?="),
        ("=?base64?literal?=", "=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?="),
    ] {
        call(named(text, header));
    }
    for header in [
        "=?base64?SGVsbG8?=",      // no padding
        "=?base64?SGVsbG8==?=",    // too much of it
        "=?base64?SGVs!!!bG8=?=",  // other characters
        "=?base64?SGVs bG8=?=",    // a space inside
        "=?base64?SGVsbG9=?=",     // bits that say nothing are set
        "=?base64?SGVsbG8=SGVs?=", // padding in the middle
        "=?base64?=SGVsbG8?=",     // padding in front
        "=?base64?_-_-?=",         // the alphabet of URLs
        "=?base64?/w==?=",         // no UTF-8
        "=?base64?7aCA?=",         // a lone surrogate
    ] {
        let (_, code, status) = error(named("Hello", header));
        assert_eq!((code, status), (-32020, 400), "{header}");
        // A malformed value is refused, even if the body has the same.
        assert_eq!(error(named(header, header)).1, -32020, "{header}");
    }
}

#[test]
fn header_bytes_that_http_forbids_are_refused() {
    for bad in [&b"add\xff"[..], b"\xffadd", b"a\x00d", b"a\nd", b"a\rd", b"\x1b"] {
        for which in 0..3 {
            let mut mcp_headers = mcp_headers(&[V, M, N]);
            match which {
                0 => mcp_headers.version = HeaderField::One(bad),
                1 => mcp_headers.method = HeaderField::One(bad),
                _ => mcp_headers.name = HeaderField::One(bad),
            }
            let message = tool_call("add").to_string();
            let (_, code, status) =
                error(Arc::new(wire()).receive_http(message.into(), &mcp_headers));
            assert_eq!((code, status), (-32020, 400), "{bad:?}");
        }
    }
}

#[test]
fn checks_come_in_the_order_of_the_specification() {
    let params = |meta: Value| json!({"_meta": meta});
    let capable = json!({"io.modelcontextprotocol/clientCapabilities": {}});
    let versioned = json!({"io.modelcontextprotocol/protocolVersion": MODERN});
    let both = |version: &str| {
        json!({
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientCapabilities": {},
        })
    };
    let discover = ("method", "server/discover");
    for (message, pairs, code, status) in [
        // Metadata is checked first, even if the headers are wrong.
        (request(7, "server/discover", json!({})), vec![V, discover], -32602, 400),
        (request(7, "server/discover", json!({})), vec![], -32602, 400),
        (request(7, "server/discover", params(capable.clone())), vec![V], -32602, 400),
        (request(7, "server/discover", params(versioned)), vec![V, discover], -32602, 400),
        (request(7, "tools/list", json!({})), vec![V], -32602, 400),
        (request(7, "initialize", json!({})), vec![V, ("method", "initialize")], -32602, 400),
        (request(7, "server/discover", params(capable)), vec![("version", "v9")], -32602, 400),
        // Headers are next, even if the version is wrong too.
        (request(7, "server/discover", params(both("v999.0.0"))), vec![V, discover], -32020, 400),
        // The version is next, even if the method is unknown.
        (
            request(7, "un/known", params(both("v999.0.0"))),
            vec![("version", "v999.0.0"), ("method", "un/known")],
            -32022,
            400,
        ),
        (
            request(7, "tools/list", params(both("2025-11-25"))),
            vec![("version", "2025-11-25"), ("method", "tools/list")],
            -32022,
            400,
        ),
        // The method is last.
        (request(7, "ping", params(both(MODERN))), vec![V, ("method", "ping")], -32601, 404),
        (
            request(7, "initialize", params(both(MODERN))),
            vec![V, ("method", "initialize")],
            -32601,
            404,
        ),
        (
            request(7, "resources/subscribe", params(both(MODERN))),
            vec![V, ("method", "resources/subscribe")],
            -32601,
            404,
        ),
        (
            request(7, "un/known", params(both(MODERN))),
            vec![V, ("method", "un/known")],
            -32601,
            404,
        ),
        // A name that is missing in both is a missing parameter.
        (request(7, "tools/call", params(both(MODERN))), vec![V, M], -32602, 200),
        (request(7, "tools/call", params(both(MODERN))), vec![V, M, N], -32020, 400),
    ] {
        let (answer, got, got_status) = error(send(&message, &pairs));
        assert_eq!((got, got_status), (code, status), "{message} {pairs:?}");
        assert_eq!(answer["id"], 7, "{message}");
        if code == -32022 {
            assert_eq!(answer["error"]["data"]["requested"], pairs[0].1);
            let supported = answer["error"]["data"]["supported"].as_array().unwrap();
            assert_eq!(supported[0], modern_dates()[0]);
        }
    }
}

#[test]
fn param_headers_are_read_for_tool_calls_only() {
    let params = [("region", "us-west1"), ("REGION", "=?base64?w6Q=?="), ("bad", "=?base64?x?=")];
    let pairs = [&[V, M, N][..], &params].concat();
    let (request, _) = call(send(&tool_call("add"), &pairs));
    let mirrored = request.mirrored.as_ref().unwrap();
    assert_eq!(mirrored.of("Region").collect::<Vec<_>>(), [Some("us-west1"), Some("ä")]);
    assert_eq!(mirrored.of("bad").collect::<Vec<_>>(), [None]);
    assert_eq!(mirrored.of("none").count(), 0);
    let (request, _) = call(send(&tool_call("add"), &[V, M, N]));
    assert!(request.mirrored.is_some());
    let list = modern(1, "tools/list", json!({}));
    let (request, _) = call(send(&list, &[V, ("method", "tools/list"), ("region", "x")]));
    assert!(request.mirrored.is_none());
    let (request, _) = call(receive(&mut connection(), &tool_call("add")));
    assert!(request.mirrored.is_none(), "it did not come over HTTP");
    let legacy = crate::common::request(1, "tools/call", json!({"name": "add"}));
    let (request, _) = call(send(&legacy, &[("region", "x")]));
    assert!(request.mirrored.is_none());
}

#[test]
fn header_fields_have_at_most_one_value() {
    let mut field = HeaderField::default();
    assert_eq!((field, field.one()), (HeaderField::Absent, None));
    field.add(b"a");
    assert_eq!(field.one(), Some(&b"a"[..]));
    field.add(b"a");
    assert_eq!((field, field.one()), (HeaderField::Several, None));
    field.add(b"a");
    assert_eq!(field, HeaderField::Several);
    assert!(!mcp_headers(&[V]).may_have_session());
    assert!(!mcp_headers(&[("version", "\t2026-07-28 ")]).may_have_session());
    for other in ["2025-11-25", "2026-07-29", "x", ""] {
        assert!(mcp_headers(&[("version", other)]).may_have_session());
    }
    assert!(mcp_headers(&[V, V]).may_have_session());
}

fn texts() -> impl Strategy<Value = String> {
    prop_oneof![
        any::<String>(),
        "[ -~]{0,30}",
        "[ \t]{0,2}[a-z]{0,5}[ \t]{0,2}",
        "=\\?base64\\?.{0,8}\\?=",
        "=\\?base64\\?[A-Za-z0-9+/]{0,8}=?=?\\?=",
    ]
}

proptest! {
    #[test]
    fn encoded_header_values_are_decoded(text in texts()) {
        let header = encode_header(&text);
        prop_assert!(header.bytes().all(|byte| matches!(byte, b'\t' | b' '..=b'~')));
        prop_assert_eq!(header.trim(), &*header);
        call(send(&tool_call(&text), &[V, M, ("name", &header)]));
    }

    #[test]
    fn other_text_is_not_decoded_as_base64(text in texts(), other in texts()) {
        prop_assume!(text != other);
        let header = encode_header(&other);
        prop_assert_eq!(error(send(&tool_call(&text), &[V, M, ("name", &header)])).1, -32020);
    }

    #[test]
    fn arbitrary_headers_do_not_panic(
        version: Vec<u8>,
        name: Vec<u8>,
        param: Vec<u8>,
        legacy: bool,
    ) {
        let mut mcp_headers = mcp_headers(&[M]);
        mcp_headers.version.add(&version);
        mcp_headers.name.add(&name);
        mcp_headers.params.push(("x", &param));
        let message = match legacy {
            true => request(1, "ping", json!({})),
            false => tool_call("add"),
        };
        let wire = Arc::new(wire());
        let refused = error(wire.receive_http(message.to_string().into(), &mcp_headers));
        prop_assert_eq!(refused.2, 400);
    }
}
