//! HTTP headers of a client's messages.

use wharf_model::HeaderParams;
use wharf_wire::{HeaderField, McpHeaders, Received, ServerProtocol};

use super::*;

fn headers(version: &str, method: &str, target: Option<&str>) -> Vec<String> {
    let headers = client_codec(revision(version)).headers(method, target, None);
    headers.into_iter().map(|(name, value)| format!("{name}: {value}")).collect()
}

#[test]
fn the_version_is_named_where_the_revision_has_a_header_for_it() {
    for method in ["tools/call", "ping", "notifications/initialized", "x/y"] {
        for version in ["2024-11-05", "2025-03-26"] {
            assert!(headers(version, method, Some("t")).is_empty());
        }
        for version in ["2025-06-18", "2025-11-25"] {
            let expected = [format!("MCP-Protocol-Version: {version}")];
            assert_eq!(headers(version, method, Some("t")), expected);
        }
    }
    for version in LEGACY {
        assert!(headers(version, "initialize", None).is_empty());
    }
}

#[test]
fn modern_headers_repeat_method_and_target() {
    let version = "MCP-Protocol-Version: 2026-07-28";
    for (method, target, name) in [
        ("tools/call", Some("t"), Some("t")),
        ("prompts/get", Some("p q"), Some("p q")),
        ("resources/read", Some("file:///a b"), Some("file:///a b")),
        ("resources/read", Some("file:///ä"), Some("=?base64?ZmlsZTovLy/DpA==?=")),
        ("tools/call", Some(" padded "), Some("=?base64?IHBhZGRlZCA=?=")),
        ("tools/call", Some("line1\nline2"), Some("=?base64?bGluZTEKbGluZTI=?=")),
        ("tools/call", Some("=?base64?literal?="), Some("=?base64?PT9iYXNlNjQ/bGl0ZXJhbD89?=")),
        ("tools/call", Some("=?base64?open"), Some("=?base64?open")),
        ("tools/call", Some(""), Some("")),
        ("tools/call", None, None),
        // These methods have no target that is repeated.
        ("tools/list", Some("t"), None),
        ("completion/complete", Some("t"), None),
        ("subscriptions/listen", Some("t"), None),
        ("x/y", Some("t"), None),
        ("server/discover", None, None),
    ] {
        let mut expected = vec![version.to_owned(), format!("Mcp-Method: {method}")];
        expected.extend(name.map(|name| format!("Mcp-Name: {name}")));
        assert_eq!(headers(MODERN, method, target), expected);
    }
    // A method name cannot inject a header.
    let odd = headers(MODERN, "x\r\nEvil: 1", None);
    assert_eq!(odd[1], "Mcp-Method: =?base64?eA0KRXZpbDogMQ==?=");
}

#[test]
fn arguments_are_mirrored() {
    let mirrored: HeaderParams = [
        ("Region", Some("us-west1")),
        ("Greeting", Some("Hello, 世界")),
        ("Count", Some("42")),
        ("Absent", None),
        ("Not a token", Some("x")),
        ("", Some("x")),
    ]
    .into_iter()
    .map(|(name, value)| (name.to_owned(), value.map(str::to_owned)))
    .collect();
    let found = client_codec(revision(MODERN)).headers("tools/call", Some("t"), Some(&mirrored));
    let found: Vec<_> = found.iter().skip(3).map(|(name, value)| (&**name, &**value)).collect();
    assert_eq!(
        found,
        [
            ("Mcp-Param-Region", "us-west1"),
            ("Mcp-Param-Greeting", "=?base64?SGVsbG8sIOS4lueVjA==?="),
            ("Mcp-Param-Count", "42"),
        ]
    );
    let legacy =
        client_codec(revision("2025-11-25")).headers("tools/call", Some("t"), Some(&mirrored));
    assert_eq!(legacy.len(), 1);
}

/// The server accepts the headers of the client.
#[test]
fn a_server_accepts_the_headers_of_a_client() {
    for name in ["t", "añadir", " t", "=?base64?x?=", "a\tb"] {
        let client_codec = full_client_codec(revision(MODERN));
        let call = wharf_model::RequestBuilder::new(wharf_model::Method::CallTool).target(name);
        let mut out = Vec::new();
        client_codec.call(&call.build(), &id(1), &mut out).unwrap();
        let headers = client_codec.headers("tools/call", Some(name), None);
        let field = |index: usize| HeaderField::One(headers[index].1.as_bytes());
        let (version, method) = (field(0), field(1));
        let mcp_headers = McpHeaders { version, method, name: field(2), ..McpHeaders::default() };
        let wire: Arc<ServerProtocol> = Arc::new(wire());
        let received = wire.receive_http(out.into(), &mcp_headers);
        assert!(matches!(&received, Received::Call(..)), "{name:?}: {received:?}");
    }
}
