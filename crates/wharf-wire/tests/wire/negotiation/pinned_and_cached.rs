//! Negotiations with a pinned or cached revision.

use super::*;

#[test]
fn pinned_to_a_legacy_revision() {
    for transport in BOTH {
        for version in LEGACY {
            let first = format!("initialize {version} handshake");
            let held = || pinned(transport, version, &first);
            held().then(
                answer(transport, Initialize, initialize_result(version)),
                &format!("open {version} pier"),
            );
            for other in
                LEGACY.into_iter().chain([NEWEST, "2030-01-01"]).filter(|it| *it != version)
            {
                for reply in [
                    initialize_result(other),
                    unsupported(-32022, &[other]),
                    unsupported(-32602, &[other]),
                ] {
                    let case = held().then(
                        answer(transport, Initialize, reply),
                        "fail unsupported_protocol_version",
                    );
                    let message = case.error().message;
                    assert!(message.contains(other) && message.contains(version), "{message}");
                }
            }
            held().then(answer(transport, Initialize, error_of(-32601)), "fail method_not_found");
            held().then(Silence, "fail request_timeout");
            held().then(Closed, "fail connection_closed");
        }
    }
}

#[test]
fn pinned_to_the_modern_revision() {
    for transport in BOTH {
        let held = || pinned(transport, NEWEST, DISCOVER_STEP);
        let wrong = "fail unsupported_protocol_version";
        held().then(
            answer(transport, Discover, discover_result(&["2025-11-25", NEWEST])),
            OPEN_MODERN,
        );
        let error = held()
            .then(answer(transport, Discover, discover_result(&["2025-11-25"])), wrong)
            .error();
        assert!(error.message.contains("2025-11-25") && error.message.contains(NEWEST), "{error}");
        held().then(answer(transport, Discover, unsupported(-32022, &["2025-11-25"])), wrong);
        held()
            .then(answer(transport, Discover, unsupported(-32022, &[NEWEST])), DISCOVER_STEP)
            .then(answer(transport, Discover, unsupported(-32022, &[NEWEST])), wrong);
        let error = held().then(answer(transport, Discover, error_of(-32601)), wrong).error();
        assert!(error.message.contains(NEWEST) && error.message.contains("`no`"), "{error}");
        held().then(answer(transport, Discover, json!({"result": {}})), wrong);
        held().then(Silence, "fail request_timeout");
        held().then(Closed, "fail connection_closed");
    }
    pinned(TransportKind::Http, NEWEST, DISCOVER_STEP)
        .then(Bytes(404, b""), "fail unsupported_protocol_version");
}

#[test]
fn the_cached_revision_is_tried_first() {
    for transport in BOTH {
        with_cached_revision(transport, NEWEST, "discover newest probe")
            .then(answer(transport, Discover, error_of(-32601)), INITIALIZE_STEP);
        for last in LEGACY {
            let known = || with_cached_revision(transport, last, INITIALIZE_STEP);
            known().then(
                answer(transport, Initialize, initialize_result("2024-11-05")),
                "open 2024-11-05 pier",
            );
            let probe = "discover newest probe";
            let refused = || known().then(answer(transport, Initialize, error_of(-32601)), probe);
            refused().then(answer(transport, Discover, discover_result(&[NEWEST])), OPEN_MODERN);
            refused().then(answer(transport, Discover, error_of(-32603)), "fail method_not_found");
            refused().then(Silence, "fail method_not_found");
            known().then(answer(transport, Initialize, json!({"result": {}})), probe);
            known()
                .then(answer(transport, Initialize, unsupported(-32022, &[NEWEST])), DISCOVER_STEP);
            known()
                .then(Silence, probe)
                .then(answer(transport, Discover, discover_result(&[NEWEST])), OPEN_MODERN);
        }
    }
    let lines = || with_cached_revision(TransportKind::Lines, "2025-06-18", INITIALIZE_STEP);
    lines()
        .then(Silence, "discover newest probe")
        .then(Initialize(initialize_result("2025-06-18")), "open 2025-06-18 pier");
    lines().then(Silence, "discover newest probe").then(Silence, "fail request_timeout");
    lines()
        .then(Silence, "discover newest probe")
        .then(Discover(error_of(-32601)), "wait handshake");
    lines()
        .then(Closed, "discover newest reopen probe")
        .then(Discover(discover_result(&[NEWEST])), OPEN_MODERN);
    lines()
        .then(Closed, "discover newest reopen probe")
        .then(Discover(error_of(-32601)), INITIALIZE_STEP);
    lines().then(Closed, "discover newest reopen probe").then(Closed, "fail connection_closed");
    let http = || with_cached_revision(TransportKind::Http, "2025-06-18", INITIALIZE_STEP);
    let moved = || http().then(Bytes(405, b""), "discover newest probe");
    moved().then(Http(200, discover_result(&[NEWEST])), OPEN_MODERN);
    moved().then(Bytes(405, b""), "events").then(Events, INITIALIZE_STEP);
    moved().then(Silence, "events");
    http().then(Silence, "discover newest probe").then(Bytes(404, b""), INITIALIZE_STEP);
}

#[test]
fn a_client_of_the_legacy_era_accepts_each_of_its_revisions_and_no_modern_one() {
    for transport in BOTH {
        for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
            let reply = answer(transport, Initialize, initialize_result(version));
            pinned(transport, "legacy", INITIALIZE_STEP)
                .then(reply, &format!("open {version} pier"));
        }
        let modern = answer(transport, Initialize, initialize_result(NEWEST));
        let error = pinned(transport, "legacy", INITIALIZE_STEP)
            .then(modern, "fail unsupported_protocol_version")
            .error();
        assert!(error.message.contains("restricted to 2024-11-05, 2025-03-26"), "{error}");
    }
    // It does not probe for the modern era, whatever happens.
    pinned(TransportKind::Lines, "legacy", INITIALIZE_STEP).then(Closed, "fail connection_closed");
    pinned(TransportKind::Lines, "legacy", INITIALIZE_STEP).then(Silence, "fail request_timeout");
    pinned(TransportKind::Http, "legacy", INITIALIZE_STEP).then(Bytes(404, b""), "events");
}

#[test]
fn a_legacy_client_tries_another_revision_that_the_server_lists() {
    let refusal = || unsupported(-32602, &["2025-06-18", NEWEST]);
    pinned(TransportKind::Lines, "legacy", INITIALIZE_STEP)
        .then(Initialize(refusal()), "initialize 2025-06-18 handshake")
        .then(Initialize(initialize_result("2025-06-18")), "open 2025-06-18 pier");
    pinned(TransportKind::Lines, "2025-11-25", INITIALIZE_STEP)
        .then(Initialize(refusal()), "fail unsupported_protocol_version");
}

#[test]
fn a_client_of_the_modern_era_accepts_each_of_its_revisions_and_no_legacy_one() {
    for transport in BOTH {
        for date in modern_dates() {
            let reply = answer(transport, Discover, discover_result(&[date, "2025-11-25"]));
            let opened = format!("open {date} harbour").replace(NEWEST, "newest");
            pinned(transport, "modern", DISCOVER_STEP).then(reply, &opened);
        }
        let legacy = answer(transport, Discover, discover_result(&["2025-11-25"]));
        pinned(transport, "modern", DISCOVER_STEP)
            .then(legacy, "fail unsupported_protocol_version");
        let unknown = answer(transport, Discover, error_of(-32601));
        pinned(transport, "modern", DISCOVER_STEP)
            .then(unknown, "fail unsupported_protocol_version");
    }
}

#[test]
fn the_cached_revision_is_tried_first_within_an_era() {
    let case = NegotiationCase::new(TransportKind::Lines, Some("modern"), Some(NEWEST));
    assert_eq!(case.last, DISCOVER_STEP);
    let case = NegotiationCase::new(TransportKind::Lines, Some("modern"), Some("2025-11-25"));
    assert_eq!(case.last, DISCOVER_STEP);
    let case = NegotiationCase::new(TransportKind::Lines, Some("legacy"), Some(NEWEST));
    assert_eq!(case.last, INITIALIZE_STEP);
}
