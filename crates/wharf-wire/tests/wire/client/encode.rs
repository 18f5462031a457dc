//! Messages of a client, in every revision.

use wharf_model::{
    ElicitationCapability, ErrorKind, LiveSubscriptionFilter, LogLevel, Method, Outcome, Reply,
    RequestBuilder, SubscriptionFilter,
};
use wharf_wire::{
    AllowedRevisions, Negotiation, NegotiationEvent, NegotiationStep, Received, TransportKind,
};

use super::*;

/// Returns the expected capabilities and client info in each revision.
fn expected_identity(version: &str) -> (Value, Value) {
    let bare = json!({"name": "client", "version": "1"});
    let titled = json!({"name": "client", "version": "1", "title": "Client"});
    let full = serde_json::to_value(full_identity().info).unwrap();
    // Capabilities are not a closed set: every revision has extensions.
    let first = json!({"roots": {"listChanged": true}, "sampling": {},
        "extensions": {"com.example/x": {}}, "experimental": {"y": {}}});
    match version {
        "2024-11-05" | "2025-03-26" => (first, bare),
        "2025-06-18" => (
            json!({"roots": {"listChanged": true}, "sampling": {}, "elicitation": {},
                "extensions": {"com.example/x": {}}, "experimental": {"y": {}}}),
            titled,
        ),
        "2025-11-25" => (
            json!({"roots": {"listChanged": true}, "sampling": {"tools": {}, "context": {}},
                "elicitation": {"form": {}, "url": {}}, "tasks": {"list": {}},
                "extensions": {"com.example/x": {}}, "experimental": {"y": {}}}),
            full,
        ),
        _ => (
            json!({"roots": {}, "sampling": {"tools": {}, "context": {}}, "elicitation": {"form": {}, "url": {}},
                "extensions": {"com.example/x": {}}, "experimental": {"y": {}}}),
            full,
        ),
    }
}

/// Returns the metadata of every modern request.
fn modern_meta() -> Value {
    let (capabilities, info) = expected_identity(MODERN);
    json!({
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": capabilities,
        "io.modelcontextprotocol/clientInfo": info,
    })
}

fn first_message(client: ClientIdentity, version: &str) -> Value {
    let pin = AllowedRevisions::One(revision(version));
    let mut negotiation = Negotiation::new(Arc::new(client), TransportKind::Lines, pin, None);
    match negotiation.start() {
        NegotiationStep::Send { message, .. } => parse(&message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn client_info_is_written_as_the_revision_has_it() {
    for version in LEGACY {
        let (capabilities, info) = expected_identity(version);
        let params =
            json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": info});
        let message = first_message(full_identity(), version);
        assert_eq!(message, request(1, "initialize", params), "{version}");
        // A server accepts it, and reads the capabilities of the revision.
        let (read, _) = call(connection().receive(message.to_string().into()));
        assert_eq!(read.peer().info.as_ref().unwrap().name, "client");
    }
    let params = json!({"_meta": modern_meta()});
    assert_eq!(first_message(full_identity(), MODERN), request(1, "server/discover", params));
}

#[test]
fn elicitation_without_modes_means_forms() {
    for (declared, before, since) in [
        (
            json!({"elicitation": {"form": {}}}),
            json!({"elicitation": {}}),
            json!({"elicitation": {"form": {}}}),
        ),
        (json!({"elicitation": {"url": {}}}), json!({}), json!({"elicitation": {"url": {}}})),
        (
            json!({"elicitation": {}}),
            json!({"elicitation": {}}),
            json!({"elicitation": {"form": {}}}),
        ),
        (json!({}), json!({}), json!({})),
    ] {
        let client = || ClientIdentity {
            info: Implementation::new("c", "1"),
            capabilities: serde_json::from_value(declared.clone()).unwrap(),
            ..ClientIdentity::default()
        };
        let told = |version| first_message(client(), version)["params"]["capabilities"].take();
        assert_eq!(told("2025-03-26"), json!({}));
        assert_eq!((told("2025-06-18"), told("2025-11-25")), (before, since.clone()));
        let meta = &first_message(client(), MODERN)["params"]["_meta"];
        assert_eq!(meta["io.modelcontextprotocol/clientCapabilities"], since);
    }
    let none = ClientIdentity {
        capabilities: ClientCapabilities::default().elicitation(ElicitationCapability::default()),
        ..ClientIdentity::default()
    };
    assert_eq!(first_message(none, "2025-11-25")["params"]["capabilities"], json!({}));
}

fn calls() -> [(Method, Value); 8] {
    [
        (Method::ListTools, json!({"cursor": "c"})),
        (Method::CallTool, json!({"name": "t", "arguments": {"a": [1, {"b": null}]}})),
        (Method::ListResources, json!({})),
        (Method::ListTemplates, json!({"cursor": "ä\"\n"})),
        (Method::ReadResource, json!({"uri": "a:b"})),
        (Method::ListPrompts, json!({})),
        (Method::GetPrompt, json!({"name": "p", "arguments": {"x": "y"}})),
        (
            Method::Complete,
            json!({"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": ""}}),
        ),
    ]
}

/// Builds a call with these parameters.
fn build(method: Method, params: &Value) -> RequestBuilder {
    let mut builder = RequestBuilder::new(method);
    for (name, value) in params.as_object().unwrap() {
        builder = builder.param(name, &value.to_string());
    }
    builder
}

#[test]
fn calls_in_every_revision() {
    for (method, params) in calls() {
        for version in LEGACY {
            let message = written(|out| {
                full_client_codec(revision(version))
                    .call(&build(method, &params).build(), &id(5), out)
                    .unwrap();
            });
            assert_eq!(message, request(5, method.name(), params.clone()), "{version}");
        }
        let message = written(|out| {
            full_client_codec(revision(MODERN))
                .call(&build(method, &params).build(), &id(5), out)
                .unwrap();
        });
        let mut params = params;
        params["_meta"] = modern_meta();
        assert_eq!(message, request(5, method.name(), params));
    }
}

#[test]
fn options_of_a_call_are_written() {
    let params = json!({"name": "t", "inputResponses": {"k": {}}, "requestState": "s", "context": {"arguments": {}}});
    let meta = json!({
        "com.example/k": [1], "progressToken": "theirs", "io.modelcontextprotocol/logLevel": "alert",
        "io.modelcontextprotocol/protocolVersion": "1999-01-01",
        "io.modelcontextprotocol/clientCapabilities": {"roots": {}},
        "io.modelcontextprotocol/clientInfo": {"name": "other", "version": "0"},
    });
    for version in LEGACY.into_iter().chain([MODERN]) {
        for (progress, level) in [(true, Some(LogLevel::Debug)), (false, None)] {
            let mut call = build(Method::CallTool, &params).meta(&meta.to_string()).build();
            (call.progress, call.log_level) = (progress, level);
            let mut message = written(|out| {
                full_client_codec(revision(version)).call(&call, &id(9), out).unwrap()
            });
            let mut expected = json!({"com.example/k": [1]});
            if progress {
                expected["progressToken"] = 9.into();
            }
            let rest = match version {
                MODERN => {
                    for (key, value) in modern_meta().as_object().unwrap() {
                        expected[key] = value.clone();
                    }
                    let level = level.map_or("alert", LogLevel::as_str);
                    expected["io.modelcontextprotocol/logLevel"] = level.into();
                    params.clone()
                }
                "2025-06-18" | "2025-11-25" => json!({"name": "t", "context": {"arguments": {}}}),
                _ => json!({"name": "t"}),
            };
            assert_eq!(message["params"]["_meta"], expected, "{version}");
            message["params"].as_object_mut().unwrap().remove("_meta");
            assert_eq!(message["params"], rest, "{version}");
        }
    }
}

#[test]
fn a_listen_carries_its_filter() {
    let mut listen = RequestBuilder::new(Method::Listen).build();
    listen.filter = Some(LiveSubscriptionFilter::new(SubscriptionFilter::default().tools(true)));
    let message = written(|out| client_codec(revision(MODERN)).call(&listen, &id(1), out).unwrap());
    assert_eq!(message["params"]["notifications"], json!({"toolsListChanged": true}));
    // Parameters that are present already are not written twice.
    let params = json!({"notifications": {"promptsListChanged": true}});
    let mut listen = build(Method::Listen, &params).build();
    listen.filter = Some(LiveSubscriptionFilter::default());
    let message = written(|out| client_codec(revision(MODERN)).call(&listen, &id(1), out).unwrap());
    assert_eq!(message["params"]["notifications"], params["notifications"]);
}

#[test]
fn fields_that_a_revision_does_not_have_are_not_written() {
    for version in LEGACY {
        for method in [Method::Listen, Method::Discover] {
            let mut out = b"before".to_vec();
            let call = RequestBuilder::new(method).build();
            let error = client_codec(revision(version)).call(&call, &id(1), &mut out).unwrap_err();
            assert_eq!((error.kind, &*out), (ErrorKind::MethodNotFound, &b"before"[..]));
            assert!(error.message.contains(version), "{error}");
        }
    }
    for method in [Method::Elicit, Method::Sample, Method::ListRoots] {
        for revision in Revision::ALL {
            let call = RequestBuilder::new(method).build();
            assert!(client_codec(revision).call(&call, &id(1), &mut Vec::new()).is_err());
        }
    }
}

#[test]
fn malformed_parameters_are_not_written() {
    let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
    for revision in Revision::ALL {
        for arguments in ["{", "", "1 2", "{\"a\":}", "\"\n\"", &deep] {
            let call =
                RequestBuilder::new(Method::CallTool).target("t").arguments(arguments).build();
            let mut out = b"before".to_vec();
            let error = client_codec(revision).call(&call, &id(1), &mut out).unwrap_err();
            assert_eq!(
                (error.kind, &*out),
                (ErrorKind::InvalidParams, &b"before"[..]),
                "{arguments}"
            );
        }
        for params in
            ["", "[]", "null", "5", "{\"a\":1", "{\"_meta\":5}", "{\"_meta\":[]}", "{} {}"]
        {
            let mut out = Vec::new();
            let error =
                client_codec(revision).request("m", Some(params), &id(1), &mut out).unwrap_err();
            assert_eq!((error.kind, out.len()), (ErrorKind::InvalidParams, 0), "{params}");
        }
    }
}

#[test]
fn any_request_by_name() {
    let params = "{\n\"a\" : [1],\r\n\"_meta\":{\"k\":1,\"progressToken\":true,\"io.modelcontextprotocol/logLevel\":\"info\"}}";
    for version in LEGACY {
        let client_codec = full_client_codec(revision(version));
        let bare = written(|out| client_codec.request("x/y", None, &id(3), out).unwrap());
        assert_eq!(bare, json!({"jsonrpc": "2.0", "id": 3, "method": "x/y"}));
        let full =
            written(|out| client_codec.request("x/\"y\"", Some(params), &id(3), out).unwrap());
        let meta = json!({"k": 1, "progressToken": 3});
        assert_eq!(full, request(3, "x/\"y\"", json!({"a": [1], "_meta": meta})));
    }
    let client_codec = full_client_codec(revision(MODERN));
    let bare = written(|out| client_codec.request("x/y", None, &id(3), out).unwrap());
    assert_eq!(bare, request(3, "x/y", json!({"_meta": modern_meta()})));
    let mut meta = modern_meta();
    (meta["k"], meta["progressToken"]) = (1.into(), 3.into());
    meta["io.modelcontextprotocol/logLevel"] = "info".into();
    let full = written(|out| client_codec.request("x/y", Some(params), &id(3), out).unwrap());
    assert_eq!(full, request(3, "x/y", json!({"a": [1], "_meta": meta})));
    let nothing =
        written(|out| client_codec.request("x/y", Some(r#"{"_meta":null}"#), &id(3), out).unwrap());
    assert_eq!(nothing, bare);
}

#[test]
fn log_level_subscriptions_and_roots() {
    let written_message = |write: &dyn Fn(&mut Vec<u8>) -> bool| {
        let mut out = Vec::new();
        let written = write(&mut out);
        assert_eq!(written, !out.is_empty());
        written.then(|| parse(&out))
    };
    for version in LEGACY {
        let client_codec = full_client_codec(revision(version));
        let ping = written(|out| client_codec.ping(&id(2), out));
        assert_eq!(ping, json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}));
        let level =
            written_message(&|out| client_codec.set_log_level(LogLevel::Notice, &id(2), out));
        assert_eq!(level, Some(request(2, "logging/setLevel", json!({"level": "notice"}))));
        for (on, method) in [(true, "resources/subscribe"), (false, "resources/unsubscribe")] {
            let message =
                written_message(&|out| client_codec.subscribe("a:\"b\"", on, &id(2), out));
            assert_eq!(message, Some(request(2, method, json!({"uri": "a:\"b\""}))));
        }
        let changed = json!({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"});
        assert_eq!(written_message(&|out| client_codec.roots_changed(out)), Some(changed));
        let rootless = ClientCodec::new(revision(version), Arc::default());
        assert_eq!(written_message(&|out| rootless.roots_changed(out)), None);
    }
    let client_codec = full_client_codec(revision(MODERN));
    let ping = written(|out| client_codec.ping(&id(2), out));
    assert_eq!(ping, request(2, "server/discover", json!({"_meta": modern_meta()})));
    assert_eq!(
        written_message(&|out| client_codec.set_log_level(LogLevel::Notice, &id(2), out)),
        None
    );
    assert_eq!(written_message(&|out| client_codec.subscribe("a:b", true, &id(2), out)), None);
    assert_eq!(written_message(&|out| client_codec.roots_changed(out)), None);
}

#[test]
fn cancellation_and_ping_responses() {
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        let given_up = written(|out| client_codec.cancelled(&id(4), "no\nmore", out));
        let params = json!({"requestId": 4, "reason": "no\nmore"});
        assert_eq!(given_up, notification("notifications/cancelled", params));
        let pong = written(|out| client_codec.pong(&id(4), out));
        assert_eq!(pong, json!({"jsonrpc": "2.0", "id": 4, "result": {}}));
    }
}

/// A client and a server of ours, from the handshake to the end.
#[test]
fn client_and_server_interoperate() {
    for revision in Revision::ALL {
        let mut connection = connection();
        let client = Arc::new(full_identity());
        let mut negotiation =
            Negotiation::new(client, TransportKind::Lines, AllowedRevisions::One(revision), None);
        let NegotiationStep::Send { message, .. } = negotiation.start() else { panic!() };
        let (_, codec) = call(connection.receive(message.into()));
        let (answer, _) = encoded(&codec, Reply::Discover(Box::new(discovery())));
        let ServerMessage::Reply { id: Some(to), result } = decode(&negotiation.codec(), &answer)
        else {
            panic!()
        };
        let step = negotiation.answered(NegotiationEvent::Reply(to, result.as_deref()));
        let NegotiationStep::Open { codec: client_codec, info, discovery: read, then, .. } = step
        else {
            panic!("{step:?}")
        };
        assert_eq!((client_codec.revision(), &*info.name), (revision, "harbour"));
        assert!(read.capabilities.tools.is_some() && read.capabilities.completions);
        if let Some(then) = then {
            assert!(matches!(connection.receive(then.into()), Received::Call(..)));
        }
        let mut out = Vec::new();
        client_codec
            .call(&RequestBuilder::new(Method::CallTool).target("t").build(), &id(20), &mut out)
            .unwrap();
        let (_, codec) = call(connection.receive(out.into()));
        let (answer, _) = encoded(&codec, Outcome::from(Error::tool_not_found("t")));
        let (to, result) = reply_in(&client_codec, &answer);
        assert_eq!((to, result.unwrap_err().kind), (Some(id(20)), ErrorKind::ToolNotFound));
    }
}
