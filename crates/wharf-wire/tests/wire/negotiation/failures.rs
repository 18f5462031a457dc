//! Negotiation with servers that reply with garbage, late, or not at all.

use super::*;

#[test]
fn invalid_responses_over_http() {
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
            http()
                .then(Bytes(status, body), INITIALIZE_STEP)
                .then(Http(200, initialize_result("2025-11-25")), OPEN_LEGACY);
        }
        for status in [400, 404, 405] {
            http().then(Bytes(404, body), INITIALIZE_STEP).then(Bytes(status, body), "events");
        }
        for status in [200, 202, 406, 410, 415] {
            let case = http().then(Bytes(404, body), INITIALIZE_STEP);
            let error = case.then(Bytes(status, body), "fail transport_error").error();
            assert!(error.message.contains(&status.to_string()), "{error}");
        }
    }
    // A reply to another request is ignored; an error without an id is not.
    let other = json!({"id": 99, "result": {"supportedVersions": [NEWEST]}});
    http().then(Http(200, other), INITIALIZE_STEP);
    let nameless = json!({"id": null, "error": {"code": -32020, "message": "no"}});
    http().then(Http(400, nameless), "fail header_mismatch");
    http()
        .then(
            Http(400, json!({"id": null, "error": {"code": -32000, "message": "no"}})),
            INITIALIZE_STEP,
        )
        .then(
            Http(400, json!({"id": null, "error": {"code": -32000, "message": "no"}})),
            "fail internal_error",
        );
}

#[test]
fn inconclusive_http_statuses() {
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
        // The body makes no difference, even if it is a discovery result.
        for body in [json!("no"), discover_result(&[NEWEST]), error_of(-32022)] {
            let error = http().then(Http(status, body), &expected).error();
            assert!(error.message.contains(&status.to_string()), "{error}");
        }
        http().then(Bytes(404, b""), INITIALIZE_STEP).then(Bytes(status, b""), &expected);
        with_cached_revision(TransportKind::Http, "2025-06-18", INITIALIZE_STEP)
            .then(Bytes(status, b""), &expected);
        pinned(TransportKind::Http, NEWEST, DISCOVER_STEP).then(Bytes(status, b""), &expected);
    }
    let busy = json!({"error": {"code": 1003, "message": "slowly", "data": {"retryAfterMs": 7}}});
    let error = http().then(Http(429, busy), "fail rate_limited").error();
    assert!(error.message.contains("slowly") && error.data.unwrap()["retryAfterMs"] == 7);
}

#[test]
fn no_reply_over_lines() {
    let silent = || lines().then(Silence, INITIALIZE_STEP);
    silent().then(Initialize(initialize_result("2025-11-25")), OPEN_LEGACY);
    silent().then(Silence, "fail request_timeout");
    // A late reply to the first request counts as well.
    silent().then(Discover(discover_result(&[NEWEST])), OPEN_MODERN);
    silent()
        .then(Discover(error_of(-32601)), "wait handshake")
        .then(Initialize(initialize_result("2024-11-05")), "open 2024-11-05 pier");
    silent()
        .then(Discover(error_of(-32601)), "wait handshake")
        .then(Silence, "fail request_timeout");
    silent().then(Discover(error_of(-32022)), &after_bare_refusal());
    // Refused, but the server may be modern: the first request is still open.
    silent()
        .then(Initialize(error_of(-32601)), "wait handshake")
        .then(Discover(discover_result(&[NEWEST])), OPEN_MODERN);
    silent()
        .then(Initialize(error_of(-32601)), "wait handshake")
        .then(Discover(error_of(-32601)), "fail method_not_found");
    silent()
        .then(Initialize(error_of(-32602)), "wait handshake")
        .then(Silence, "fail invalid_params");
    silent()
        .then(Initialize(error_of(-32602)), "wait handshake")
        .then(Stray, "wait handshake")
        .then(Closed, REOPEN_STEP);
    silent()
        .then(Stray, "wait handshake")
        .then(Initialize(initialize_result("2025-11-25")), OPEN_LEGACY);
    lines().then(Stray, "wait probe").then(Discover(discover_result(&[NEWEST])), OPEN_MODERN);
    // Refused by a server that lists its revisions.
    for code in [-32022, -32602, -32601, -32600] {
        let told = || silent().then(Initialize(unsupported(code, &[NEWEST])), DISCOVER_STEP);
        told().then(Discover(discover_result(&[NEWEST])), OPEN_MODERN);
        told().then(Discover(error_of(-32601)), "fail unsupported_protocol_version");
        told().then(Silence, "fail request_timeout");
        silent()
            .then(Initialize(unsupported(code, &["2024-11-05"])), "initialize 2024-11-05 handshake")
            .then(Initialize(initialize_result("2024-11-05")), "open 2024-11-05 pier");
    }
}

#[test]
fn no_reply_over_http() {
    http()
        .then(Silence, INITIALIZE_STEP)
        .then(Http(200, initialize_result("2025-11-25")), OPEN_LEGACY);
    http().then(Silence, INITIALIZE_STEP).then(Silence, "fail request_timeout");
    http().then(Silence, INITIALIZE_STEP).then(Bytes(405, b""), "events");
    http()
        .then(Silence, INITIALIZE_STEP)
        .then(Http(400, unsupported(-32022, &[NEWEST])), DISCOVER_STEP)
        .then(Http(200, discover_result(&[NEWEST])), OPEN_MODERN);
    http().then(Closed, "fail connection_closed");
}

#[test]
fn a_connection_that_closes_during_negotiation() {
    let died = || lines().then(Closed, REOPEN_STEP);
    died().then(Initialize(initialize_result("2025-11-25")), OPEN_LEGACY);
    died().then(Closed, "fail connection_closed");
    died().then(Silence, "fail request_timeout");
    died().then(Initialize(error_of(-32603)), "fail internal_error");
    died()
        .then(Initialize(unsupported(-32022, &[NEWEST])), DISCOVER_STEP)
        .then(Discover(discover_result(&[NEWEST])), OPEN_MODERN);
    // A reply to a request on the closed connection is ignored.
    died().then(Discover(discover_result(&[NEWEST])), "wait handshake");
    lines()
        .then(Silence, INITIALIZE_STEP)
        .then(Closed, REOPEN_STEP)
        .then(Closed, "fail connection_closed");
    lines()
        .then(Discover(error_of(-32601)), INITIALIZE_STEP)
        .then(Closed, "fail connection_closed");
}
