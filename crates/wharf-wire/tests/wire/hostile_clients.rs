//! Hostile clients: each message gets one reply, and nothing grows without bound.

use std::{collections::BTreeMap, sync::Arc};

use crate::common::*;
use proptest::{collection::vec, prelude::*, sample::select};
use serde_json::{Value, json, value::RawValue};
use wharf_model::{Method, Outcome, Reply};
use wharf_wire::{Connection, Line, Lines, MessageLimits, Received};

/// JSON texts of ids, and whether they are valid.
const IDS: [(&str, bool); 20] = [
    ("1", true),
    ("\"1\"", true),
    ("-0", true),
    ("0", true),
    ("-1", true),
    ("18446744073709551616", true),
    ("-9223372036854775809", true),
    ("\"\"", true),
    (r#""\u0061""#, true),
    (r#""\u0000""#, true),
    (r#""\ud83d\ude00""#, true),
    (r#""\/""#, true),
    (r#""\ud800""#, false),
    (r#""\udc00\ud800""#, false),
    ("1.0", false),
    ("1e2", false),
    ("1e999", false),
    ("null", false),
    ("[1]", false),
    ("false", false),
];

/// Returns the id of the reply to a message as text (`none` without one), and the error code if there is one.
fn reply_id_and_code(received: Received) -> (String, Option<i64>) {
    let bytes = match received {
        Received::Reply(bytes, ..) => bytes,
        Received::Call(_, codec) => {
            let mut out = Vec::new();
            codec.encode(&Outcome::Complete(Reply::Listened), &mut out);
            out
        }
        other => panic!("no answer: {other:?}"),
    };
    // A tree of values would change how numbers are written.
    let members: BTreeMap<String, Box<RawValue>> = serde_json::from_slice(&bytes).unwrap();
    let id = members.get("id").map_or("none", |id| id.get());
    (id.to_owned(), parse(&bytes)["error"]["code"].as_i64())
}

#[test]
fn ids_come_back_as_they_were_or_are_refused() {
    for (sent, readable) in IDS {
        for method in ["ping", "tools/list", "no/such"] {
            let mut connection = connection();
            open(&mut connection, "2025-06-18");
            let message = format!(r#"{{"jsonrpc":"2.0","id":{sent},"method":"{method}"}}"#);
            let (id, code) = reply_id_and_code(connection.receive(message.into()));
            match readable {
                true => assert_eq!(id, sent, "{method}"),
                false => assert_eq!((&*id, code), ("none", Some(-32600)), "{sent} {method}"),
            }
        }
        let token = format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{"progressToken":{sent}}}}}}}"#
        );
        let mut connection = connection();
        open(&mut connection, "2025-06-18");
        let (request, _) = call(connection.receive(token.into()));
        assert_eq!(request.progress, readable, "{sent}");
    }
}

#[test]
fn equal_ids_are_equal_and_others_are_not() {
    let id = |text: &str| {
        let message = modern(0, "tools/list", json!({})).to_string();
        let message = message.replace(r#""id":0"#, &format!(r#""id":{text}"#));
        call(connection().receive(message.into())).1.id()
    };
    assert_ne!(id("1"), id("\"1\""));
    assert_eq!(id("\"a\""), id(r#""\u0061""#));
    assert_eq!(id("-0"), id("0"));
    assert_ne!(id("1"), id("-1"));
}

#[test]
fn only_json_responses_are_parsed() {
    let mut connection = connection();
    for message in [
        "\u{feff}{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}",
        r#"{"jsonrpc":"2.0","id":01,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":+1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":0x1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping",}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":NaN}}"#,
        r#"{'jsonrpc':'2.0','id':1,'method':'ping'}"#,
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\u{0}\"}",
        r#"{"jsonrpc":"2.0","id":1,"method":"ping"} // comment"#,
    ] {
        assert_eq!(error(connection.receive(message.into())).1, -32700, "{message:?}");
    }
    let huge = r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":[1e999,-0,1E-999]}}"#;
    reply(connection.receive(huge.into()));
}

#[test]
fn nesting_is_counted_exactly() {
    for (levels, fits) in [(127, true), (128, true), (129, false)] {
        let inner = levels - 2;
        for (open, close) in [("[", "]"), (r#"{"a":"#, "}")] {
            let deep = format!("{}1{}", open.repeat(inner), close.repeat(inner));
            let message =
                format!(r#"{{"jsonrpc":"2.0","id":1,"method":"ping","params":{{"a":{deep}}}}}"#);
            let (message, _) = reply(connection().receive(message.into()));
            assert_eq!(message.get("result").is_some(), fits, "{levels} {open}");
            assert_eq!(message["id"], 1);
        }
    }
}

#[test]
fn null_counts_as_absent() {
    let mut connection = connection();
    open(&mut connection, "2025-06-18");
    for params in ["null", r#"{"_meta":null}"#, r#"{"cursor":null,"limit":null,"arguments":null}"#]
    {
        let message =
            format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{params}}}"#);
        let (request, _) = call(connection.receive(message.into()));
        assert_eq!((request.cursor(), request.limit(), request.meta()), (None, None, None));
    }
}

#[test]
fn client_info_is_bounded() {
    let limits = MessageLimits::default().client(100);
    let wire = Arc::new(wire().limits(limits));
    let sized = |length: usize| json!({"x": "y".repeat(length - r#"{"x":""}"#.len())});
    for (length, fits) in [(100, true), (101, false)] {
        let initialize = initialize("2025-06-18", sized(length));
        let mut named = crate::common::initialize("2025-06-18", json!({}));
        named["params"]["clientInfo"] = sized(length);
        let key = "io.modelcontextprotocol/clientCapabilities";
        let able = modern(1, "tools/list", json!({"_meta": {key: sized(length)}}));
        let key = "io.modelcontextprotocol/clientInfo";
        let known = modern(1, "tools/list", json!({"_meta": {key: sized(length)}}));
        for message in [initialize, named, able, known] {
            let received = receive(&mut Connection::new(wire.clone()), &message);
            match fits {
                true => drop(call(received)),
                false => assert_eq!(error(received).1, -32602, "{message}"),
            }
        }
    }
}

#[test]
fn lines_without_a_limit_are_lines() {
    let mut lines = Lines::new(usize::MAX);
    lines.push(b"a");
    assert_eq!(lines.next(), None);
    lines.push(b"b\n");
    assert_eq!(lines.next(), Some(Line::Message("ab".into())));
}

#[test]
fn unknown_values_in_results_do_not_panic() {
    for (method, result) in [
        (
            Method::ListTools,
            json!({"cacheScope": "shared", "ttlMs": -5, "future": 1, "tools": [{
                "name": "t", "inputSchema": {"type": "object"}, "future": {},
                "execution": {"taskSupport": "perhaps"}, "annotations": {"futureHint": "x"},
                "icons": [{"src": "data:,", "theme": "sepia", "sizes": ["any"], "future": 1}],
            }]}),
        ),
        (
            Method::GetPrompt,
            json!({"messages": [{"role": "system", "content": {"type": "hologram", "x": 1}}]}),
        ),
        (
            Method::CallTool,
            json!({"content": [{"type": "text", "text": "", "annotations": {"audience": ["robot"]}}]}),
        ),
        (Method::ListResources, json!({"resources": [{"uri": "a:b", "name": "n", "future": 1}]})),
        (Method::Complete, json!({"completion": {"values": ["a"], "future": 1}})),
        (
            Method::Discover,
            json!({"capabilities": {"future": {}, "tools": {"future": 1}}, "supportedVersions": ["2030-01-01"]}),
        ),
    ] {
        for version in LEGACY.into_iter().chain([MODERN]) {
            let read = client_codec(revision(version)).result(method, &result.to_string());
            assert!(matches!(read, Ok(Outcome::Complete(_))), "{version} {method:?}: {read:?}");
        }
    }
}

const METHODS: [&str; 18] = [
    "initialize",
    "ping",
    "server/discover",
    "tools/list",
    "tools/call",
    "resources/list",
    "resources/templates/list",
    "resources/read",
    "resources/subscribe",
    "resources/unsubscribe",
    "prompts/list",
    "prompts/get",
    "completion/complete",
    "logging/setLevel",
    "subscriptions/listen",
    "notifications/initialized",
    "sampling/createMessage",
    "",
];

/// JSON values of unexpected types.
const ODD: [&str; 16] = [
    "null",
    "true",
    "0",
    "-1",
    "1.5",
    "1e400",
    "\"\"",
    "\"a:b\"",
    r#""\ud800""#,
    r#""\u0000""#,
    "[]",
    "{}",
    r#"{"a":{"a":[{}]}}"#,
    r#"["a:b",1]"#,
    r#""2025-03-26""#,
    r#""2026-07-28""#,
];

const FIELDS: [&str; 20] = [
    "name",
    "uri",
    "arguments",
    "cursor",
    "limit",
    "inputResponses",
    "requestState",
    "requestId",
    "level",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "notifications",
    "context",
    "_meta",
    "progressToken",
    "io.modelcontextprotocol/protocolVersion",
    "io.modelcontextprotocol/clientCapabilities",
    "io.modelcontextprotocol/clientInfo",
    "io.modelcontextprotocol/logLevel",
];

/// Field, its odd value, whether it is in `_meta`, and whether its key has escapes.
type OddField = (&'static str, &'static str, bool, bool);

fn members(fields: &[OddField], in_meta: bool) -> String {
    let key = |&(key, _, _, escaped): &OddField| match escaped {
        true => key.chars().map(|it| format!("\\u{:04x}", u32::from(it))).collect(),
        false => key.to_owned(),
    };
    let fields = fields.iter().filter(|it| it.2 == in_meta);
    fields.map(|it| format!("\"{}\":{},", key(it), it.1)).collect()
}

fn odd_request(id: &str, method: &str, fields: &[OddField]) -> String {
    let (params, meta) = (members(fields, false), members(fields, true));
    format!(
        r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{{{params}"_meta":{{{meta}"x":1}}}}}}"#
    )
}

/// Counts the immediate replies to a batch or message; calls count as one each.
fn answers(received: Received) -> usize {
    match received {
        Received::Call(_, codec) => {
            let mut out = Vec::new();
            codec.encode(&Outcome::Complete(Reply::Discover(Box::new(discovery()))), &mut out);
            if !codec.is_silent() {
                parse(&out);
            }
            usize::from(!codec.is_silent())
        }
        Received::Reply(bytes, ..) => {
            parse(&bytes);
            1
        }
        Received::Batch(each) => each.into_iter().map(answers).sum(),
        _ => 0,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_request_with_a_readable_id_gets_one_answer(
        requests in vec((
            0..IDS.len(),
            select(METHODS.to_vec()),
            vec((select(FIELDS.to_vec()), select(ODD.to_vec()), any::<bool>(), any::<bool>()), 0..5),
        ), 1..12),
        between in vec(select(vec![
            r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#,
            r#"{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}"#,
            r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
            r#"{"jsonrpc":"2.0","id":{},"error":7}"#,
        ]), 0..12),
        version in select(vec!["", "2024-11-05", "2025-03-26", "2025-11-25"]),
        batch in any::<bool>(),
    ) {
        let mut connection = connection();
        if !version.is_empty() {
            open(&mut connection, version);
        }
        let mut messages = Vec::new();
        for (at, (id, method, fields)) in requests.iter().enumerate() {
            messages.push(odd_request(IDS[*id].0, method, fields));
            messages.extend(between.get(at).map(|it| (*it).to_owned()));
        }
        if batch && version == "2025-03-26" {
            let message = format!("[{}]", messages.join(","));
            let alone = |(_, method, fields): &(usize, &str, Vec<OddField>)| {
                *method == "initialize" || fields.iter().any(|it| it.0.starts_with("io."))
            };
            match connection.receive(message.into()) {
                Received::Reply(..) => prop_assert!(requests.iter().any(alone)),
                received => prop_assert_eq!(answers(received), requests.len()),
            }
            return Ok(());
        }
        let mut heard = 0;
        for message in messages {
            heard += answers(connection.receive(message.into()));
        }
        prop_assert_eq!(heard, requests.len());
    }

    #[test]
    fn exactly_valid_json_is_accepted(
        text in r#"[\[\]{}:," \\ua0-9eE.+\-]{0,12}|[\[{]{0,3}("a":)?-?[0-9.]{1,4}([eE][+-]?[0-9]{0,2})?[\]}]{0,3}"#,
    ) {
        let is_json = serde_json::from_str::<serde::de::IgnoredAny>(&text).is_ok();
        let (_, code, _) = error(connection().receive(text.clone().into()));
        prop_assert_eq!(code != -32700, is_json, "{}", text);
    }

    #[test]
    fn arbitrary_bytes_after_a_valid_start_do_not_panic(
        tail in vec(any::<u8>(), 0..60),
        start in select(vec![
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":""#,
            r#"{"jsonrpc":"2.0","id":"#,
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"},"#,
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"#,
        ]),
    ) {
        let mut bytes = start.as_bytes().to_vec();
        bytes.extend(tail);
        let mut connection = connection();
        open(&mut connection, "2025-03-26");
        answers(connection.receive(bytes.into()));
        let (message, _) = reply(receive(&mut connection, &request("still", "ping", json!({}))));
        prop_assert_eq!(&message["id"], &Value::from("still"));
    }
}
