//! Legacy sessions, from `initialize` on.

use std::sync::Arc;

use crate::common::*;
use serde_json::json;
use wharf_model::{
    Caller, ChangeVersion, ClientCapability, Discovery, ErrorKind, LogLevel, Method, Notification,
    Reply, SubscriptionFilter,
};
use wharf_wire::{CallId, Connection, MessageLimits, Received};

#[test]
fn negotiation() {
    for (asked, agreed) in [
        ("2024-11-05", "2024-11-05"),
        ("2025-03-26", "2025-03-26"),
        ("2025-06-18", "2025-06-18"),
        ("2025-11-25", "2025-11-25"),
        ("2026-07-28", "2025-11-25"),
        ("1.0", "2025-11-25"),
        ("", "2025-11-25"),
    ] {
        let answer = open(&mut connection(), asked);
        assert_eq!(answer["result"]["protocolVersion"], agreed, "{asked}");
        assert!(
            answer["result"].get("resultType").is_none() && answer["result"].get("ttlMs").is_none()
        );
        assert_eq!(answer["result"]["instructions"], "Be kind");
    }
}

#[test]
fn the_initialize_result_is_limited_to_the_revision() {
    for (version, completions, server) in [
        ("2024-11-05", false, json!({"name": "harbour", "version": "1.0.0"})),
        ("2025-03-26", true, json!({"name": "harbour", "version": "1.0.0"})),
        ("2025-06-18", true, json!({"name": "harbour", "version": "1.0.0", "title": "Harbour"})),
        (
            "2025-11-25",
            true,
            json!({"name": "harbour", "version": "1.0.0", "title": "Harbour", "description": "Ships"}),
        ),
    ] {
        let answer = open(&mut connection(), version);
        let capabilities = &answer["result"]["capabilities"];
        assert_eq!(capabilities.get("completions").is_some(), completions, "{version}");
        assert_eq!(capabilities["extensions"], json!({"com.example/x": {}}), "{version}");
        assert_eq!(capabilities["tools"], json!({"listChanged": true}));
        assert_eq!(answer["result"]["serverInfo"], server);
    }
}

#[test]
fn before_initialize_only_ping_is_answered() {
    let mut connection = connection();
    assert_eq!(
        reply(receive(&mut connection, &request(1, "ping", json!({})))).0["result"],
        json!({})
    );
    for method in ["tools/list", "logging/setLevel", "resources/subscribe", "completion/complete"] {
        let (message, code, status) =
            error(receive(&mut connection, &request(1, method, json!({}))));
        assert_eq!((code, status), (-32602, 200), "{method}");
        assert_eq!(message["error"]["data"]["reason"], "not_initialized");
        let text = message["error"]["message"].as_str().unwrap();
        assert!(text.contains("`initialize`") && text.contains("_meta"), "{text}");
    }
    assert_eq!(error(receive(&mut connection, &request(1, "no/such", json!({})))).1, -32601);
    assert!(matches!(
        receive(&mut connection, &notification("notifications/initialized", json!({}))),
        Received::Ignore
    ));
}

#[test]
fn initialize_comes_once_unless_it_failed() {
    let mut connection = connection();
    let again = initialize("2025-06-18", json!({}));
    let bad = request(1, "initialize", json!({"capabilities": {}}));
    assert_eq!(
        error(receive(&mut connection, &bad)).0["error"]["data"]["field"],
        "protocolVersion"
    );
    let bad = request(1, "initialize", json!({"protocolVersion": "x", "capabilities": 1}));
    assert_eq!(error(receive(&mut connection, &bad)).0["error"]["data"]["field"], "capabilities");
    let (_, codec) = call(receive(&mut connection, &again));
    let (message, _) = encoded(&codec, wharf_model::Error::new(ErrorKind::Overloaded));
    assert_eq!(message["error"]["code"], 1008);
    let early = error(receive(&mut connection, &request(1, "tools/list", json!({})))).0;
    assert_eq!(early["error"]["data"]["reason"], "not_initialized", "nothing was opened");
    let initialized = notification("notifications/initialized", json!({}));
    assert!(matches!(receive(&mut connection, &initialized), Received::Ignore));
    open(&mut connection, "2025-06-18");
    let (_, code, status) = error(receive(&mut connection, &again));
    assert_eq!((code, status), (-32600, 400));
    call(receive(&mut connection, &request(2, "tools/list", json!({}))));
}

#[test]
fn initialized_begins_the_one_silent_listen() {
    let mut connection = connection();
    open(&mut connection, "2025-11-25");
    let (request, codec) =
        call(receive(&mut connection, &notification("notifications/initialized", json!({}))));
    assert_eq!(request.method, Method::Listen);
    assert!(codec.is_silent() && codec.is_listen());
    let filter = request.filter.clone().unwrap();
    let offered = SubscriptionFilter::default().tools(true);
    assert_eq!(filter.read(SubscriptionFilter::clone), offered);
    let mut out = Vec::new();
    codec.encode(&Reply::Listened.into(), &mut out);
    codec.refuse(&ErrorKind::InternalError.into(), &mut out);
    assert!(!codec.write_listen_end(&mut out));
    assert!(out.is_empty());
    assert!(codec.notify(&Notification::ToolsChanged, &mut out));
    assert_eq!(
        parse(&out),
        json!({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
    );
    assert!(matches!(
        receive(&mut connection, &notification("notifications/initialized", json!({}))),
        Received::Ignore
    ));

    let subscribe = |it: &mut Connection, method: &str, params| {
        receive(it, &crate::common::request(3, method, params))
    };
    for uri in ["a:b", "c:d", "a:b"] {
        let (message, _) =
            reply(subscribe(&mut connection, "resources/subscribe", json!({"uri": uri})));
        assert_eq!(message, json!({"jsonrpc": "2.0", "id": 3, "result": {}}));
    }
    assert_eq!(filter.read(|it| it.uris.len()), 2);
    reply(subscribe(&mut connection, "resources/unsubscribe", json!({"uri": "a:b"})));
    assert!(filter.read(|it| it.uris.contains("c:d") && it.uris.len() == 1));
    assert_eq!(error(subscribe(&mut connection, "resources/subscribe", json!({}))).1, -32602);
}

#[test]
fn a_postponed_listen_is_due_with_a_reader_or_a_subscription() {
    let ready = notification("notifications/initialized", json!({}));
    let subscribe = request(1, "resources/subscribe", json!({"uri": "a:b"}));
    let since = ChangeVersion::FIRST.next();
    for has_reader in [true, false] {
        let mut connection = connection();
        open(&mut connection, "2025-11-25");
        assert!(connection.due_listen(true).is_none(), "it has not begun");
        call(receive(&mut connection, &ready));
        assert!(connection.due_listen(true).is_none(), "it was not put off");
        connection.postpone_listen(since);
        assert!(matches!(receive(&mut connection, &ready), Received::Ignore));
        assert!(connection.due_listen(false).is_none());
        if !has_reader {
            reply(receive(&mut connection, &subscribe));
        }
        let (request, codec) = connection.due_listen(has_reader).unwrap();
        assert!(codec.is_silent() && codec.is_listen());
        assert_eq!((request.method, request.since), (Method::Listen, Some(since)));
        let filter = request.filter.clone().unwrap();
        assert_eq!(filter.read(|it| (it.tools, it.uris.len())), (true, usize::from(!has_reader)));
        assert!(connection.due_listen(true).is_none(), "it begins once");
        reply(receive(&mut connection, &subscribe));
        assert_eq!(filter.read(|it| it.uris.len()), 1);
    }
}

#[test]
fn a_listen_with_subscriptions_is_due_before_the_client_is_ready() {
    let mut connection = connection();
    open(&mut connection, "2025-11-25");
    reply(receive(&mut connection, &request(1, "resources/subscribe", json!({"uri": "a:b"}))));
    call(receive(&mut connection, &notification("notifications/initialized", json!({}))));
    connection.postpone_listen(ChangeVersion::FIRST);
    let (request, _) = connection.due_listen(false).unwrap();
    assert!(request.filter.clone().unwrap().read(|it| it.uris.contains("a:b")));
}

#[test]
fn subscriptions_are_bounded() {
    let limits = MessageLimits::default().subscriptions(2);
    let mut connection = Connection::new(Arc::new(wire().limits(limits)));
    open(&mut connection, "2025-06-18");
    let mut subscribe = |uri: &str| {
        receive(&mut connection, &request(1, "resources/subscribe", json!({"uri": uri})))
    };
    reply(subscribe("a:1"));
    assert_eq!(reply(subscribe("a:2")).0["result"], json!({}));
    assert_eq!(error(subscribe("a:3")).1, 1004);
    assert_eq!(reply(subscribe("a:2")).0["result"], json!({}));
}

#[test]
fn subscriptions_are_bounded_in_bytes() {
    let limits = MessageLimits::default().subscription_bytes(6);
    let mut connection = Connection::new(Arc::new(wire().limits(limits)));
    open(&mut connection, "2025-06-18");
    let mut send = |verb: &str, uri: &str| {
        let method = format!("resources/{verb}");
        receive(&mut connection, &request(1, &method, json!({"uri": uri})))
    };
    reply(send("subscribe", "a:1"));
    reply(send("subscribe", "a:2"));
    assert_eq!(error(send("subscribe", "a:3")).1, 1004);
    reply(send("subscribe", "a:2"));
    reply(send("unsubscribe", "a:1"));
    reply(send("subscribe", "a:3"));
}

#[test]
fn subscriptions_of_all_sessions_share_a_budget_that_no_caller_can_exhaust() {
    let limits = MessageLimits::default().subscription_total(10_000);
    let wire = Arc::new(wire().limits(limits));
    let session = |name: &str| {
        let mut connection = Connection::new(wire.clone());
        open(&mut connection, "2025-06-18");
        connection.count_as(&Caller::Principal(name.into()));
        connection
    };
    let send = |connection: &mut Connection, verb: &str, uri: &str| {
        let message = request(1, &format!("resources/{verb}"), json!({"uri": uri}));
        receive(connection, &message)
    };
    // 100 bytes each, including the overhead of a subscription.
    let uri = |number: usize| format!("a:{number:034}");
    let mut sessions = vec![];
    let mut accepted = 0;
    let refused = loop {
        sessions.push(session("hog"));
        let hog = sessions.last_mut().unwrap();
        let answers = (0..10).map(|number| reply(send(hog, "subscribe", &uri(number))).0);
        let answers: Vec<_> = answers.collect();
        accepted += answers.iter().filter(|answer| answer.get("result").is_some()).count();
        if let Some(refused) = answers.into_iter().find(|answer| answer.get("error").is_some()) {
            break refused;
        }
        assert!(sessions.len() < 100, "there is no limit");
    };
    assert_eq!(accepted, 50, "half of all");
    assert!(refused.to_string().contains("Too many resources"), "{refused}");
    let mut alice = session("alice");
    assert_eq!(reply(send(&mut alice, "subscribe", &uri(1))).0["result"], json!({}));
    // Released budget, also of sessions that ended, is available to others.
    let hog = &mut sessions[0];
    reply(send(hog, "unsubscribe", &uri(0)));
    reply(send(hog, "unsubscribe", &uri(1)));
    assert_eq!(reply(send(hog, "subscribe", &uri(0))).0["result"], json!({}));
    drop(sessions);
    let mut hog = session("hog");
    for number in 0..40 {
        assert_eq!(reply(send(&mut hog, "subscribe", &uri(number))).0["result"], json!({}));
    }
    // A copy of the session in another process is counted there.
    let saved = hog.save().unwrap();
    let elsewhere = Arc::new(self::wire().limits(limits));
    let mut copy = Connection::restored(elsewhere.clone(), &saved, "hog").unwrap();
    copy.count_as(&Caller::Principal("hog".into()));
    for number in 40..50 {
        assert_eq!(reply(send(&mut copy, "subscribe", &uri(number))).0["result"], json!({}));
    }
    assert!(reply(send(&mut copy, "subscribe", &uri(50))).0.get("error").is_some());
}

#[test]
fn methods_without_an_announced_capability_are_unknown() {
    for version in LEGACY {
        let mut connection = connection();
        open_with(&mut connection, version, json!({}), Discovery::default());
        for (method, params) in [
            ("logging/setLevel", json!({"level": "info"})),
            ("resources/subscribe", json!({"uri": "a:b"})),
            ("resources/unsubscribe", json!({"uri": "a:b"})),
        ] {
            let (message, code, _) = error(receive(&mut connection, &request(1, method, params)));
            assert_eq!(code, -32601, "{version} {method}");
            assert_eq!(message["error"]["data"]["method"], method);
        }
        let (request, _) = call(receive(&mut connection, &request(1, "tools/list", json!({}))));
        assert_eq!(request.log_level, None);
    }
}

#[test]
fn the_log_level_holds_from_then_on() {
    let mut connection = Connection::new(Arc::new(wire().default_log_level(LogLevel::Error)));
    open(&mut connection, "2025-03-26");
    let mut level =
        || call(receive(&mut connection, &request(1, "tools/list", json!({})))).0.log_level;
    assert_eq!(level(), Some(LogLevel::Error));
    let set = |level| request(1, "logging/setLevel", json!({"level": level}));
    assert_eq!(error(receive(&mut connection, &set("loud"))).1, -32602);
    assert_eq!(
        error(receive(&mut connection, &request(1, "logging/setLevel", json!({})))).1,
        -32602
    );
    assert_eq!(reply(receive(&mut connection, &set("debug"))).0["result"], json!({}));
    let mut level =
        || call(receive(&mut connection, &request(1, "tools/list", json!({})))).0.log_level;
    assert_eq!(level(), Some(LogLevel::Debug));
}

#[test]
fn client_capabilities_are_limited_to_the_revision() {
    use ClientCapability::*;
    let all = json!({
        "roots": {"listChanged": true}, "sampling": {"tools": {}, "context": {}},
        "elicitation": {"form": {}, "url": {}},
    });
    for (version, can) in [
        ("2024-11-05", vec![Roots, Sampling, SamplingContext]),
        ("2025-03-26", vec![Roots, Sampling, SamplingContext]),
        ("2025-06-18", vec![Roots, Sampling, SamplingContext, Elicitation]),
        (
            "2025-11-25",
            vec![Roots, Sampling, SamplingContext, SamplingTools, Elicitation, ElicitationUrl],
        ),
    ] {
        let mut connection = connection();
        open_with(&mut connection, version, all.clone(), discovery());
        let (request, _) =
            call(receive(&mut connection, &request(1, "tools/call", json!({"name": "a"}))));
        let peer = request.peer();
        for wanted in [Roots, Sampling, SamplingContext, SamplingTools, Elicitation, ElicitationUrl]
        {
            assert_eq!(
                peer.capabilities.has(&wanted),
                can.contains(&wanted),
                "{version} {wanted:?}"
            );
        }
        assert_eq!(peer.info.as_ref().unwrap().name, "client");
        assert_eq!(peer.roots_generation(), 0);
        receive(&mut connection, &notification("notifications/roots/list_changed", json!({})));
        assert_eq!(peer.roots_generation(), 1);
    }
}

#[test]
fn cancellation_names_a_call_but_never_initialize() {
    let mut connection = connection();
    let cancel =
        |id: serde_json::Value| notification("notifications/cancelled", json!({"requestId": id}));
    let (_, codec) = call(receive(&mut connection, &initialize("2025-06-18", json!({}))));
    assert!(matches!(receive(&mut connection, &cancel(json!(0))), Received::Ignore));
    encoded(&codec, Reply::Discover(Box::new(discovery())));
    let (_, codec) = call(receive(&mut connection, &request("a\"b", "tools/list", json!({}))));
    let spelt = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"\u0061\u0022b"}}"#;
    let Received::Cancel(id) = connection.receive(spelt.into()) else { panic!() };
    assert_eq!(id, codec.id());
    let Received::Cancel(id) = receive(&mut connection, &cancel(json!(1))) else { panic!() };
    assert_eq!(id, CallId::from(1));
    let Received::Cancel(text) = receive(&mut connection, &cancel(json!("1"))) else { panic!() };
    assert_ne!(id, text);
    for bad in [json!(null), json!(1.5), json!([]), json!("x".repeat(300))] {
        assert!(matches!(receive(&mut connection, &cancel(bad)), Received::Ignore));
    }
    for ignored in ["notifications/progress", "notifications/no/such", "notifications/message"] {
        assert!(matches!(
            receive(&mut connection, &notification(ignored, json!([]))),
            Received::Ignore
        ));
    }
    // A modern client cancels with the same notification.
    let Received::Cancel(_) = receive(&mut crate::common::connection(), &cancel(json!(1))) else {
        panic!()
    };
}

#[test]
fn responses_are_matched_by_number() {
    let mut connection = connection();
    let answer = json!({"jsonrpc": "2.0", "id": 12, "result": {"roots": []}});
    assert!(matches!(receive(&mut connection, &answer), Received::Ignore));
    open(&mut connection, "2025-06-18");
    let Received::Answer(12, Ok(text)) = receive(&mut connection, &answer) else { panic!() };
    assert_eq!(text, r#"{"roots":[]}"#);
    let refusal =
        json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -1, "message": "no", "data": 1}});
    let Received::Answer(3, Err(error)) = receive(&mut connection, &refusal) else { panic!() };
    assert_eq!((error.code, &*error.message), (Some(-1), "no"));
    let unknown = json!({"jsonrpc": "2.0", "id": 3, "error": {"code": -32601, "message": "what?"}});
    let Received::Answer(3, Err(error)) = receive(&mut connection, &unknown) else { panic!() };
    assert_eq!(error.kind, ErrorKind::MethodNotFound);
    for odd in [json!([]), json!(null), json!({"code": "1", "message": 2}), json!({"code": 1e99})] {
        let message = json!({"jsonrpc": "2.0", "id": 3, "error": odd});
        let Received::Answer(3, Err(error)) = receive(&mut connection, &message) else { panic!() };
        assert_eq!((error.kind, error.code), (ErrorKind::InternalError, None), "{message}");
    }
    for (size, kept) in [(64 * 1024, true), (64 * 1024 + 1, false)] {
        let data = "x".repeat(size - 2);
        let message =
            json!({"jsonrpc": "2.0", "id": 3, "error": {"code": 1, "message": "", "data": data}});
        let Received::Answer(3, Err(error)) = receive(&mut connection, &message) else { panic!() };
        assert_eq!(error.data.is_some(), kept, "{size}");
    }
    for nobody in [json!("12"), json!(null), json!(-1)] {
        let message = json!({"jsonrpc": "2.0", "id": nobody, "result": {}});
        assert!(matches!(receive(&mut connection, &message), Received::Ignore));
    }
}

#[test]
fn completion_context_is_dropped_in_older_revisions() {
    let params = json!({
        "ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "a", "value": "v"},
        "context": {"arguments": {"b": "c"}}, "_meta": {"progressToken": 4},
    });
    for (version, kept) in
        [("2024-11-05", false), ("2025-03-26", false), ("2025-06-18", true), ("2025-11-25", true)]
    {
        let mut connection = connection();
        open(&mut connection, version);
        let (request, codec) =
            call(receive(&mut connection, &request("id", "completion/complete", params.clone())));
        let read: wharf_model::CompletionRequest = serde_json::from_str(request.params()).unwrap();
        assert_eq!(read.context.contains_key("b"), kept, "{version}");
        assert_eq!(read.value, "v");
        assert!(request.progress);
        assert_eq!(codec.id().as_json(), "\"id\"");
    }
}

#[test]
fn both_eras_share_one_connection() {
    let mut connection = connection();
    open(&mut connection, "2025-06-18");
    let (request, codec) =
        call(receive(&mut connection, &modern(1, "tools/call", json!({"name": "a"}))));
    assert_eq!(request.log_level, None);
    assert_eq!(
        encoded(&codec, wharf_model::ToolResult::text("x")).0["result"]["resultType"],
        "complete"
    );
    let (_, codec) = call(receive(
        &mut connection,
        &crate::common::request(2, "tools/call", json!({"name": "a"})),
    ));
    assert_eq!(
        encoded(&codec, wharf_model::ToolResult::text("x")).0,
        json!({
            "jsonrpc": "2.0", "id": 2, "result": {"content": [{"type": "text", "text": "x"}]},
        })
    );
}

#[test]
fn invalid_progress_tokens_are_ignored() {
    let mut connection = connection();
    open(&mut connection, "2025-06-18");
    for (token, counts) in [
        (json!("a"), true),
        (json!(5), true),
        (json!(1.5), false),
        (json!(null), false),
        (json!({}), false),
        (json!(true), false),
    ] {
        let params = json!({"_meta": {"progressToken": token}});
        let (request, _) = call(receive(&mut connection, &request(1, "tools/list", params)));
        assert_eq!(request.progress, counts, "{token}");
    }
}
