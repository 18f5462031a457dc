//! Malformed HTTP requests are rejected (request smuggling).
//!
//! Found by h2spec and http-garden: requests that two servers in sequence parse differently.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::advisories::{
    harness::{Harness, PATIENCE},
    http_client::HttpClient,
    raw_http,
};

/// Sends a request; returns the status, and whether the connection was closed after it.
async fn status_and_close(harness: &Harness, request: &str) -> (u16, bool) {
    let mut stream = harness.connect().await;
    stream.write_all(request.as_bytes()).await.unwrap();
    let answer =
        raw_http::answer(&mut stream).await.unwrap_or_else(|| panic!("no answer: {request}"));
    let closes = answer.header("connection").is_some_and(|it| it.eq_ignore_ascii_case("close"));
    if closes {
        let mut rest = Vec::new();
        timeout(PATIENCE, stream.read_to_end(&mut rest)).await.expect("patience").unwrap();
        assert_eq!(rest, b"", "answered after the end: {request}");
    }
    (answer.status, closes)
}

/// RFC 9112, section 3.2.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_exactly_one_host_is_malformed() {
    let harness = Harness::with(wharf::http::Http::new().health()).await;
    let anywhere = Harness::with(wharf::http::Http::new().any_host()).await;
    for harness in [&harness, &anywhere] {
        let call = raw_http::modern_call(harness);
        let host = format!("host: {}\r\n", harness.address);
        for hosts in [String::new(), host.repeat(2), format!("{host}Host: evil.example\r\n")] {
            for target in ["/mcp", "/nowhere", "/ready"] {
                let line = format!("POST {target} HTTP/1.1");
                let request = call.replace(&host, &hosts).replace("POST /mcp HTTP/1.1", &line);
                let answer = raw_http::ask(harness, &request).await;
                assert_eq!(answer.status, 400, "{hosts:?} {target}");
            }
        }
        // The request target may name the host instead of the header.
        assert_eq!(raw_http::ask(harness, &call).await.status, 200);
    }
    // Load balancers that use HTTP/1.0 send no `Host` header.
    assert_eq!(raw_http::ask(&harness, "GET /ready HTTP/1.0\r\n\r\n").await.status, 200);
}

/// RFC 9112, section 6.1.
#[tokio::test(flavor = "multi_thread")]
async fn a_transfer_coding_other_than_one_chunked_is_refused() {
    let harness = Harness::start().await;
    let call = raw_http::modern_call(&harness);
    let (head, body) = call.split_once("\r\n\r\n").unwrap();
    let chunks = format!("{:x}\r\n{body}\r\n0\r\n\r\n", body.len());
    let length = format!("content-length: {}", body.len());
    let coded = |coding: &str| format!("{}\r\n\r\n{chunks}", head.replace(&length, coding));
    for coding in [
        "transfer-encoding: gzip, chunked",
        "transfer-encoding: chunked, chunked",
        "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
        "transfer-encoding: identity, chunked",
        "transfer-encoding: chunked;x=y",
        "transfer-encoding: gzip",
        "transfer-encoding: identity",
    ] {
        for request in [coded(coding), coded(coding).replace("POST /mcp ", "POST /nowhere ")] {
            let (status, closes) = status_and_close(&harness, &request).await;
            assert!(matches!(status, 400 | 501) && closes, "{coding}: {status} {closes}");
        }
    }
    for coding in ["transfer-encoding: chunked", "Transfer-Encoding:  Chunked "] {
        assert_eq!(status_and_close(&harness, &coded(coding)).await, (200, false), "{coding}");
    }
}

/// RFC 9110, sections 8.4 and 12.5.3.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_is_encoded_is_not_read_as_json() {
    let harness = Harness::start().await;
    let call = raw_http::modern_call(&harness);
    let coded = |coding: &str| call.replacen("accept:", &format!("{coding}\r\naccept:"), 1);
    for coding in
        ["content-encoding: gzip", "content-encoding: identity, br", "Content-Encoding: x"]
    {
        let answer = raw_http::ask(&harness, &coded(coding)).await;
        assert_eq!(
            (answer.status, answer.header("accept-encoding")),
            (415, Some("identity")),
            "{coding}"
        );
    }
    for coding in ["content-encoding: identity", "content-encoding: Identity"] {
        assert_eq!(raw_http::ask(&harness, &coded(coding)).await.status, 200, "{coding}");
    }
}

/// RFC 9112, section 3.2: no form of a target has a fragment.
#[tokio::test(flavor = "multi_thread")]
async fn a_target_with_a_fragment_is_refused() {
    let harness = Harness::start().await;
    let call = raw_http::modern_call(&harness);
    for target in ["/mcp#x", "/mcp#", "/mcp?a#b", "/#/mcp", "http://localhost/mcp#x"] {
        let request = call.replace("POST /mcp ", &format!("POST {target} "));
        assert_eq!(status_and_close(&harness, &request).await, (400, true), "{target}");
        // Also for the second request of a connection, and for one that arrives in pieces.
        let mut stream = harness.connect().await;
        stream.set_nodelay(true).unwrap();
        stream.write_all(call.as_bytes()).await.unwrap();
        assert_eq!(raw_http::answer(&mut stream).await.unwrap().status, 200);
        for piece in [&request[..7], &request[7..10], &request[10..]] {
            stream.write_all(piece.as_bytes()).await.unwrap();
            tokio::task::yield_now().await;
        }
        assert_eq!(raw_http::answer(&mut stream).await.unwrap().status, 400, "{target}");
    }
    // Elsewhere the character has no meaning.
    let call = call.replace("\"on\"", "\"#n\"").replace("accept:", "x-note: #1\r\naccept:");
    assert_eq!(status_and_close(&harness, &call).await, (200, false));
}

/// A head of 100,000 bytes was accepted although the limit was 65,536.
#[tokio::test(flavor = "multi_thread")]
async fn the_limit_of_headers_is_the_one_that_holds() {
    for limit in [4 << 10, 16 << 10, 64 << 10] {
        let harness = Harness::limited(wharf::http::HttpLimits::default().headers(limit)).await;
        let call = raw_http::modern_call(&harness);
        let head = call.find("\r\n\r\n").unwrap() + 4;
        let padded = |size: usize| {
            let padding = "x".repeat(size - head - "x: \r\n".len());
            call.replacen("accept:", &format!("x: {padding}\r\naccept:"), 1)
        };
        assert_eq!(padded(limit).find("\r\n\r\n"), Some(limit - 4));
        assert_eq!(raw_http::ask(&harness, &padded(limit)).await.status, 200, "{limit}");
        for size in [limit + 1, limit + 100, limit * 3 / 2, limit * 4] {
            assert_eq!(
                raw_http::ask(&harness, &padded(size)).await.status,
                431,
                "{size} of {limit}"
            );
        }
        HttpClient::modern(&harness).works().await;
    }
}

/// A client that uses TLS on a plain-text port gets a response that it can display.
#[tokio::test(flavor = "multi_thread")]
async fn tls_at_a_plain_port_has_a_clear_error() {
    let harness = Harness::start().await;
    // Start of a ClientHello of TLS 1.0 to 1.3, of which only a few bytes may have arrived.
    for begun in [&b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..], b"\x16\x03\x03"] {
        let mut stream = harness.connect().await;
        stream.write_all(begun).await.unwrap();
        let answer = raw_http::answer(&mut stream).await.expect("an answer");
        let body = String::from_utf8(answer.body).unwrap();
        assert_eq!(answer.status, 400);
        assert!(body.contains("TLS") && body.contains("http://"), "{body}");
    }
    HttpClient::modern(&harness).works().await;
}
