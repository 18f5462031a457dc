//! DNS rebinding: web pages must not reach the server through any entry point.

use http::{Request, header};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use wharf::http::Http;

use crate::advisories::{
    harness::Harness,
    http_client::{HttpClient, LEGACY},
    raw_http,
    web::{self, AnyBody, whole},
};

/// Foreign hosts that resemble loopback names.
const EVIL_HOSTS: &[&str] = &[
    "evil.example",
    "evil.example:8000",
    "localhost.evil.example",
    "127.0.0.1.evil.example:80",
    "evil.example:80@localhost",
    "localhost@evil.example",
    "0.0.0.0:8000",
    "169.254.169.254",
    "[::2]:80",
    "[::]:80",
    "[::ffff:10.0.0.1]",
    "localhost:80:80",
    "localhost, evil.example",
    "127.1",
    "2130706433",
    "",
];

const GOOD_HOSTS: &[&str] =
    &["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000"];

const EVIL_ORIGINS: &[&str] = &[
    "http://evil.example",
    "https://evil.example:8000",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://localhost@evil.example",
    "http://[::2]:3000",
    "file://",
    "null",
    "localhost",
    "",
];

const GOOD_ORIGINS: &[&str] =
    &["http://localhost:3000", "https://127.0.0.1", "http://[::1]:6274", "http://LOCALHOST"];

/// Entry point: HTTP method, target, headers, body.
pub struct EntryPoint {
    pub verb: &'static str,
    pub target: &'static str,
    headers: Vec<(&'static str, &'static str)>,
    body: String,
}

pub fn entry_points(harness: &Harness) -> Vec<EntryPoint> {
    let json = ("content-type", "application/json");
    let modern = HttpClient::modern(harness);
    let legacy = HttpClient { revision: LEGACY, ..modern.clone() };
    let call = modern.tool("count", json!({"to": 1})).to_string();
    let entry_point = |verb, target, headers: &[_], body| EntryPoint {
        verb,
        target,
        headers: headers.to_vec(),
        body,
    };
    let called = [json, raw_http::VERSION, ("mcp-method", "tools/call"), ("mcp-name", "count")];
    let events = ("accept", "text/event-stream");
    let session = ("mcp-session-id", "00000000000000000000000000000000");
    vec![
        entry_point("POST", "/mcp", &called, call.clone()),
        entry_point("POST", "/mcp", &[json], legacy.initialize().to_string()),
        entry_point("GET", "/mcp", &[events, session], String::new()),
        entry_point("DELETE", "/mcp", &[session], String::new()),
        entry_point("OPTIONS", "/mcp", &[("access-control-request-method", "POST")], String::new()),
        entry_point("PUT", "/mcp", &[], String::new()),
        entry_point("GET", "/sse", &[events], String::new()),
        entry_point("POST", "/messages?session=0", &[json], call),
    ]
}

/// Headers of a WebSocket handshake.
const UPGRADE: &[(&str, &str)] = &[
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
    ("sec-websocket-protocol", "mcp"),
];

pub fn websocket() -> EntryPoint {
    EntryPoint { verb: "GET", target: "/mcp", headers: UPGRADE.to_vec(), body: String::new() }
}

impl EntryPoint {
    /// Request in HTTP/1.1 format. The extra headers come first.
    pub fn written(&self, extra: &[(&str, &str)]) -> String {
        let headers = extra.iter().chain(&self.headers);
        let headers: String = headers.map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let EntryPoint { verb, target, body, .. } = self;
        let length = body.len();
        format!("{verb} {target} HTTP/1.1\r\ncontent-length: {length}\r\n{headers}\r\n{body}")
    }

    fn request(&self, authority: &str, extra: &[(&str, &str)]) -> Option<Request<AnyBody>> {
        let uri = format!("http://{authority}{}", self.target);
        let request = Request::builder().method(self.verb).uri(uri);
        let headers = extra.iter().chain(&self.headers);
        let request = headers.fold(request, |request, (name, value)| request.header(*name, *value));
        request.body(whole(self.body.clone())).ok()
    }
}

/// Starts a server with every transport; HTTP+SSE is off by default.
async fn start_with_all_transports() -> Harness {
    Harness::with(Http::new().sse_2024()).await
}

/// CVE-2025-66414, CVE-2025-66416, CVE-2026-34742, CVE-2026-35568, CVE-2026-42559 (RUSTSEC-2026-0189), CVE-2026-63118:
/// `Host` and `Origin` were not checked by default. CVE-2026-59950: nor were they in WebSocket handshakes.
#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_origin_is_rejected_over_http1() {
    let harness = start_with_all_transports().await;
    let own = harness.address.to_string();
    let mut knocks: Vec<Vec<(&str, &str)>> = Vec::new();
    for host in EVIL_HOSTS {
        knocks.push(vec![("host", host)]);
        knocks.push(vec![("host", host), ("origin", "http://localhost")]);
    }
    for origin in EVIL_ORIGINS {
        knocks.push(vec![("host", &own), ("origin", origin)]);
        knocks.push(vec![("host", "localhost"), ("origin", origin)]);
    }
    // After rebinding, the name of the page resolves to this machine: host and origin match.
    knocks.push(vec![("host", "evil.example"), ("origin", "http://evil.example")]);
    knocks.push(vec![("host", "localhost"), ("host", "evil.example")]);
    knocks.push(vec![
        ("host", "localhost"),
        ("origin", "http://localhost"),
        ("origin", "http://evil.example"),
    ]);
    knocks.push(vec![]);
    let mut entry_points = entry_points(&harness);
    entry_points.push(websocket());
    for entry_point in &entry_points {
        for request in &knocks {
            let answer = raw_http::ask(&harness, &entry_point.written(request)).await;
            let shown =
                format!("{} {} {request:?}: {}", entry_point.verb, entry_point.target, answer.head);
            // Two `Host` headers, or none, are invalid HTTP/1.1: either check may reject first.
            assert!(matches!(answer.status, 403 | 400), "{shown}");
            assert!(
                answer.status == 403 || request.iter().filter(|it| it.0 == "host").count() != 1,
                "{shown}"
            );
            assert!(!answer.head.to_ascii_lowercase().contains("access-control"), "{shown}");
            assert_eq!(answer.header("mcp-session-id"), None, "{shown}");
        }
        // The request target may name a host too.
        let absolute = EntryPoint {
            target: "http://evil.example/mcp",
            headers: entry_point.headers.clone(),
            body: entry_point.body.clone(),
            ..*entry_point
        };
        let answer = raw_http::ask(&harness, &absolute.written(&[("host", "localhost")])).await;
        assert_eq!(answer.status, 403, "{}", entry_point.verb);
    }
    assert_eq!(harness.counts.begun.get(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_origin_is_rejected_over_http2() {
    let harness = start_with_all_transports().await;
    let own = harness.address.to_string();
    let (mut line, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(harness.connect().await))
            .await
            .unwrap();
    tokio::spawn(connection);
    let mut refused = 0;
    for entry_point in &entry_points(&harness) {
        let hosts = EVIL_HOSTS.iter().map(|host| entry_point.request(host, &[]));
        let origins =
            EVIL_ORIGINS.iter().map(|origin| entry_point.request(&own, &[("origin", origin)]));
        let split = [entry_point.request("localhost", &[("host", "evil.example")])];
        // Values that are not a valid authority cannot be sent.
        for request in hosts.chain(origins).chain(split).flatten() {
            let shown = format!("{request:?}");
            line.ready().await.unwrap();
            let answer = line.send_request(request).await.unwrap();
            assert_eq!(answer.status(), 403, "{shown}");
            assert!(answer.headers().keys().all(|it| !it.as_str().starts_with("access-control")));
            refused += 1;
        }
    }
    assert!(refused > 100, "{refused}");
    assert_eq!(harness.counts.begun.get(), 0);
}

/// Control for the tests above: loopback hosts and origins are accepted at the same entry points.
#[tokio::test(flavor = "multi_thread")]
async fn loopback_hosts_are_allowed() {
    let harness = start_with_all_transports().await;
    let mut entry_points = entry_points(&harness);
    entry_points.push(websocket());
    let mut calls = 0;
    for entry_point in &entry_points {
        for host in GOOD_HOSTS {
            for origin in GOOD_ORIGINS {
                let answer = raw_http::ask(
                    &harness,
                    &entry_point.written(&[("host", host), ("origin", origin)]),
                )
                .await;
                assert_ne!(
                    answer.status, 403,
                    "{} {} {host} {origin}",
                    entry_point.verb, entry_point.target
                );
                assert!(!answer.head.to_ascii_lowercase().contains("access-control"));
                if entry_point.headers.contains(&("mcp-name", "count")) {
                    assert_eq!(answer.status, 200);
                    calls += 1;
                }
                if entry_point.headers.contains(&UPGRADE[1]) {
                    assert_eq!(answer.status, 101, "{}", answer.head);
                }
            }
        }
    }
    assert_eq!(calls, harness.counts.begun.get());
    assert!(calls > 0);
}

/// The same over IPv6, with the address and with the name.
#[tokio::test]
async fn the_ipv6_loopback_is_allowed() {
    let Some(harness) = Harness::on_ipv6().await else { return };
    HttpClient::modern(&harness).works().await;
    let evil = raw_http::modern_call(&harness)
        .replace(&format!("host: {}", harness.address), "host: [::2]");
    assert_eq!(raw_http::ask(&harness, &evil).await.status, 403);
}

/// An allowed host is accepted; that does not allow any other host.
#[tokio::test]
async fn an_allowed_host_does_not_allow_other_hosts() {
    let harness =
        Harness::with(Http::new().host("mcp.example.com").host("only.example.com:8000")).await;
    let call = raw_http::modern_call(&harness);
    for (host, status) in [
        ("mcp.example.com", 200),
        ("MCP.example.com:8000", 200),
        ("only.example.com:8000", 200),
        ("localhost", 200),
        ("only.example.com", 403),
        ("only.example.com:8001", 403),
        ("example.com", 403),
        ("evil.mcp.example.com", 403),
        ("mcp.example.com.evil.example", 403),
        ("mcp.example.com@evil.example", 403),
    ] {
        let call = call.replace(&format!("host: {}", harness.address), &format!("host: {host}"));
        assert_eq!(raw_http::ask(&harness, &call).await.status, status, "{host}");
    }
}

/// CVE-2026-33252: browsers send a POST that is not JSON to any origin without a preflight request.
#[tokio::test]
async fn a_form_does_not_pass_for_json() {
    let harness = Harness::with(Http::new().sse_2024()).await;
    let caller = HttpClient::modern(&harness);
    let call = caller.tool("count", json!({"to": 1}));
    for target in ["/mcp", "/messages?session=0"] {
        for kind in [
            "text/plain",
            "text/plain; charset=utf-8",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=x",
            "text/plain; application/json",
            "application/json-seq",
            "",
        ] {
            let mut request = caller.post(&call);
            *request.uri_mut() = format!("http://{}{target}", harness.address).parse().unwrap();
            request.headers_mut().insert(header::CONTENT_TYPE, kind.parse().unwrap());
            assert_eq!(caller.request(request).await.status(), 415, "{target} {kind}");
        }
        let mut request = caller.post(&call);
        *request.uri_mut() = format!("http://{}{target}", harness.address).parse().unwrap();
        request.headers_mut().remove(header::CONTENT_TYPE);
        assert_eq!(caller.request(request).await.status(), 415, "{target}");
    }
    assert_eq!(harness.counts.begun.get(), 0);
    let mut request =
        web::post(&harness.url(), crate::advisories::http_client::MODERN, call.to_string());
    request
        .headers_mut()
        .insert(header::CONTENT_TYPE, "application/json; charset=utf-8".parse().unwrap());
    assert_eq!(caller.request(request).await.status(), 200);
}
