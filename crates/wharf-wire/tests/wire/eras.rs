//! Era of a message, and the checks that follow from it.

use std::sync::Arc;

use crate::common::*;
use serde_json::{Value, json};
use wharf_model::{InputMode, LogLevel, Method};
use wharf_wire::{Connection, MessageLimits, Received, Revision, ServerProtocol, SupportedEras};

const CALLS: [(&str, Method); 10] = [
    ("server/discover", Method::Discover),
    ("tools/list", Method::ListTools),
    ("tools/call", Method::CallTool),
    ("resources/list", Method::ListResources),
    ("resources/templates/list", Method::ListTemplates),
    ("resources/read", Method::ReadResource),
    ("prompts/list", Method::ListPrompts),
    ("prompts/get", Method::GetPrompt),
    ("completion/complete", Method::Complete),
    ("subscriptions/listen", Method::Listen),
];

fn params(method: &str) -> Value {
    match method {
        "tools/call" | "prompts/get" => json!({"name": "it"}),
        "resources/read" | "resources/subscribe" | "resources/unsubscribe" => json!({"uri": "a:b"}),
        "subscriptions/listen" => json!({"notifications": {"toolsListChanged": true}}),
        "logging/setLevel" => json!({"level": "error"}),
        _ => json!({}),
    }
}

#[test]
fn every_method_in_every_revision() {
    for (name, method) in CALLS {
        let mut connection = connection();
        let (request, codec) = call(receive(&mut connection, &modern(1, name, params(name))));
        assert_eq!(request.method, method);
        assert_eq!(request.asks, InputMode::Suspend);
        assert_eq!(codec.is_listen(), method == Method::Listen);
        assert!(!codec.is_silent());
    }
    for version in LEGACY {
        let mut connection = connection();
        open(&mut connection, version);
        for (name, method) in CALLS {
            let received = receive(&mut connection, &request(1, name, params(name)));
            if matches!(method, Method::Discover | Method::Listen) {
                // The session's revision does not have them.
                let (_, code, status) = error(received);
                assert_eq!((code, status), (-32601, 200), "{name}");
                continue;
            }
            let (request, _) = call(received);
            assert_eq!((request.method, request.asks), (method, InputMode::Deliver));
            assert_eq!(request.log_level, Some(LogLevel::Info));
        }
    }
}

#[test]
fn a_method_of_another_era_is_unknown() {
    let mut connection = connection();
    for name in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "no/such",
        "tasks/result",
        "tasks/list",
        "sampling/createMessage",
    ] {
        let (message, code, status) =
            error(receive(&mut connection, &modern("x", name, params(name))));
        assert_eq!((code, status), (-32601, 404), "{name}");
        assert_eq!(message["id"], "x");
        assert_eq!(message["error"]["data"], json!({"method": name, "reason": "method_not_found"}));
    }
    open(&mut connection, "2025-11-25");
    for name in ["no/such", "tasks/update", "sampling/createMessage", "notifications/initialized"] {
        let (_, code, status) = error(receive(&mut connection, &request(1, name, json!({}))));
        assert_eq!((code, status), (-32601, 200), "{name}");
    }
}

#[test]
fn each_of_the_four_keys_makes_a_request_modern_and_must_not_stand_alone() {
    let mut connection = connection();
    open(&mut connection, "2025-11-25");
    for (key, value) in [
        ("protocolVersion", json!(MODERN)),
        ("clientCapabilities", json!({})),
        ("clientInfo", json!({"name": "a", "version": "b"})),
        ("logLevel", json!("info")),
    ] {
        let meta = json!({format!("io.modelcontextprotocol/{key}"): value});
        let message = request(1, "tools/list", json!({"_meta": meta}));
        let (message, code, status) = error(receive(&mut connection, &message));
        assert_eq!((code, status), (-32602, 400), "{key}");
        assert_eq!(message["error"]["data"]["reason"], "invalid_params");
    }
    let other = json!({"_meta": {"io.modelcontextprotocol/related-task": {"taskId": "1"}}});
    call(receive(&mut connection, &request(1, "tools/list", other)));
}

#[test]
fn modern_metadata_is_checked_in_order() {
    let prefix = "io.modelcontextprotocol";
    for (key, value, code, status) in [
        ("protocolVersion", json!(5), -32602, 400),
        ("protocolVersion", json!(null), -32602, 400),
        ("protocolVersion", json!("1900-01-01"), -32022, 400),
        ("protocolVersion", json!("2025-11-25"), -32022, 400),
        ("clientCapabilities", json!([]), -32602, 400),
        ("clientInfo", json!("me"), -32602, 400),
        ("logLevel", json!("loud"), -32602, 400),
        ("logLevel", json!(3), -32602, 400),
    ] {
        let mut message = modern(1, "tools/list", json!({}));
        message["params"]["_meta"][format!("{prefix}/{key}")] = value.clone();
        let received = receive(&mut connection(), &message);
        let (_, found, http) = error(received);
        assert_eq!((found, http), (code, status), "{key}: {value}");
    }
    let mut both = modern(1, "no/such", json!({}));
    both["params"]["_meta"][format!("{prefix}/protocolVersion")] = "1900-01-01".into();
    let (message, code, _) = error(receive(&mut connection(), &both));
    assert_eq!(code, -32022, "the version comes before the method");
    assert_eq!(message["error"]["data"]["requested"], "1900-01-01");
    assert_eq!(message["error"]["data"]["supported"][0], modern_dates()[0]);
    let supported = message["error"]["data"]["supported"].as_array().unwrap();
    assert_eq!(supported.len(), Revision::ALL.len());
}

#[test]
fn a_modern_request_needs_no_earlier_message() {
    let mut connection = connection();
    let message = modern(
        "a",
        "tools/call",
        json!({
            "name": "t\u{e9}\n", "arguments": {"x": 1}, "requestState": "s", "inputResponses": {"k": {}},
            "_meta": {"progressToken": "p", "io.modelcontextprotocol/logLevel": "warning",
                "io.modelcontextprotocol/clientCapabilities": {"elicitation": {}}, "mine": 1},
        }),
    );
    let (request, codec) = call(receive(&mut connection, &message));
    assert_eq!(request.target(), "t\u{e9}\n");
    assert_eq!(request.arguments(), r#"{"x":1}"#);
    assert_eq!(request.request_state().unwrap(), "s");
    assert_eq!(request.input_responses(), Some(r#"{"k":{}}"#));
    assert_eq!(request.log_level, Some(LogLevel::Warning));
    assert!(request.progress);
    assert!(request.meta().unwrap().contains("mine"));
    let peer = request.peer();
    assert_eq!(peer.info.as_ref().unwrap().name, "client");
    assert!(peer.capabilities.elicitation.is_some());
    assert_eq!(codec.id().as_json(), "\"a\"");
    // No state is left behind.
    let (_, code, _) =
        error(receive(&mut connection, &crate::common::request(2, "tools/list", json!({}))));
    assert_eq!(code, -32602);
}

#[test]
fn parameters_are_checked() {
    for (method, params, field) in [
        ("tools/call", json!({}), "name"),
        ("tools/call", json!({"name": 1}), "name"),
        ("tools/call", json!({"name": null}), "name"),
        ("tools/call", json!({"name": "a", "arguments": []}), "arguments"),
        ("prompts/get", json!({"uri": "a"}), "name"),
        ("resources/read", json!({"name": "a"}), "uri"),
        ("tools/list", json!({"cursor": 1}), "cursor"),
        ("tools/list", json!({"_meta": []}), "_meta"),
    ] {
        for version in LEGACY {
            let mut connection = connection();
            open(&mut connection, version);
            let (message, code, _) =
                error(receive(&mut connection, &request(1, method, params.clone())));
            assert_eq!(code, -32602, "{method} {params}");
            assert_eq!(message["error"]["data"]["field"], field);
        }
        if params["_meta"].is_null() {
            let received = receive(&mut connection(), &modern(1, method, params.clone()));
            let (message, code, status) = error(received);
            assert_eq!((code, status), (-32602, 200), "{method} {params}");
            assert_eq!(message["error"]["data"]["field"], field);
        }
    }
    for (params, field) in [
        (json!({"name": "a", "inputResponses": 1}), "inputResponses"),
        (json!({"name": "a", "requestState": {}}), "requestState"),
    ] {
        let received = receive(&mut connection(), &modern(1, "tools/call", params.clone()));
        assert_eq!(error(received).0["error"]["data"]["field"], field);
        // Legacy revisions do not have these parameters, so they are ignored.
        let mut connection = connection();
        open(&mut connection, "2025-11-25");
        let (request, _) = call(receive(&mut connection, &request(1, "tools/call", params)));
        assert!(request.input_responses().is_none() && request.request_state().is_none());
    }
    let received = receive(&mut connection(), &modern(1, "subscriptions/listen", json!({})));
    assert_eq!(error(received).0["error"]["data"]["field"], "notifications");
    for array in [json!([1]), json!("x"), json!(7)] {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": array});
        assert_eq!(error(receive(&mut connection(), &message)).1, -32602);
    }
    let null = json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "params": null});
    assert_eq!(reply(receive(&mut connection(), &null)).0["result"], json!({}));
}

#[test]
fn a_uri_may_be_as_long_as_the_limit() {
    let wire = Arc::new(wire().limits(MessageLimits::default().uri(10)));
    let read = |uri: &str| {
        let message = modern(1, "resources/read", json!({"uri": uri})).to_string();
        wire.receive(message.into(), None)
    };
    call(read("a:89012345"));
    let (message, code, _) = error(read("a:890123456"));
    assert_eq!(code, -32602);
    assert_eq!(message["error"]["data"]["reason"], "uri_too_long");
    let listen = json!({"notifications": {"resourceSubscriptions": ["a:890123456"]}});
    let message = modern(1, "subscriptions/listen", listen).to_string();
    assert_eq!(error(wire.receive(message.into(), None)).1, -32602);
    let listen = |count: usize| {
        let uris: Vec<String> = (0..count).map(|index| format!("a:{index}")).collect();
        let params = json!({"notifications": {"resourceSubscriptions": uris}});
        wire.receive(modern(1, "subscriptions/listen", params).to_string().into(), None)
    };
    call(listen(1000));
    assert_eq!(error(listen(1001)).1, 1004);
}

#[test]
fn a_modern_only_server_names_its_versions() {
    let mut connection = Connection::new(Arc::new(wire().eras(SupportedEras::Modern)));
    let (message, code, status) =
        error(receive(&mut connection, &initialize("2025-06-18", json!({}))));
    assert_eq!((code, status), (-32022, 400));
    assert!(message["error"]["message"].as_str().unwrap().contains(MODERN));
    assert_eq!(message["error"]["data"]["supported"], json!(modern_dates()));
    assert_eq!(message["error"]["data"]["requested"], "2025-06-18");
    for name in ["tools/list", "ping"] {
        let (_, code, status) = error(receive(&mut connection, &request(1, name, json!({}))));
        assert_eq!((code, status), (-32602, 400), "{name}");
    }
    call(receive(&mut connection, &modern(1, "tools/list", json!({}))));
}

#[test]
fn a_legacy_only_server_replies_with_legacy_errors() {
    let mut connection = Connection::new(Arc::new(wire().eras(SupportedEras::Legacy)));
    // A client that probes must receive an error that leads it to `initialize`.
    let (_, code, _) = error(receive(&mut connection, &modern(1, "server/discover", json!({}))));
    assert_eq!(code, -32601);
    let (message, code, _) = error(receive(&mut connection, &modern(1, "tools/list", json!({}))));
    assert_eq!(code, -32022);
    assert_eq!(
        message["error"]["data"]["supported"],
        json!(["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    );
    open(&mut connection, "2025-06-18");
    call(receive(&mut connection, &request(1, "tools/list", json!({}))));
}

#[test]
fn a_stateless_message_is_served_without_a_session() {
    let wire: Arc<ServerProtocol> = Arc::new(wire());
    let send = |message: Value, revision: Option<&str>| {
        wire.receive(message.to_string().into(), revision.map(|date| date.parse().unwrap()))
    };
    call(send(modern(1, "tools/list", json!({})), None));
    let audio = || wharf_model::ToolResult::new([wharf_model::Content::audio("x", "audio/wav")]);
    for (version, kind) in [(None, "audio"), (Some("2024-11-05"), "resource")] {
        let (_, codec) = call(send(request(1, "tools/call", json!({"name": "a"})), version));
        assert_eq!(encoded(&codec, audio()).0["result"]["content"][0]["type"], kind);
    }
    let (_, codec) = call(send(initialize("2025-06-18", json!({})), None));
    let answer = encoded(&codec, wharf_model::Reply::Discover(Box::new(discovery()))).0;
    assert_eq!(answer["result"]["protocolVersion"], "2025-06-18");
    assert_eq!(
        error(send(request(1, "resources/subscribe", json!({"uri": "a:b"})), None)).1,
        -32601
    );
    assert_eq!(
        error(send(request(1, "logging/setLevel", json!({"level": "info"})), None)).1,
        -32601
    );
    // A header with a modern revision makes the request modern.
    let (_, code, status) = error(send(request(1, "tools/list", json!({})), Some(MODERN)));
    assert_eq!((code, status), (-32602, 400));
    let answer = json!({"jsonrpc": "2.0", "id": 3, "result": {}});
    assert!(matches!(send(answer.clone(), None), Received::Answer(3, Ok(_))));
    assert_eq!(error(send(answer, Some(MODERN))).1, -32600);
    let batch = json!([request(1, "ping", json!({})), request(2, "ping", json!({}))]);
    assert!(matches!(send(batch.clone(), None), Received::Batch(each) if each.len() == 2));
    assert_eq!(error(send(batch, Some("2025-06-18"))).1, -32600);
}

#[test]
fn public_types_are_send() {
    fn assert_send<T: Send + 'static>() {}
    assert_send::<wharf_wire::Codec>();
    assert_send::<Connection>();
    assert_send::<Received>();
}
