//! Each rejection, and each client that is too slow, has exactly one line in the log that names it.
//!
//! Each test has a process of its own: the rate of log lines that clients can cause is limited for each reason and
//! transport.

use std::time::Duration;

use futures_util::{SinkExt, StreamExt};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::TcpStream,
    task::yield_now,
    time::{sleep, timeout},
};
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest},
};
use tracing::Level;
use wharf::{
    Endpoint, Server,
    auth::{AuthDecision, AuthRejection, AuthRequest, Authenticated, Authenticator},
    http::HttpLimits,
    server::{Limits, LineLimits},
};
use wharf_testbed::LogCatcher;

use crate::advisories::{
    harness::{Harness, PATIENCE},
    http_client::{HttpClient, LEGACY},
    raw_http::{self, VERSION},
    tls,
};

/// Waits for lines with all of these texts, and asserts that there is exactly one.
pub async fn assert_one(log: &LogCatcher, texts: &[&str]) {
    let found = || -> Vec<String> {
        let has_all = |line: &String| texts.iter().all(|text| line.contains(text));
        log.lines().into_iter().filter(has_all).collect()
    };
    let appears = async {
        while found().is_empty() {
            // Lets a paused clock advance, so that a line that is missing fails the test.
            sleep(Duration::from_millis(1)).await;
        }
    };
    let appeared = timeout(PATIENCE, appears).await;
    assert!(appeared.is_ok(), "no line with {texts:?}: {:#?}", log.lines());
    assert_eq!(found().len(), 1, "{texts:?}: {:#?}", log.lines());
}

/// Asserts that nothing except this rejection was logged since the line `before`.
pub async fn assert_refused(log: &LogCatcher, before: usize, transport: &str, reason: &str) {
    let named = format!("reason=\"{reason}\"");
    assert_one(log, &[&named, &format!("transport=\"{transport}\""), "refused a request"]).await;
    let mut since = log.lines().split_off(before);
    // The server may start to listen after the log has started.
    since.retain(|line| !line.contains("message=listening"));
    assert_eq!(since.len(), 1, "{reason}: {since:#?}");
}

fn limited_harness() -> HttpLimits {
    HttpLimits::default().head(Duration::from_millis(100)).body(Duration::from_millis(100))
}

/// Request with these headers and a host, without a body.
fn bare(harness: &Harness, line: &str, headers: &str) -> String {
    format!("{line} HTTP/1.1\r\nhost: {}\r\n{headers}\r\n", harness.address)
}

/// Rejected requests, with the expected status and reason.
fn refused_requests(harness: &Harness) -> Vec<(String, u16, &'static str)> {
    let call = raw_http::modern_call(harness);
    let nonsense = raw_http::post(
        harness,
        &[("mcp-method", "acme/nonsense"), VERSION],
        &HttpClient::modern(harness).message("acme/nonsense", json!({})).to_string(),
    );
    let mismatch = call.replace("mcp-name: echo", "mcp-name: other");
    let version = call.replace(crate::advisories::http_client::MODERN, "1999-01-01");
    let own_host = format!("host: {}", harness.address);
    vec![
        (call.replace(&own_host, "host: evil.example"), 403, "forbidden_host"),
        (
            call.replace(&own_host, &format!("{own_host}\r\norigin: http://evil.example")),
            403,
            "forbidden_origin",
        ),
        (call.replace(&own_host, &format!("{own_host}\r\n{own_host}")), 400, "bad_request"),
        (bare(harness, "PUT /mcp", ""), 405, "method_not_allowed"),
        (bare(harness, "GET /nothing", ""), 404, "not_found"),
        (
            call.replace("content-type: application/json", "content-type: text/plain"),
            415,
            "unsupported_media_type",
        ),
        (call.replace("application/json, text/event-stream", "text/html"), 406, "not_acceptable"),
        (raw_http::post(harness, &[VERSION], "{nonsense"), 400, "parse_error"),
        (
            raw_http::post(harness, &[VERSION], r#"{"jsonrpc":"1.0","id":1}"#),
            400,
            "invalid_request",
        ),
        (nonsense, 404, "method_not_found"),
        (mismatch, 400, "header_mismatch"),
        (version, 400, "unsupported_version"),
        (
            raw_http::post(
                harness,
                &[("mcp-session-id", "00000000000000000000000000000000")],
                r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#,
            ),
            404,
            "unknown_session",
        ),
        (
            raw_http::post(harness, &[VERSION], "")
                .replace("content-length: 0", "content-length: 999999999"),
            413,
            "too_large",
        ),
        (
            raw_http::post(harness, &[VERSION], "")
                .replace("content-length: 0", "content-length: 10"),
            408,
            "request_timeout",
        ),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refused_request_has_one_line() {
    let harness = Harness::limited(limited_harness()).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    for (request, status, reason) in refused_requests(&harness) {
        let before = log.lines().len();
        let response = raw_http::ask(&harness, &request).await;
        assert_eq!(response.status, status, "{reason}: {request}");
        assert_refused(&log, before, "http", reason).await;
        let line = log.lines().pop().unwrap();
        assert!(line.contains(&format!("status={status}")), "{line}");
        assert!(line.contains("client=127.0.0.1:"), "{line}");
    }
    harness.stop().await;
}

/// Rejects every request with the status in its header.
struct Rejecting;

impl Authenticator for Rejecting {
    fn admit(&self, request: &AuthRequest<'_>) -> AuthDecision {
        let status = request.headers["x-status"].to_str().unwrap().parse().unwrap();
        AuthDecision::Now(Err::<Authenticated, _>(AuthRejection::new(status, "Not today")))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_rejection_of_the_authenticator_has_one_line() {
    let harness = Harness::tuned(|server| server.auth(Rejecting)).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    for (status, reason) in [
        (401, "unauthenticated"),
        (403, "forbidden"),
        (429, "rate_limited"),
        (503, "store_unavailable"),
        (400, "bad_request"),
    ] {
        let before = log.lines().len();
        let status_text = status.to_string();
        let request = raw_http::post(&harness, &[("x-status", &status_text)], "{}");
        assert_eq!(raw_http::ask(&harness, &request).await.status, status);
        assert_refused(&log, before, "http", reason).await;
    }
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_is_too_long_has_one_line() {
    let harness = Harness::start().await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    let mut stream = harness.connect().await;
    let head = bare(&harness, "GET /mcp", &format!("x: {}\r\n", "x".repeat(1 << 20)));
    let _ = stream.write_all(head.as_bytes()).await;
    assert_refused(&log, 0, "http", "too_large").await;
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_head_that_does_not_end_has_one_line() {
    let harness = Harness::limited(limited_harness()).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    let mut stream = harness.connect().await;
    stream.write_all(b"POST /mcp HTTP/1.1\r\nhost: ").await.unwrap();
    assert_refused(&log, 0, "http", "request_timeout").await;
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_websocket_upgrade_and_a_bad_frame_have_one_line_each() {
    let harness = Harness::start().await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    let upgrade = bare(
        &harness,
        "GET /mcp",
        "connection: upgrade\r\nupgrade: websocket\r\nsec-websocket-version: 12\r\n",
    );
    assert_eq!(raw_http::ask(&harness, &upgrade).await.status, 426);
    assert_refused(&log, 0, "http", "bad_request").await;
    let before = log.lines().len();
    let mut socket = websocket(&harness).await;
    socket.send(Message::binary(vec![1, 2, 3])).await.unwrap();
    assert_refused(&log, before, "websocket", "invalid_request").await;
    harness.stop().await;
}

async fn websocket(harness: &Harness) -> tokio_tungstenite::WebSocketStream<TcpStream> {
    let mut request = format!("ws://{}/mcp", harness.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    client_async(request, harness.connect().await).await.unwrap().0
}

/// Lines that are rejected on a connection that is not initialized, with the reason.
const REFUSED_LINES: [(&str, &str); 4] = [
    ("{nonsense", "parse_error"),
    (r#"{"jsonrpc":"1.0","id":1}"#, "invalid_request"),
    (r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#, "not_initialized"),
    (
        r#"{"jsonrpc":"2.0","id":1,"method":"acme/nonsense","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        "method_not_found",
    ),
];

async fn assert_refused_lines<S: AsyncRead + AsyncWrite + Unpin>(
    log: &LogCatcher,
    transport: &str,
    mut stream: S,
) {
    for (line, reason) in REFUSED_LINES {
        let before = log.lines().len();
        stream.write_all(format!("{line}\n").as_bytes()).await.unwrap();
        assert_refused(log, before, transport, reason).await;
    }
    let before = log.lines().len();
    let long = format!("\"{}\"\n", "x".repeat(5 << 20));
    stream.write_all(long.as_bytes()).await.unwrap();
    assert_refused(log, before, transport, "too_large").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn each_refused_line_has_one_line() {
    let server = || Server::new("lines", "1.0.0").limits(small_messages());
    let endpoint = server().build().unwrap();
    let listener = Endpoint::listen_tcp("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = endpoint.clone();
    tokio::spawn(async move { serving.serve_listener(listener).await });
    let path = std::env::temp_dir().join(format!("wharf-lines-{}.sock", std::process::id()));
    let (serving, socket) = (endpoint.clone(), path.clone());
    tokio::spawn(async move { serving.serve_unix(socket).await });
    let harness = Harness::tuned(|server| server.limits(small_messages())).await;
    let mut socket = websocket(&harness).await;
    let unix = async {
        loop {
            match tokio::net::UnixStream::connect(&path).await {
                Ok(stream) => return stream,
                Err(_) => yield_now().await,
            }
        }
    };
    let unix = timeout(PATIENCE, unix).await.expect("patience");
    let tcp = TcpStream::connect(address).await.unwrap();
    let log = LogCatcher::on_all_threads(Level::INFO);
    assert_refused_lines(&log, "tcp", tcp).await;
    assert_refused_lines(&log, "unix", unix).await;
    let (reader, writer) = endpoint.connect_memory();
    assert_refused_lines(&log, "in-memory", tokio::io::join(reader, writer)).await;
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let (reader, writer) = tokio::io::split(theirs);
    let serving = endpoint.clone();
    tokio::spawn(async move { serving.serve_stream(reader, writer).await });
    assert_refused_lines(&log, "stream", ours).await;
    for (line, reason) in REFUSED_LINES {
        let before = log.lines().len();
        socket.send(Message::text(line)).await.unwrap();
        assert!(socket.next().await.is_some());
        assert_refused(&log, before, "websocket", reason).await;
    }
    harness.stop().await;
}

fn small_messages() -> Limits {
    let mut limits = Limits::default();
    limits.messages.message = 1 << 20;
    limits
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_connection_has_one_line() {
    let harness = Harness::limited(HttpLimits::default().connections(1)).await;
    let busy = HttpClient::modern(&harness);
    let call = busy.tool("wait", json!({}));
    let _open = busy.send(&call).await;
    harness.counts.begun.reaches(1).await;
    let log = LogCatcher::on_all_threads(Level::INFO);
    for _ in 0..5 {
        let mut refused = Vec::new();
        let _ = timeout(PATIENCE, harness.connect().await.read_to_end(&mut refused)).await;
        assert!(refused.starts_with(b"HTTP/1.1 503"));
    }
    assert_refused(&log, 0, "http", "too_many_connections").await;
    harness.counts.gate.add();
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_session_has_one_line() {
    let harness = Harness::limited(HttpLimits::default().sessions(1)).await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let busy = fresh.clone().opened().await;
    let _open = busy.send(&busy.tool("wait", json!({}))).await;
    harness.counts.begun.reaches(1).await;
    let log = LogCatcher::on_all_threads(Level::WARN);
    for _ in 0..3 {
        assert_eq!(fresh.send(&fresh.initialize()).await.status(), 503);
    }
    assert_refused(&log, 0, "http", "too_many_sessions").await;
    harness.counts.gate.add();
    harness.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_tls_handshake_has_one_line() {
    let (harness, _) = tls::encrypted().await;
    let log = LogCatcher::on_all_threads(Level::WARN);
    let mut stream = harness.connect().await;
    stream.write_all(b"GET /mcp HTTP/1.1\r\n\r\n").await.unwrap();
    assert_refused(&log, 0, "http", "tls_handshake").await;
    harness.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_slow_message_and_a_slow_reader_have_one_line_each() {
    let log = LogCatcher::on_all_threads(Level::INFO);
    let lines = LineLimits::default().write(Duration::from_secs(3));
    let server = Server::new("slow", "1.0.0").limits(Limits::default().lines(lines));
    let endpoint = server.build().unwrap();
    let serve = |size| {
        let (ours, theirs) = tokio::io::duplex(size);
        let (reader, writer) = tokio::io::split(theirs);
        let endpoint = endpoint.clone();
        (ours, tokio::spawn(async move { endpoint.serve_stream(reader, writer).await }))
    };
    let (mut slow, serving) = serve(1 << 10);
    slow.write_all(b"{\"jsonrpc\"").await.unwrap();
    let mut answer = String::new();
    slow.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("too long to arrive"), "{answer}");
    serving.await.unwrap();
    assert_refused(&log, 0, "stream", "request_timeout").await;
    let before = log.lines().len();
    let (mut unread, serving) = serve(16);
    unread.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
    serving.await.unwrap();
    assert_one(&log, &["the client does not read", "transport=\"stream\""]).await;
    assert_eq!(log.lines().len(), before + 1, "{:#?}", log.lines());
}
