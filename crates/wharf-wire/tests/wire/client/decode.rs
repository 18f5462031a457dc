//! Replies, notifications and requests of a server.

use wharf_model::{ClientRequest, ErrorKind, LogLevel, Notification, SubscriptionFilter};
use wharf_wire::ServerNotification;

use super::*;

#[test]
fn replies() {
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        for (sent, json) in [(json!(7), "7"), (json!("7"), "\"7\""), (json!("a\"b"), r#""a\"b""#)] {
            let message = json!({"jsonrpc": "2.0", "id": sent, "result": {"a": [1]}});
            let (to, result) = reply_in(&client_codec, &message);
            assert_eq!((to.unwrap().as_json(), &*result.unwrap()), (json, r#"{"a":[1]}"#));
        }
        // A string id differs from a number.
        let (to, _) = reply_in(&client_codec, &json!({"jsonrpc": "2.0", "id": "7", "result": {}}));
        assert_ne!(to, Some(id(7)));
        for error in [
            json!({"jsonrpc": "2.0", "id": null, "error": {"code": -32700, "message": "m"}}),
            json!({"jsonrpc": "2.0", "error": {"code": -32700, "message": "m"}}),
        ] {
            let (to, result) = reply_in(&client_codec, &error);
            assert_eq!((to, result.unwrap_err().kind), (None, ErrorKind::ParseError));
        }
        // Some servers write `null` for absent fields.
        let (_, result) = reply_in(
            &client_codec,
            &json!({"jsonrpc": "2.0", "id": 1, "result": {}, "error": null}),
        );
        assert!(result.is_ok());
        let (_, result) = reply_in(
            &client_codec,
            &json!({"jsonrpc": "2.0", "id": 1, "result": null, "error": {"code": -32601}}),
        );
        assert!(result.unwrap_err().kind.is_method_not_found());
        for odd in [
            json!({"result": {}, "error": {}}),
            json!({"result": null}),
            json!({"error": null}),
            json!({"result": null, "error": null}),
        ] {
            let mut message = json!({"jsonrpc": "2.0", "id": 1});
            message.as_object_mut().unwrap().extend(odd.as_object().unwrap().clone());
            let (to, result) = reply_in(&client_codec, &message);
            assert_eq!((to, result.unwrap_err().kind), (Some(id(1)), ErrorKind::ValidationFailed));
        }
    }
}

#[test]
fn unreadable_messages_are_errors() {
    let long = "x".repeat(2000);
    let messages = [
        json!(null),
        json!(5),
        json!("x"),
        json!({}),
        json!({"jsonrpc": "2.0"}),
        json!({"jsonrpc": "2.0", "id": 1}),
        json!({"id": 1, "result": {}}),
        json!({"jsonrpc": "1.0", "id": 1, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1.5, "result": {}}),
        json!({"jsonrpc": "2.0", "id": [1], "result": {}}),
        json!({"jsonrpc": "2.0", "id": true, "result": {}}),
        json!({"jsonrpc": "2.0", "id": long, "result": {}}),
        json!({"jsonrpc": "2.0", "id": 1, "method": 5}),
        json!({"jsonrpc": "2.0", "method": null}),
        json!({"jsonrpc": "2.0", "id": null, "method": "ping"}),
        json!({"jsonrpc": "2.0", "id": 1, "method": "ping", "result": {}}),
    ];
    let texts = [
        "",
        " ",
        "{",
        "nul",
        "{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}",
        "{} {}",
        "\u{feff}{}",
        r#"{"jsonrpc":"2.0","id":1,"id":2,"result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":{},"r\u0065sult":{}}"#,
        r#"{"jsonrpc":"2.0","id":"\ud800","result":{}}"#,
    ];
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        for text in messages.iter().map(Value::to_string).chain(texts.map(str::to_owned)) {
            let error = client_codec.decode(text.clone().into()).unwrap_err();
            assert!(
                error.kind.is_parse_error() || error.kind.is_invalid_request(),
                "{text}: {error}"
            );
        }
        assert!(
            client_codec
                .decode((&b"{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":\"\xff\"}"[..]).into())
                .is_err()
        );
    }
}

#[test]
fn messages_nested_too_deeply_are_errors() {
    let nested = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        let decode = |text: String| client_codec.decode(text.into()).unwrap().remove(0);
        let reply = |levels| format!(r#"{{"jsonrpc":"2.0","result":{},"id":5}}"#, nested(levels));
        assert!(matches!(decode(reply(127)), ServerMessage::Reply { result: Ok(_), .. }));
        for levels in [128, 100_000] {
            // The pending request must receive the error.
            let ServerMessage::Reply { id: Some(to), result: Err(error) } = decode(reply(levels))
            else {
                panic!()
            };
            assert_eq!((to, error.kind), (id(5), ErrorKind::ValidationFailed));
            let params = format!(r#""params":{{"x":{}}}"#, nested(levels));
            let requests =
                decode(format!(r#"{{"jsonrpc":"2.0","id":5,"method":"roots/list",{params}}}"#));
            assert!(
                matches!(requests, ServerMessage::Refused { error, .. } if error.kind.is_invalid_params())
            );
            let told = decode(format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/tools/list_changed",{params}}}"#
            ));
            assert!(matches!(told, ServerMessage::Ignored));
        }
    }
}

#[test]
fn batches() {
    let batch = json!([
        {"jsonrpc": "2.0", "id": 1, "result": {}}, 5, {"jsonrpc": "2.0", "id": 2, "method": "ping"},
        {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}, [],
        {"jsonrpc": "2.0", "id": 3, "error": {"code": -32601, "message": "no"}},
    ]);
    for version in LEGACY.into_iter().chain([MODERN]) {
        let decoded = client_codec(revision(version)).decode(format!("\n {batch} ").into());
        if version != "2025-03-26" {
            assert!(decoded.unwrap_err().kind.is_invalid_request(), "{version}");
            continue;
        }
        use ServerMessage::{Ignored, Ping, Reply, ServerNotification as News};
        let decoded = decoded.unwrap();
        let [
            Reply { result: Ok(_), .. },
            Ignored,
            Ping { .. },
            News(_),
            Ignored,
            Reply { result: Err(_), .. },
        ] = &decoded[..]
        else {
            panic!("{decoded:?}")
        };
    }
    let client_codec = client_codec(revision("2025-03-26"));
    assert!(client_codec.decode("[]".into()).unwrap().is_empty());
    assert!(client_codec.decode("[1,".into()).unwrap_err().kind.is_parse_error());
    let vast = format!("[{}0]", "0,".repeat(10_000));
    assert!(client_codec.decode(vast.into()).unwrap_err().kind.is_content_too_large());
}

fn decode_notification(
    client_codec: &ClientCodec,
    method: &str,
    params: Value,
) -> Option<ServerNotification> {
    match decode(client_codec, &notification(method, params)) {
        ServerMessage::ServerNotification(decoded) => Some(decoded),
        ServerMessage::Ignored => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn progress() {
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        let told = |params| decode_notification(&client_codec, "notifications/progress", params);
        for (token, json) in [(json!(7), "7"), (json!("7"), "\"7\""), (json!("\u{e4}"), "\"ä\"")] {
            let it =
                told(json!({"progressToken": token, "progress": 1, "total": 2.5, "message": "m"}))
                    .unwrap();
            let Notification::Progress { progress, total, message } = it.notification else {
                panic!()
            };
            assert_eq!((progress, total, message.as_deref()), (1.0, Some(2.5), Some("m")));
            assert_eq!(it.token.unwrap().as_json(), json);
        }
        let odd = told(json!({"progressToken": [1], "progress": 0.5, "future": {}})).unwrap();
        assert!(odd.token.is_none());
        assert!(told(json!({"progressToken": 1})).is_none());
        assert!(told(json!({"progressToken": 1, "progress": "much"})).is_none());
        assert!(told(json!([])).is_none() && told(json!([0.5, null, null])).is_none());
    }
}

#[test]
fn log_messages() {
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        let told = |params| decode_notification(&client_codec, "notifications/message", params);
        for (level, expected) in [
            ("debug", LogLevel::Debug),
            ("emergency", LogLevel::Emergency),
            ("loud", LogLevel::Info),
        ] {
            let it = told(json!({"level": level, "logger": "l", "data": {"message": 5}})).unwrap();
            let Notification::Log { level, logger, data } = it.notification else { panic!() };
            assert_eq!(
                (level, logger.as_deref(), data.get()),
                (expected, Some("l"), r#"{"message":5}"#)
            );
        }
        assert!(told(json!({"level": "info", "data": null})).is_some());
        assert!(told(json!({"level": "info"})).is_none());
        assert!(told(json!({"data": 1})).is_none());
    }
}

#[test]
fn changes() {
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        let bare = json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"});
        assert!(matches!(decode(&client_codec, &bare), ServerMessage::ServerNotification(_)));
        let meta = json!({"io.modelcontextprotocol/subscriptionId": 7});
        let told = |method: &str, mut params: Value| {
            params["_meta"] = meta.clone();
            let it =
                decode_notification(&client_codec, &format!("notifications/{method}"), params)?;
            assert_eq!(it.subscription.unwrap().as_json(), "7");
            Some(it.notification)
        };
        use Notification::*;
        assert!(matches!(told("tools/list_changed", json!({})), Some(ToolsChanged)));
        assert!(matches!(told("prompts/list_changed", json!({"x": 1})), Some(PromptsChanged)));
        assert!(matches!(
            told("resources/list_changed", json!({"uri": 5})),
            Some(ResourcesChanged)
        ));
        let updated = told("resources/updated", json!({"uri": "a:b", "title": "t"}));
        assert!(matches!(updated, Some(ResourceUpdated { uri }) if &*uri == "a:b"));
        let done = told("elicitation/complete", json!({"elicitationId": "e"}));
        assert!(matches!(done, Some(ElicitationComplete { id }) if id == "e"));
        let agreed = told(
            "subscriptions/acknowledged",
            json!({"notifications": {"toolsListChanged": true, "future": 1}}),
        );
        let wanted = SubscriptionFilter::default().tools(true);
        assert!(matches!(agreed, Some(Acknowledged(filter)) if filter == wanted));
        for (method, params) in [
            ("resources/updated", json!({})),
            ("resources/updated", json!({"uri": 5})),
            ("elicitation/complete", json!({})),
            ("subscriptions/acknowledged", json!({})),
            ("tasks/status", json!({})),
            ("future", json!({})),
            ("initialized", json!({})),
        ] {
            assert!(told(method, params).is_none(), "{method}");
        }
    }
}

#[test]
fn cancelled_server_requests() {
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        for (sent, json) in [(json!(3), "3"), (json!("q"), "\"q\"")] {
            let params = json!({"requestId": sent, "reason": "r"});
            let told = decode(&client_codec, &notification("notifications/cancelled", params));
            assert!(matches!(told, ServerMessage::Cancelled { id } if id.as_json() == json));
        }
        for params in [json!({}), json!({"requestId": null}), json!({"requestId": [1]}), json!([])]
        {
            let told = decode(&client_codec, &notification("notifications/cancelled", params));
            assert!(matches!(told, ServerMessage::Ignored));
        }
    }
}

/// Decodes a server request: the request, or the kind of the error.
fn decode_client_request(
    version: &str,
    method: &str,
    params: Value,
) -> Result<ClientRequest, ErrorKind> {
    match decode(&client_codec(revision(version)), &request("q", method, params)) {
        ServerMessage::ClientRequest { id, ask } if id.as_json() == "\"q\"" => Ok(ask),
        ServerMessage::Refused { id, error } if id.as_json() == "\"q\"" => Err(error.kind),
        other => panic!("{other:?}"),
    }
}

#[test]
fn client_requests_by_revision() {
    use ErrorKind::{InvalidParams, MethodNotFound};
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": {}}});
    let moded = json!({"mode": "form", "message": "m", "requestedSchema": {"type": "object"}});
    let url = json!({"mode": "url", "message": "m", "url": "https://x/y", "elicitationId": "e"});
    let sample = json!({"messages": [{"role": "robot", "content": {"type": "hologram", "x": 1}}], "maxTokens": 5});
    for version in LEGACY {
        let elicits = version >= "2025-06-18";
        assert_eq!(
            decode_client_request(version, "roots/list", json!({})),
            Ok(ClientRequest::Roots)
        );
        let Ok(ClientRequest::Sample(it)) =
            decode_client_request(version, "sampling/createMessage", sample.clone())
        else {
            panic!()
        };
        assert_eq!(serde_json::to_value(&*it).unwrap(), sample, "what is unknown survives");
        for form in [&form, &moded] {
            let it = decode_client_request(version, "elicitation/create", form.clone());
            assert_eq!(matches!(it, Ok(ClientRequest::Elicit(_))), elicits, "{version}");
            assert!(elicits || it == Err(MethodNotFound));
        }
        let it = decode_client_request(version, "elicitation/create", url.clone());
        match version {
            "2025-11-25" => {
                assert!(
                    matches!(it, Ok(ClientRequest::ElicitUrl(it)) if it.id.as_deref() == Some("e"))
                )
            }
            "2025-06-18" => assert_eq!(it, Err(InvalidParams)),
            _ => assert_eq!(it, Err(MethodNotFound)),
        }
        for method in ["tools/call", "tasks/list", "server/discover", "initialize", "", "x"] {
            assert_eq!(
                decode_client_request(version, method, json!({})),
                Err(MethodNotFound),
                "{method}"
            );
        }
        for params in [
            json!({}),
            json!([]),
            json!({"messages": [], "maxTokens": -1}),
            json!({"messages": 5, "maxTokens": 1}),
        ] {
            assert_eq!(
                decode_client_request(version, "sampling/createMessage", params),
                Err(InvalidParams)
            );
        }
    }
    for params in [
        json!({"mode": "telepathy", "message": "m"}),
        json!({"mode": 5}),
        json!({"message": "m"}),
        json!([]),
    ] {
        assert_eq!(
            decode_client_request("2025-11-25", "elicitation/create", params),
            Err(InvalidParams)
        );
    }
    // In the modern era, client requests come in results.
    for (method, params) in [
        ("roots/list", json!({})),
        ("sampling/createMessage", sample),
        ("elicitation/create", moded),
    ] {
        assert_eq!(decode_client_request(MODERN, method, params), Err(MethodNotFound));
    }
}

/// Audit 8: a tree would take 65 times the memory of its text, for a request that the program may not even
/// handle.
#[test]
fn requests_with_too_many_values_are_refused() {
    let dense = json!(vec![json!({"": 0}); 50_000]);
    for (method, params) in [
        ("elicitation/create", json!({"message": "m", "requestedSchema": {"x": dense}})),
        ("sampling/createMessage", json!({"messages": [], "maxTokens": 1, "metadata": dense})),
    ] {
        let decoded =
            decode(&client_codec(Revision::NEWEST_LEGACY), &request("q", method, params.clone()));
        let ServerMessage::Refused { error, .. } = decoded else { panic!("{method}") };
        assert!(error.message.contains("50000 values"), "{error}");
        let requests = json!({"a": {"method": method, "params": params}});
        let result = json!({"resultType": "input_required", "inputRequests": requests});
        let read = client_codec(revision(MODERN))
            .result(wharf_model::Method::CallTool, &result.to_string());
        assert!(read.unwrap_err().message.contains("50000 values"));
    }
    // Several requests together count like one.
    let form = json!({"message": "m", "requestedSchema": {"x": vec![0; 40_000]}});
    let one = json!({"method": "elicitation/create", "params": form});
    let all: serde_json::Map<String, Value> =
        (0..10).map(|number| (number.to_string(), one.clone())).collect();
    let result = json!({"resultType": "input_required", "inputRequests": all});
    let read =
        client_codec(revision(MODERN)).result(wharf_model::Method::CallTool, &result.to_string());
    assert!(read.unwrap_err().kind.is_content_too_large());
}

#[test]
fn pings() {
    for revision in Revision::ALL {
        for message in [
            json!({"jsonrpc": "2.0", "id": "p", "method": "ping"}),
            request("p", "ping", json!({})),
        ] {
            let decoded = decode(&client_codec(revision), &message);
            assert!(matches!(decoded, ServerMessage::Ping { id } if id.as_json() == "\"p\""));
        }
    }
}

/// The client decodes the requests of our server.
#[test]
fn input_requests_are_read_back() {
    use wharf_model::{ElicitForm, ElicitUrl, SamplingMessage, SamplingRequest};
    let capabilities = json!({"roots": {}, "sampling": {}, "elicitation": {"form": {}, "url": {}}});
    let schema = json!({"type": "object", "properties": {"name": {"type": "string"}}});
    let asks = [
        ClientRequest::Roots,
        ClientRequest::Sample(Box::new(
            SamplingRequest::new(5).message(SamplingMessage::user("hi")),
        )),
        ClientRequest::Elicit(Box::new(ElicitForm::new("m", schema))),
        ClientRequest::ElicitUrl(Box::new(ElicitUrl::new("m", "https://x/y").id("e"))),
    ];
    for version in LEGACY {
        let codec = codec_for(version, capabilities.clone(), "tools/call", json!({"name": "t"}));
        for ask in &asks {
            let mut out = Vec::new();
            if !codec.ask(40, ask, &mut out) {
                continue;
            }
            let ServerMessage::ClientRequest { id: of, ask: read } =
                decode(&client_codec(revision(version)), &parse(&out))
            else {
                panic!()
            };
            assert_eq!((of, &read), (id(40), ask), "{version}");
            out.clear();
            codec.withdraw(40, &mut out);
            let taken_back = decode(&client_codec(revision(version)), &parse(&out));
            assert!(matches!(taken_back, ServerMessage::Cancelled { id: of } if of == id(40)));
        }
    }
}
