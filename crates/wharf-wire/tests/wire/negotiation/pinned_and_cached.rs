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
