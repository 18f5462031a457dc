//! Servers that answer.

use super::*;

#[test]
fn a_modern_server() {
    for carrier in BOTH {
        let begun = || begins(carrier, "discover 2026-07-28 probe");
        let all = Revision::ALL.map(Revision::as_str);
        for versions in [&[MODERN][..], &["2025-11-25", MODERN, "2030-01-01"], &all] {
            let case = begun().goes(answer(carrier, Discover, speaks(versions)), OPEN);
            let Step::Open { discovery, info, supported, .. } = case.step else { panic!() };
            assert_eq!(
                (info.version.as_str(), discovery.instructions.as_deref()),
                ("1", Some("Be kind"))
            );
            assert!(discovery.capabilities.tools.is_some() && discovery.cache.ttl_ms == 5);
            assert_eq!(supported, versions);
        }
        // Nothing but the versions makes a result of discovery.
        let bare = json!({"result": {"supportedVersions": [MODERN, 5, null]}});
        let case = begun().goes(answer(carrier, Discover, bare), "open 2026-07-28 ");
        let Step::Open { supported, .. } = case.step else { panic!() };
        assert_eq!(supported, [MODERN]);
        // Only legacy revisions are common: a handshake in the newest of them.
        begun()
            .goes(
                answer(carrier, Discover, speaks(&["2030-01-01", "2024-11-05", "2025-06-18"])),
                "initialize 2025-06-18 handshake",
            )
            .goes(answer(carrier, Initialize, chose("2025-06-18")), "open 2025-06-18 pier");
        for versions in [&["2030-01-01", "later"][..], &[]] {
            let case = begun().goes(
                answer(carrier, Discover, speaks(versions)),
                "fail unsupported_protocol_version",
            );
            let error = case.error();
            assert!(error.message.contains("2025-11-25, 2026-07-28"), "{error}");
            assert!(versions.iter().all(|it| error.message.contains(it)), "{error}");
        }
        let odd = json!({"result": {"resultType": "someday", "supportedVersions": [MODERN]}});
        begun().goes(answer(carrier, Discover, odd), "fail validation_failed");
    }
}

#[test]
fn a_modern_server_that_refuses() {
    for status in [200, 400, 404] {
        let answer = |carrier, body| match carrier {
            Carrier::Lines => Discover(body),
            Carrier::Http => Http(status, body),
        };
        for carrier in BOTH {
            let begun = || begins(carrier, "discover 2026-07-28 probe");
            let wrong = "fail unsupported_protocol_version";
            begun().goes(answer(carrier, error_of(-32020)), "fail header_mismatch");
            begun().goes(answer(carrier, error_of(-32021)), "fail missing_client_capability");
            begun().goes(answer(carrier, error_of(-32022)), wrong);
            let case = begun().goes(answer(carrier, unsupported(-32022, &["2030-01-01"])), wrong);
            let message = case.error().message;
            assert!(message.contains("2030-01-01") && message.contains(MODERN), "{message}");
            // It names what we asked in: once more, but only once.
            let again = || begun().goes(answer(carrier, unsupported(-32022, &[MODERN])), AGAIN);
            again().goes(answer(carrier, speaks(&[MODERN])), OPEN);
            again().goes(answer(carrier, unsupported(-32022, &[MODERN])), wrong);
            // It has said that it is modern, so there is no way back.
            again().goes(answer(carrier, error_of(-32601)), wrong);
            again().goes(Silence, "fail request_timeout");
            begun()
                .goes(
                    answer(carrier, unsupported(-32022, &["2030-01-01", "2025-03-26"])),
                    "initialize 2025-03-26 handshake",
                )
                .goes(
                    match carrier {
                        Carrier::Lines => Initialize(chose("2025-03-26")),
                        Carrier::Http => Http(200, chose("2025-03-26")),
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
        json!({"result": {"supportedVersions": vec![MODERN; 2_000]}}),
        json!({"result": {"protocolVersion": "2025-11-25", "capabilities": {}}}),
        json!({"result": {"content": []}}),
        json!({"result": []}),
        json!({"result": [[MODERN]]}),
        json!({"result": true}),
    ];
    let codes = [-32601, -32602, -32600, -32603, -32000, -32002, -32700, 0, 404, 1001, i32::MIN];
    let errors = codes.map(error_of);
    let versions = unsupported(-32602, &[MODERN]);
    for body in ambiguous.into_iter().chain(errors).chain([versions]) {
        for carrier in BOTH {
            let case = begins(carrier, "discover 2026-07-28 probe")
                .goes(answer(carrier, Discover, body.clone()), SHAKE)
                .goes(answer(carrier, Initialize, chose("2025-11-25")), OLD);
            let Step::Open { discovery, supported, .. } = case.step else { panic!() };
            assert_eq!(discovery.instructions.as_deref(), Some("Be kind"));
            assert!(supported.is_empty());
        }
        for status in [200, 202, 400, 404, 405, 406, 410, 415, 422, 499] {
            http().goes(Http(status, body.clone()), SHAKE);
        }
    }
}

#[test]
fn what_a_handshake_must_say() {
    for carrier in BOTH {
        let shaking = || {
            begins(carrier, "discover 2026-07-28 probe")
                .goes(answer(carrier, Discover, error_of(-32601)), SHAKE)
        };
        for version in LEGACY {
            let expected = format!("open {version} pier");
            shaking().goes(answer(carrier, Initialize, chose(version)), &expected);
        }
        for version in ["2023-01-01", MODERN, "2030-01-01", "", "latest"] {
            let case = shaking().goes(
                answer(carrier, Initialize, chose(version)),
                "fail unsupported_protocol_version",
            );
            let message = case.error().message;
            assert!(message.contains(version) && message.contains("2025-11-25"), "{message}");
        }
        for odd in [json!({}), json!({"protocolVersion": 5}), json!([]), json!("2025-11-25")] {
            let reply = answer(carrier, Initialize, json!({"result": odd}));
            shaking().goes(reply, "fail validation_failed");
        }
        // A server that says less than it should is understood all the same.
        for info in [json!(null), json!({}), json!("x"), json!({"name": 5})] {
            let bare = json!({"result": {"protocolVersion": "2025-06-18", "serverInfo": info}});
            shaking().goes(answer(carrier, Initialize, bare), "open 2025-06-18 ");
        }
        let nameless =
            json!({"result": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "x"}}});
        shaking().goes(answer(carrier, Initialize, nameless), "open 2025-06-18 x");
        let wrong = json!({"result": {"protocolVersion": "2025-06-18", "instructions": 5}});
        shaking().goes(answer(carrier, Initialize, wrong), "fail validation_failed");
        let refused =
            shaking().goes(answer(carrier, Initialize, error_of(-32603)), "fail internal_error");
        assert_eq!(refused.error().message, "no");
    }
}

#[test]
fn over_events() {
    let events =
        || http().goes(Bytes(405, b""), SHAKE).goes(Bytes(405, b""), "events").goes(Events, SHAKE);
    events().goes(Initialize(chose("2024-11-05")), "open 2024-11-05 pier");
    events().goes(Http(200, chose("2024-11-05")), "open 2024-11-05 pier");
    events()
        .goes(Bytes(202, b"Accepted"), "wait handshake")
        .goes(Initialize(chose("2025-03-26")), "open 2025-03-26 pier");
    events().goes(Silence, "fail request_timeout");
    events().goes(Closed, "fail connection_closed");
    events().goes(Bytes(404, b""), "fail transport_error");
    events().goes(Bytes(401, b""), "fail unauthenticated");
    events().goes(Initialize(error_of(-32603)), "fail internal_error");
    let held = pinned(Carrier::Http, "2024-11-05", "initialize 2024-11-05 handshake");
    held.goes(Bytes(404, b""), "events")
        .goes(Events, "initialize 2024-11-05 handshake")
        .goes(Initialize(chose("2024-11-05")), "open 2024-11-05 pier");
}

#[test]
fn ids_of_an_opening_are_few() {
    let case = lines().goes(Silence, SHAKE).goes(Initialize(unsupported(-32022, &[MODERN])), AGAIN);
    assert_eq!(case.asked, [3, 2]);
    let mut opening = Case::new(Carrier::Lines, None, None).opening;
    let step = opening.answered(Answered::Reply(CallId::from(77), Ok("{}")));
    assert!(matches!(step, Step::Wait(Patience::Probe)));
}
