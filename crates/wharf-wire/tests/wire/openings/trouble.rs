//! Servers that answer with garbage, late, or not at all.

use super::*;

#[test]
fn garbage_over_http() {
    for body in [
        &b""[..],
        b"Not Found",
        b"<html>",
        b"{",
        b"\xff\xfe",
        b"null",
        b"[]",
        b"{\"error\":\"no\"}",
    ] {
        for status in [200, 202, 204, 400, 404, 405, 406, 409, 415] {
            http().goes(Bytes(status, body), SHAKE).goes(Http(200, chose("2025-11-25")), OLD);
        }
        for status in [400, 404, 405] {
            http().goes(Bytes(404, body), SHAKE).goes(Bytes(status, body), "events");
        }
        for status in [200, 202, 406, 410, 415] {
            let case = http().goes(Bytes(404, body), SHAKE);
            let error = case.goes(Bytes(status, body), "fail transport_error").error();
            assert!(error.message.contains(&status.to_string()), "{error}");
        }
    }
    // A reply to another request is none to this one; an error without an id is.
    let other = json!({"id": 99, "result": {"supportedVersions": [MODERN]}});
    http().goes(Http(200, other), SHAKE);
    let nameless = json!({"id": null, "error": {"code": -32020, "message": "no"}});
    http().goes(Http(400, nameless), "fail header_mismatch");
    http()
        .goes(Http(400, json!({"id": null, "error": {"code": -32000, "message": "no"}})), SHAKE)
        .goes(
            Http(400, json!({"id": null, "error": {"code": -32000, "message": "no"}})),
            "fail internal_error",
        );
}

#[test]
fn statuses_that_are_no_verdict() {
    use ErrorKind::*;
    let table = [
        (401, Unauthenticated),
        (403, Forbidden),
        (429, RateLimited),
        (500, TemporarilyUnavailable),
        (501, TemporarilyUnavailable),
        (502, TemporarilyUnavailable),
        (503, Overloaded),
        (504, TemporarilyUnavailable),
        (599, TemporarilyUnavailable),
        (302, TransportError),
        (100, TransportError),
    ];
    for (status, kind) in table {
        let expected = format!("fail {kind}");
        // What the body says makes no difference, be it the verdict itself.
        for body in [json!("no"), speaks(&[MODERN]), error_of(-32022)] {
            let error = http().goes(Http(status, body), &expected).error();
            assert!(error.message.contains(&status.to_string()), "{error}");
        }
        http().goes(Bytes(404, b""), SHAKE).goes(Bytes(status, b""), &expected);
        remembering(Carrier::Http, "2025-06-18", SHAKE).goes(Bytes(status, b""), &expected);
        pinned(Carrier::Http, MODERN, AGAIN).goes(Bytes(status, b""), &expected);
    }
    let busy = json!({"error": {"code": 1003, "message": "slowly", "data": {"retryAfterMs": 7}}});
    let error = http().goes(Http(429, busy), "fail rate_limited").error();
    assert!(error.message.contains("slowly") && error.data.unwrap()["retryAfterMs"] == 7);
}

#[test]
fn silence_over_lines() {
    let silent = || lines().goes(Silence, SHAKE);
    silent().goes(Initialize(chose("2025-11-25")), OLD);
    silent().goes(Silence, "fail request_timeout");
    // The slow answer to the first question counts as well.
    silent().goes(Discover(speaks(&[MODERN])), OPEN);
    silent()
        .goes(Discover(error_of(-32601)), "wait handshake")
        .goes(Initialize(chose("2024-11-05")), "open 2024-11-05 pier");
    silent()
        .goes(Discover(error_of(-32601)), "wait handshake")
        .goes(Silence, "fail request_timeout");
    silent().goes(Discover(error_of(-32022)), "fail unsupported_protocol_version");
    // Refused, but perhaps because it is modern: the first question is still open.
    silent()
        .goes(Initialize(error_of(-32601)), "wait handshake")
        .goes(Discover(speaks(&[MODERN])), OPEN);
    silent()
        .goes(Initialize(error_of(-32601)), "wait handshake")
        .goes(Discover(error_of(-32601)), "fail method_not_found");
    silent()
        .goes(Initialize(error_of(-32602)), "wait handshake")
        .goes(Silence, "fail invalid_params");
    silent()
        .goes(Initialize(error_of(-32602)), "wait handshake")
        .goes(Stray, "wait handshake")
        .goes(Closed, SHAKE_ANEW);
    silent().goes(Stray, "wait handshake").goes(Initialize(chose("2025-11-25")), OLD);
    lines().goes(Stray, "wait probe").goes(Discover(speaks(&[MODERN])), OPEN);
    // Refused by a server that says what it speaks instead.
    for code in [-32022, -32602, -32601, -32600] {
        let told = || silent().goes(Initialize(unsupported(code, &[MODERN])), AGAIN);
        told().goes(Discover(speaks(&[MODERN])), OPEN);
        told().goes(Discover(error_of(-32601)), "fail unsupported_protocol_version");
        told().goes(Silence, "fail request_timeout");
        silent()
            .goes(Initialize(unsupported(code, &["2024-11-05"])), "initialize 2024-11-05 handshake")
            .goes(Initialize(chose("2024-11-05")), "open 2024-11-05 pier");
    }
}

#[test]
fn silence_over_http() {
    http().goes(Silence, SHAKE).goes(Http(200, chose("2025-11-25")), OLD);
    http().goes(Silence, SHAKE).goes(Silence, "fail request_timeout");
    http().goes(Silence, SHAKE).goes(Bytes(405, b""), "events");
    http()
        .goes(Silence, SHAKE)
        .goes(Http(400, unsupported(-32022, &[MODERN])), AGAIN)
        .goes(Http(200, speaks(&[MODERN])), OPEN);
    http().goes(Closed, "fail connection_closed");
}

#[test]
fn a_connection_that_ends() {
    let died = || lines().goes(Closed, SHAKE_ANEW);
    died().goes(Initialize(chose("2025-11-25")), OLD);
    died().goes(Closed, "fail connection_closed");
    died().goes(Silence, "fail request_timeout");
    died().goes(Initialize(error_of(-32603)), "fail internal_error");
    died()
        .goes(Initialize(unsupported(-32022, &[MODERN])), AGAIN)
        .goes(Discover(speaks(&[MODERN])), OPEN);
    // An answer to what the dead one was asked is none.
    died().goes(Discover(speaks(&[MODERN])), "wait handshake");
    lines().goes(Silence, SHAKE).goes(Closed, SHAKE_ANEW).goes(Closed, "fail connection_closed");
    lines().goes(Discover(error_of(-32601)), SHAKE).goes(Closed, "fail connection_closed");
}
