//! Negotiation with servers that reply.

use super::*;

#[test]
fn a_modern_server() {
    for transport in BOTH {
        let begun = || start_case(transport, "discover newest probe");
        let all = Revision::ALL.map(Revision::as_str);
        for versions in [&[NEWEST][..], &["2025-11-25", NEWEST, "2030-01-01"], &all] {
            let case =
                begun().then(answer(transport, Discover, discover_result(versions)), OPEN_MODERN);
            let NegotiationStep::Open { discovery, info, supported, .. } = case.step else {
                panic!()
            };
            assert_eq!(
                (info.version.as_str(), discovery.instructions.as_deref()),
                ("1", Some("Be kind"))
            );
            assert!(discovery.capabilities.tools.is_some() && discovery.cache.ttl_ms == 5);
            assert_eq!(supported, versions);
        }
        // Only the list of versions makes a result a discovery result.
        let bare = json!({"result": {"supportedVersions": [NEWEST, 5, null]}});
        let case = begun().then(answer(transport, Discover, bare), "open newest ");
        let NegotiationStep::Open { supported, .. } = case.step else { panic!() };
        assert_eq!(supported, [NEWEST]);
        // Only legacy revisions in common: a handshake in the newest of them.
        begun()
            .then(
                answer(
                    transport,
                    Discover,
                    discover_result(&["2030-01-01", "2024-11-05", "2025-06-18"]),
                ),
                "initialize 2025-06-18 handshake",
            )
            .then(
                answer(transport, Initialize, initialize_result("2025-06-18")),
                "open 2025-06-18 pier",
            );
        for versions in [&["2030-01-01", "later"][..], &[]] {
            let case = begun().then(
                answer(transport, Discover, discover_result(versions)),
                "fail unsupported_protocol_version",
            );
            let error = case.error();
            assert!(error.message.contains("2025-11-25, 2026-07-28"), "{error}");
            assert!(versions.iter().all(|it| error.message.contains(it)), "{error}");
        }
        let odd = json!({"result": {"resultType": "someday", "supportedVersions": [NEWEST]}});
        begun().then(answer(transport, Discover, odd), "fail validation_failed");
    }
}

#[test]
fn a_modern_server_that_refuses() {
    for status in [200, 400, 404] {
        let answer = |transport, body| match transport {
            TransportKind::Lines => Discover(body),
            TransportKind::Http => Http(status, body),
        };
        for transport in BOTH {
            let begun = || start_case(transport, "discover newest probe");
            let wrong = "fail unsupported_protocol_version";
            begun().then(answer(transport, error_of(-32020)), "fail header_mismatch");
            begun().then(answer(transport, error_of(-32021)), "fail missing_client_capability");
            begun().then(answer(transport, error_of(-32022)), &after_bare_refusal());
            let case = begun().then(answer(transport, unsupported(-32022, &["2030-01-01"])), wrong);
            let message = case.error().message;
            assert!(message.contains("2030-01-01") && message.contains(NEWEST), "{message}");
            // The server lists the revision of the request: one retry, and no more.
            let again =
                || begun().then(answer(transport, unsupported(-32022, &[NEWEST])), DISCOVER_STEP);
            again().then(answer(transport, discover_result(&[NEWEST])), OPEN_MODERN);
            again().then(answer(transport, unsupported(-32022, &[NEWEST])), wrong);
            // The server is known to be modern, so there is no fallback.
            again().then(answer(transport, error_of(-32601)), wrong);
            again().then(Silence, "fail request_timeout");
            begun()
                .then(
                    answer(transport, unsupported(-32022, &["2030-01-01", "2025-03-26"])),
                    "initialize 2025-03-26 handshake",
                )
                .then(
                    match transport {
                        TransportKind::Lines => Initialize(initialize_result("2025-03-26")),
                        TransportKind::Http => Http(200, initialize_result("2025-03-26")),
                    },
                    "open 2025-03-26 pier",
                );
        }
    }
}

#[test]
fn a_legacy_server() {
    let ambiguous = [
        json!({"result": {}}),
        json!({"result": {"supportedVersions": "2026-07-28"}}),
        json!({"result": {"supportedVersions": vec![NEWEST; 2_000]}}),
        json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {}}}),
        json!({"result": {"content": []}}),
        json!({"result": []}),
        json!({"result": [[NEWEST]]}),
        json!({"result": true}),
    ];
    let codes = [-32601, -32602, -32600, -32603, -32000, -32002, -32700, 0, 404, 1001, i32::MIN];
    let errors = codes.map(error_of);
    let versions = unsupported(-32602, &[NEWEST]);
    for body in ambiguous.into_iter().chain(errors).chain([versions]) {
        for transport in BOTH {
            let case = start_case(transport, "discover newest probe")
                .then(answer(transport, Discover, body.clone()), INITIALIZE_STEP)
                .then(answer(transport, Initialize, initialize_result("2025-11-25")), OPEN_LEGACY);
            let NegotiationStep::Open { discovery, supported, .. } = case.step else { panic!() };
            assert_eq!(discovery.instructions.as_deref(), Some("Be kind"));
            assert!(supported.is_empty());
        }
        for status in [200, 202, 400, 404, 405, 406, 410, 415, 422, 499] {
            http().then(Http(status, body.clone()), INITIALIZE_STEP);
        }
    }
}

#[test]
fn a_handshake_result_needs_a_version() {
    for transport in BOTH {
        let shaking = || {
            start_case(transport, "discover newest probe")
                .then(answer(transport, Discover, error_of(-32601)), INITIALIZE_STEP)
        };
        for version in LEGACY {
            let expected = format!("open {version} pier");
            shaking().then(answer(transport, Initialize, initialize_result(version)), &expected);
        }
        for version in ["2023-01-01", NEWEST, "2030-01-01", "", "latest"] {
            let case = shaking().then(
                answer(transport, Initialize, initialize_result(version)),
                "fail unsupported_protocol_version",
            );
            let message = case.error().message;
            assert!(message.contains(version) && message.contains("2025-11-25"), "{message}");
        }
        for odd in [json!({}), json!({"protocolVersion": 5}), json!([]), json!("2025-11-25")] {
            let reply = answer(transport, Initialize, json!({"result": odd}));
            shaking().then(reply, "fail validation_failed");
        }
        // A result with missing fields is accepted all the same.
        for info in [json!(null), json!({}), json!("x"), json!({"name": 5})] {
            let bare = json!({"result": {"protocolVersion": "2025-06-18", "serverInfo": info}});
            shaking().then(answer(transport, Initialize, bare), "open 2025-06-18 ");
        }
        let nameless =
            json!({"result": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "x"}}});
        shaking().then(answer(transport, Initialize, nameless), "open 2025-06-18 x");
        let wrong = json!({"result": {"protocolVersion": "2025-06-18", "instructions": 5}});
        shaking().then(answer(transport, Initialize, wrong), "fail validation_failed");
        let refused =
            shaking().then(answer(transport, Initialize, error_of(-32603)), "fail internal_error");
        assert_eq!(refused.error().message, "no");
    }
}

#[test]
fn negotiation_over_http_sse() {
    let events = || {
        http()
            .then(Bytes(405, b""), INITIALIZE_STEP)
            .then(Bytes(405, b""), "events")
            .then(Events, INITIALIZE_STEP)
    };
    events().then(Initialize(initialize_result("2024-11-05")), "open 2024-11-05 pier");
    events().then(Http(200, initialize_result("2024-11-05")), "open 2024-11-05 pier");
    events()
        .then(Bytes(202, b"Accepted"), "wait handshake")
        .then(Initialize(initialize_result("2025-03-26")), "open 2025-03-26 pier");
    events().then(Silence, "fail request_timeout");
    events().then(Closed, "fail connection_closed");
    events().then(Bytes(404, b""), "fail transport_error");
    events().then(Bytes(401, b""), "fail unauthenticated");
    events().then(Initialize(error_of(-32603)), "fail internal_error");
    let held = pinned(TransportKind::Http, "2024-11-05", "initialize 2024-11-05 handshake");
    held.then(Bytes(404, b""), "events")
        .then(Events, "initialize 2024-11-05 handshake")
        .then(Initialize(initialize_result("2024-11-05")), "open 2024-11-05 pier");
}

#[test]
fn negotiation_uses_few_request_ids() {
    let case = lines()
        .then(Silence, INITIALIZE_STEP)
        .then(Initialize(unsupported(-32022, &[NEWEST])), DISCOVER_STEP);
    assert_eq!(case.asked, [3, 2]);
    let mut negotiation = NegotiationCase::new(TransportKind::Lines, None, None).negotiation;
    let step = negotiation.answered(NegotiationEvent::Reply(CallId::from(77), Ok("{}")));
    assert!(matches!(step, NegotiationStep::Wait(NegotiationTimeout::Probe)));
}
