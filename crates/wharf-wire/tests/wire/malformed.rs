//! Malformed input gets the right error, and the next message works.

use std::sync::Arc;

use crate::common::*;
use bytes::Bytes;
use serde_json::{Value, json};
use wharf_wire::{Connection, MessageLimits, Received};

fn table() -> Vec<(&'static str, Vec<u8>, i64, Value)> {
    let deep = |levels: usize| {
        format!(
            r#"{{"jsonrpc":"2.0","method":"ping","params":{}{},"id":9}}"#,
            "[".repeat(levels),
            "]".repeat(levels)
        )
        .into_bytes()
    };
    let text = |name, json: &str, code, id| (name, json.as_bytes().to_vec(), code, id);
    vec![
        text("no JSON", "hello", -32700, json!(null)),
        text("half a message", r#"{"jsonrpc":"2.0","id":1"#, -32700, json!(null)),
        text("two messages", r#"{"jsonrpc":"2.0","id":1,"method":"ping"}{}"#, -32700, json!(null)),
        text(
            "a raw newline in a string",
            "{\"jsonrpc\":\"2.0\",\"id\":\"a\nb\",\"method\":\"ping\"}",
            -32700,
            json!(null),
        ),
        text("bad escape", r#"{"jsonrpc":"2.0","id":"\q","method":"ping"}"#, -32700, json!(null)),
        text("NUL", "\0", -32700, json!(null)),
        (
            "bad UTF-8",
            b"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}".to_vec(),
            -32700,
            json!(null),
        ),
        text("a number", "5", -32600, json!(null)),
        text("a string", "\"ping\"", -32600, json!(null)),
        text("an empty object", "{}", -32600, json!(null)),
        text("an empty batch", "[]", -32600, json!(null)),
        text("no version", r#"{"id":1,"method":"ping"}"#, -32600, json!(1)),
        text("version 1", r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600, json!(1)),
        text("version as a number", r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#, -32600, json!(1)),
        text("no method", r#"{"jsonrpc":"2.0","id":1}"#, -32600, json!(1)),
        text("method as a number", r#"{"jsonrpc":"2.0","id":1,"method":1}"#, -32600, json!(1)),
        text("method null", r#"{"jsonrpc":"2.0","id":1,"method":null}"#, -32600, json!(1)),
        text("id null", r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600, json!(null)),
        text("id fractional", r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#, -32600, json!(null)),
        text(
            "id with an exponent",
            r#"{"jsonrpc":"2.0","id":1e3,"method":"ping"}"#,
            -32600,
            json!(null),
        ),
        text("id an object", r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600, json!(null)),
        text("id a boolean", r#"{"jsonrpc":"2.0","id":true,"method":"ping"}"#, -32600, json!(null)),
        (
            "id too long",
            request("x".repeat(255), "ping", json!({})).to_string().into_bytes(),
            -32600,
            json!(null),
        ),
        text("two ids", r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600, json!(null)),
        text(
            "two of everything",
            r#"{"jsonrpc":"2.0","method":"ping","method":"ping","id":1,"id":2,"params":{},"params":{}}"#,
            -32600,
            json!(null),
        ),
        text(
            "two methods",
            r#"{"jsonrpc":"2.0","method":"ping","id":1,"method":"tools/list"}"#,
            -32600,
            json!(1),
        ),
        text(
            "two methods, one in disguise",
            r#"{"jsonrpc":"2.0","method":"ping","\u006dethod":"tools/list","id":1}"#,
            -32600,
            json!(1),
        ),
        text(
            "two params",
            r#"{"jsonrpc":"2.0","params":{},"params":{},"method":"ping","id":1}"#,
            -32600,
            json!(1),
        ),
        text(
            "two names",
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"a","name":"b"}}"#,
            -32600,
            json!(1),
        ),
        text(
            "two tokens",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"progressToken":1,"progressToken":2}}}"#,
            -32600,
            json!(1),
        ),
        text(
            "result and error",
            r#"{"jsonrpc":"2.0","id":1,"result":{},"error":{"code":1,"message":""}}"#,
            -32600,
            json!(null),
        ),
        text("an answer without a version", r#"{"id":1,"result":{}}"#, -32600, json!(null)),
        text(
            "an answer with two results",
            r#"{"jsonrpc":"2.0","id":1,"result":{},"result":{}}"#,
            -32600,
            json!(null),
        ),
        (
            "a deep answer",
            format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":{}{}}}"#,
                "[".repeat(200),
                "]".repeat(200)
            )
            .into_bytes(),
            -32600,
            json!(null),
        ),
        text(
            "method and result",
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
            -32600,
            json!(1),
        ),
        ("too deep", deep(128), -32600, json!(9)),
        ("far too deep", deep(1_000_000), -32600, json!(9)),
        text("deep and unclosed", &"[".repeat(10_000), -32700, json!(null)),
    ]
}

#[test]
fn malformed_messages_get_their_error_and_the_connection_continues() {
    for version in ["2024-11-05", "2025-06-18", "2025-11-25", "", "2025-03-26"] {
        let mut connection = connection();
        if !version.is_empty() {
            open(&mut connection, version);
        }
        for (name, bytes, code, id) in table() {
            let (message, found, status) = error(connection.receive(Bytes::from(bytes)));
            assert_eq!((found, status), (code, 400), "{version} {name}");
            // An unknown id is omitted: no revision allows `null`.
            assert_eq!(message.get("id"), Some(&id).filter(|id| !id.is_null()), "{version} {name}");
            assert!(message["error"]["data"]["reason"].is_string());
            let (message, _) = reply(receive(&mut connection, &request("next", "ping", json!({}))));
            assert_eq!(message, json!({"jsonrpc": "2.0", "id": "next", "result": {}}));
        }
    }
}

#[test]
fn unusual_but_valid_messages_are_served() {
    let mut connection = connection();
    for message in [
        "\t{ \"method\" : \"ping\" ,\r\n \"id\" : 1 , \"jsonrpc\":\"2.0\" } \n",
        r#"{"jsonrpc":"\u0032.0","id":1,"m\u0065thod":"p\u0069ng"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":{"id":1,"id":2}},"extra":[1,2,{}]}"#,
        r#"{"jsonrpc":"2.0","id":-7,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":"","method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":99999999999999999999999999,"method":"ping"}"#,
    ] {
        let (reply, _) = reply(connection.receive(message.to_owned().into()));
        assert_eq!(reply["result"], json!({}), "{message}");
    }
    let id = request("x".repeat(254), "ping", json!({}));
    assert_eq!(reply(receive(&mut connection, &id)).0["id"], id["id"]);
    let deep = format!(
        r#"{{"jsonrpc":"2.0","method":"ping","params":{{"a":{}{}}},"id":9}}"#,
        "[".repeat(126),
        "]".repeat(126)
    );
    assert_eq!(reply(connection.receive(deep.into())).0["id"], 9);
}

#[test]
fn an_undecodable_name_is_refused() {
    let message = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"\ud800"}}"#;
    let mut connection = connection();
    open(&mut connection, "2025-06-18");
    assert_eq!(error(connection.receive(message.into())).1, -32602);
    let method = r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#;
    assert_eq!(error(connection.receive(method.into())).1, -32600);
}

#[test]
fn a_message_may_be_as_long_as_the_limit() {
    let ping = request(1, "ping", json!({})).to_string();
    let limits = MessageLimits::default().message(ping.len()).depth(4);
    let mut connection = Connection::new(Arc::new(wire().limits(limits)));
    reply(connection.receive(ping.clone().into()));
    let (message, code, status) = error(connection.receive(format!("{ping} ").into()));
    assert_eq!((code, status, message.get("id")), (-32801, 413, None));
    let data = json!({"limit": ping.len(), "size": ping.len() + 1, "reason": "content_too_large"});
    assert_eq!(message["error"]["data"], data);
    assert_eq!(error(connection.too_long()).1, -32801);
    assert!(matches!(connection.receive(ping.into()), Received::Reply(..)));
    assert_eq!(error(connection.receive("[[[[[]]]]]".into())).1, -32600);
}

#[test]
fn client_text_in_errors_is_truncated() {
    let message = modern(1, &"m".repeat(100_000), json!({}));
    let Received::Reply(bytes, ..) = receive(&mut connection(), &message) else { panic!() };
    assert!(bytes.len() < 1000);
    let name = "n".repeat(100_000);
    for error in
        [wharf_model::Error::tool_not_found(&name), wharf_model::Error::prompt_not_found(&name)]
    {
        assert!(error.message.len() < 200);
    }
}
