//! Openings that are held to a revision, or remember one.

use super::*;

#[test]
fn held_to_a_legacy_revision() {
    for carrier in BOTH {
        for version in LEGACY {
            let first = format!("initialize {version} handshake");
            let held = || pinned(carrier, version, &first);
            held()
                .goes(answer(carrier, Initialize, chose(version)), &format!("open {version} pier"));
            for other in
                LEGACY.into_iter().chain([MODERN, "2030-01-01"]).filter(|it| *it != version)
            {
                for reply in
                    [chose(other), unsupported(-32022, &[other]), unsupported(-32602, &[other])]
                {
                    let case = held().goes(
                        answer(carrier, Initialize, reply),
                        "fail unsupported_protocol_version",
                    );
                    let message = case.error().message;
                    assert!(message.contains(other) && message.contains(version), "{message}");
                }
            }
            held().goes(answer(carrier, Initialize, error_of(-32601)), "fail method_not_found");
            held().goes(Silence, "fail request_timeout");
            held().goes(Closed, "fail connection_closed");
        }
    }
}

#[test]
fn held_to_the_modern_revision() {
    for carrier in BOTH {
        let held = || pinned(carrier, MODERN, AGAIN);
        let wrong = "fail unsupported_protocol_version";
        held().goes(answer(carrier, Discover, speaks(&["2025-11-25", MODERN])), OPEN);
        let error = held().goes(answer(carrier, Discover, speaks(&["2025-11-25"])), wrong).error();
        assert!(error.message.contains("2025-11-25") && error.message.contains(MODERN), "{error}");
        held().goes(answer(carrier, Discover, unsupported(-32022, &["2025-11-25"])), wrong);
        held()
            .goes(answer(carrier, Discover, unsupported(-32022, &[MODERN])), AGAIN)
            .goes(answer(carrier, Discover, unsupported(-32022, &[MODERN])), wrong);
        let error = held().goes(answer(carrier, Discover, error_of(-32601)), wrong).error();
        assert!(error.message.contains(MODERN) && error.message.contains("`no`"), "{error}");
        held().goes(answer(carrier, Discover, json!({"result": {}})), wrong);
        held().goes(Silence, "fail request_timeout");
        held().goes(Closed, "fail connection_closed");
    }
    pinned(Carrier::Http, MODERN, AGAIN).goes(Bytes(404, b""), "fail unsupported_protocol_version");
}

#[test]
fn what_is_remembered_is_tried_first() {
    for carrier in BOTH {
        remembering(carrier, MODERN, "discover 2026-07-28 probe")
            .goes(answer(carrier, Discover, error_of(-32601)), SHAKE);
        for last in LEGACY {
            let known = || remembering(carrier, last, SHAKE);
            known().goes(answer(carrier, Initialize, chose("2024-11-05")), "open 2024-11-05 pier");
            let probe = "discover 2026-07-28 probe";
            let refused = || known().goes(answer(carrier, Initialize, error_of(-32601)), probe);
            refused().goes(answer(carrier, Discover, speaks(&[MODERN])), OPEN);
            refused().goes(answer(carrier, Discover, error_of(-32603)), "fail method_not_found");
            refused().goes(Silence, "fail method_not_found");
            known().goes(answer(carrier, Initialize, json!({"result": {}})), probe);
            known().goes(answer(carrier, Initialize, unsupported(-32022, &[MODERN])), AGAIN);
            known().goes(Silence, probe).goes(answer(carrier, Discover, speaks(&[MODERN])), OPEN);
        }
    }
    let lines = || remembering(Carrier::Lines, "2025-06-18", SHAKE);
    lines()
        .goes(Silence, "discover 2026-07-28 probe")
        .goes(Initialize(chose("2025-06-18")), "open 2025-06-18 pier");
    lines().goes(Silence, "discover 2026-07-28 probe").goes(Silence, "fail request_timeout");
    lines()
        .goes(Silence, "discover 2026-07-28 probe")
        .goes(Discover(error_of(-32601)), "wait handshake");
    lines()
        .goes(Closed, "discover 2026-07-28 reopen probe")
        .goes(Discover(speaks(&[MODERN])), OPEN);
    lines()
        .goes(Closed, "discover 2026-07-28 reopen probe")
        .goes(Discover(error_of(-32601)), SHAKE);
    lines().goes(Closed, "discover 2026-07-28 reopen probe").goes(Closed, "fail connection_closed");
    let http = || remembering(Carrier::Http, "2025-06-18", SHAKE);
    let moved = || http().goes(Bytes(405, b""), "discover 2026-07-28 probe");
    moved().goes(Http(200, speaks(&[MODERN])), OPEN);
    moved().goes(Bytes(405, b""), "events").goes(Events, SHAKE);
    moved().goes(Silence, "events");
    http().goes(Silence, "discover 2026-07-28 probe").goes(Bytes(404, b""), SHAKE);
}
