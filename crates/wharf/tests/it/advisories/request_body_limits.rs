//! Request bodies must not exhaust the server's memory.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, split},
    time::timeout,
};
use tower_service::Service;
use wharf::{
    Server,
    auth::{AuthRejection, AuthRequest, Authenticated, server::from_fn},
    http::HttpLimits,
    server::{Limits, MessageLimits},
};

use crate::advisories::{
    harness::{Harness, PATIENCE},
    http_client::{self, HttpClient, LEGACY, MODERN},
    raw_http,
    resource_starvation::until,
    web::{self, AnyBody},
};

/// Maximum length of a message in the tests that set it, in bytes.
const LONGEST: usize = 4096;

async fn small() -> Harness {
    let limits = Limits::default().messages(MessageLimits::default().message(LONGEST));
    Harness::tuned(|server| server.limits(limits)).await
}

/// Call that is exactly `size` bytes long.
fn sized(caller: &HttpClient, size: usize) -> String {
    let call = |text: String| caller.tool("echo", json!({"text": text})).to_string();
    let around = call(String::new()).len();
    let call = call("x".repeat(size - around));
    assert_eq!(call.len(), size);
    call
}

#[tokio::test]
async fn a_body_is_not_longer_than_it_may_be() {
    let harness = small().await;
    for pool in [web::http1(), web::http2()] {
        for caller in HttpClient::both(&harness).await {
            let caller = HttpClient { pool: pool.clone(), ..caller };
            for (size, status) in [(LONGEST - 1, 200), (LONGEST, 200), (LONGEST + 1, 413)] {
                let call = serde_json::from_str(&sized(&caller, size)).unwrap();
                let response = caller.send(&call).await;
                assert_eq!(response.status(), status, "{size}");
                let reply = http_client::reply(response).await;
                if status == 413 {
                    assert_eq!(reply["error"]["code"], -32801);
                    assert_eq!(reply["error"]["data"]["limit"], LONGEST);
                }
            }
            caller.works().await;
        }
    }
}

/// A body whose declared length is too large is rejected before it arrives.
#[tokio::test]
async fn a_body_that_is_declared_too_long_is_not_waited_for() {
    let harness = small().await;
    for length in [LONGEST as u64 + 1, u64::from(u32::MAX), i64::MAX as u64] {
        let head = raw_http::post(&harness, &[raw_http::VERSION], "");
        let head = head.replace("content-length: 0", &format!("content-length: {length}"));
        let answer = raw_http::ask(&harness, &head).await;
        assert_eq!((answer.status, answer.code()), (413, -32801), "{length}");
        // Without `Connection: close`, a client would send its next request after the unread body.
        assert_eq!(answer.header("connection"), Some("close"), "{length}");
    }
    let huge = raw_http::post(&harness, &[raw_http::VERSION], "")
        .replace("content-length: 0", "content-length: 99999999999999999999999");
    assert_eq!(raw_http::ask(&harness, &huge).await.status, 400);
    HttpClient::modern(&harness).works().await;
}

/// Requests that are rejected by their heads: HTTP method, path, host, and another header.
const REFUSED: [(u16, [&str; 5]); 7] = [
    (404, ["POST", "/elsewhere", "localhost", "x", "y"]),
    (404, ["PUT", "/mcp/", "localhost", "x", "y"]),
    (403, ["POST", "/mcp", "evil.example", "x", "y"]),
    (403, ["POST", "/mcp", "localhost", "origin", "https://evil.example"]),
    (405, ["PUT", "/mcp", "localhost", "x", "y"]),
    (415, ["POST", "/mcp", "localhost", "content-type", "text/plain"]),
    (406, ["POST", "/mcp", "localhost", "accept", "text/html"]),
];

/// A rejection has `Connection: close` if the rest of the body is longer than the server reads.
#[tokio::test]
async fn a_rejection_states_whether_the_connection_closes() {
    let harness = Harness::start().await;
    for (status, [verb, path, host, name, value]) in REFUSED {
        let kind = if status == 406 { "content-type: application/json\r\n" } else { "" };
        let head = |length: &str| {
            format!(
                "{verb} {path} HTTP/1.1\r\nhost: {host}\r\n{kind}{name}: {value}\r\n{length}\r\n"
            )
        };
        // A body that never arrives, one that is too long to wait for, and one that waits for `100 Continue`.
        for unsent in [
            "content-length: 5\r\n",
            "content-length: 99999\r\n",
            "content-length: 5\r\nexpect: 100-continue\r\n",
        ] {
            let answer = raw_http::ask(&harness, &head(unsent)).await;
            assert_eq!(answer.status, status, "{}", answer.head);
            assert_eq!(
                answer.header("connection"),
                Some("close"),
                "{status} {unsent}: {}",
                answer.head
            );
        }
        // If the whole body, or no body, has arrived, the connection stays open.
        let mut stream = harness.connect().await;
        for sent in ["content-length: 5\r\n", "content-length: 0\r\n", ""] {
            let body = if sent.contains('5') { "hello" } else { "" };
            stream.write_all(format!("{}{body}", head(sent)).as_bytes()).await.unwrap();
            let answer = raw_http::answer(&mut stream).await.expect("the connection stays");
            assert_eq!((answer.status, answer.header("connection")), (status, None));
        }
    }
}

/// Body in two pieces that arrive after the head, and a flag that is set when all of it was read.
fn late(ends: bool) -> (AnyBody, Arc<AtomicBool>) {
    let taken = Arc::<AtomicBool>::default();
    let done = taken.clone();
    let pieces = stream::unfold(0, move |turn| {
        let done = done.clone();
        async move {
            tokio::time::sleep(Duration::from_millis(100)).await;
            match turn {
                0 | 1 => Some((Ok(Frame::data(Bytes::from_static(b"{}"))), turn + 1)),
                _ if ends => {
                    done.store(true, Ordering::SeqCst);
                    None
                }
                _ => std::future::pending().await,
            }
        }
    });
    (StreamBody::new(pieces).boxed(), taken)
}

/// A late body is read and discarded, so that the connection can be reused, but only for a limited time.
#[tokio::test(start_paused = true)]
async fn the_rest_of_a_refused_request_may_come_late() {
    let none = from_fn(|_: &AuthRequest<'_>| {
        Err::<Authenticated, _>(AuthRejection::new(401, "Nobody comes in"))
    });
    let open = Server::new("open", "1").build().unwrap();
    let closed = Server::new("closed", "1").auth(none).build().unwrap();
    let stranger = (401, ["POST", "/mcp", "localhost", "x", "y"]);
    let cases = REFUSED.iter().filter(|it| it.0 != 404).map(|it| (&open, *it));
    for (endpoint, (status, [verb, path, host, name, value])) in cases.chain([(&closed, stranger)])
    {
        for ends in [true, false] {
            let (body, taken) = late(ends);
            let request = http::Request::builder().method(verb).uri(path).header("host", host);
            let request = request.header(name, value);
            let request = match status {
                406 => request.header("content-type", "application/json"),
                _ => request,
            };
            let request = request.body(body).unwrap();
            let response = endpoint.http().call(request).await.unwrap();
            assert_eq!(response.status(), status);
            assert_eq!(taken.load(Ordering::SeqCst), ends, "{status}");
            assert_eq!(response.headers().contains_key("connection"), !ends, "{status}");
        }
    }
}

/// With the default limit and an endless body of unknown length (CVE-2026-109527, CVE-2026-108395, CVE-2026-67432,
/// GHSA-f897-62hf-6gxq).
#[tokio::test(flavor = "multi_thread")]
async fn an_endless_body_is_not_read_to_no_end() {
    let harness = Harness::start().await;
    for version in [MODERN, LEGACY] {
        let head = raw_http::post(&harness, &[("mcp-protocol-version", version)], "");
        let head = head.replace("content-length: 0", "transfer-encoding: chunked");
        let (mut reader, mut writer) = split(harness.connect().await);
        let endless = tokio::spawn(async move {
            writer.write_all(head.as_bytes()).await.unwrap();
            let chunk = [b"10000\r\n".as_slice(), &[b' '; 0x10000], b"\r\n"].concat();
            // Up to four times the limit, unless the server stops reading.
            let mut sent = 0;
            while sent < 1024 && writer.write_all(&chunk).await.is_ok() {
                sent += 1;
            }
            (sent, writer)
        });
        let mut status = [0; 12];
        timeout(PATIENCE, reader.read_exact(&mut status)).await.expect("patience").unwrap();
        assert_eq!(&status, b"HTTP/1.1 413");
        let (sent, _writer) = endless.await.unwrap();
        assert!(sent >= 256, "{sent} chunks of 64 KiB are less than what may be sent");
        // The server closes the connection although the client does not.
        let rest = timeout(PATIENCE, reader.read_to_end(&mut Vec::new())).await;
        assert!(rest.is_ok(), "still open");
    }
    HttpClient::modern(&harness).works().await;
}

/// The memory of a body counts until its call ends, even if the response began early, and one caller cannot use all of
/// it.
#[tokio::test(flavor = "multi_thread")]
async fn a_body_counts_until_its_call_is_over() {
    const SIZE: usize = 1 << 20;
    for legacy in [false, true] {
        // Memory for two bodies, of which one caller gets one.
        let http = HttpLimits::default().bodies(6 * SIZE).body(Duration::from_millis(300));
        let messages = MessageLimits::default().message(SIZE);
        let limits = Limits::default().http(http).messages(messages);
        let harness = Harness::tuned(|server| server.limits(limits)).await;
        let caller =
            if legacy { HttpClient::legacy(&harness).await } else { HttpClient::modern(&harness) };
        let large = |id: u32| {
            let mut call = caller.tool("wait", json!({}));
            call["params"]["_meta"]["padding"] = "x".repeat(SIZE - 1024).into();
            call["id"] = id.into();
            call
        };
        let first = caller.send(&large(1)).await;
        assert_eq!(first.status(), 200);
        harness.counts.begun.reaches(1).await;
        let second = caller.send(&large(2)).await;
        assert_eq!((second.status().as_u16(), harness.counts.begun.get()), (503, 1));
        assert!(second.headers().contains_key("retry-after"));
        // Small bodies are still accepted.
        let mut small = caller.tool("echo", json!({"text": "on"}));
        small["id"] = 3.into();
        assert_eq!(http_client::text(&http_client::reply(caller.send(&small).await).await), "on");
        harness.counts.gate.add();
        assert_eq!(http_client::text(&http_client::reply(first).await), "through");
        let third = caller.send(&large(4)).await;
        assert_eq!(http_client::text(&http_client::reply(third).await), "through");
    }
}

/// CVE-2026-111768: four megabytes of tiny elements took gigabytes of memory.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn tiny_elements_do_not_explode() {
    const BODY: usize = 4 << 20;
    const TIMES: usize = 8;
    const TRACEPARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let process = crate::advisories::server_process::ServerProcess::start().await;
    let old = process.caller("2025-03-26").opened().await;
    let modern = process.caller(MODERN);
    modern.works().await;
    old.works().await;
    let before = process.peak();
    let elements = |element: &str| {
        format!("[{}{element}]", format!("{element},").repeat(BODY / (element.len() + 1) - 1))
    };
    for caller in [&modern, &old] {
        for element in ["{}", "[]", "0", "\"\"", "null"] {
            let elements = elements(element);
            let inside = |place: &str| {
                caller.tool("echo", json!({"text": "PLACE"})).to_string().replace(place, &elements)
            };
            // The server reads these members of `_meta` for its log.
            let within_meta = |name: &str| {
                let mut call = caller.tool("echo", json!({"text": "on"}));
                call["params"]["_meta"]["traceparent"] = TRACEPARENT.into();
                call["params"]["_meta"][name] = "PLACE".into();
                call.to_string().replace("\"PLACE\"", &elements)
            };
            let mut messages =
                vec![elements.clone(), inside("\"PLACE\""), inside("{\"text\":\"PLACE\"}")];
            // The element with the largest tree.
            if element == "{}" {
                messages.extend(["traceparent", "tracestate", "baggage"].map(within_meta));
            }
            for (index, message) in messages.into_iter().enumerate() {
                let mut request =
                    caller.post(&json!({"method": "tools/call", "params": {"name": "echo"}}));
                *request.body_mut() = web::whole(message);
                let response = caller.request(request).await;
                assert!(!response.status().is_server_error(), "{element}: {response:?}");
                assert!(index < 3 || response.status() == 200, "{element}: {response:?}");
                // The response is small too.
                let body = http_client::body(response).await;
                assert!(body.len() <= BODY, "{} bytes for {element}", body.len());
            }
            caller.works().await;
        }
    }
    let memory_growth = process.peak() - before;
    assert!(memory_growth <= TIMES * BODY, "{} MiB for {} MiB", memory_growth >> 20, BODY >> 20);
}

/// Fields in which a client describes itself at any length: name of the field, and the message with the flood in it.
fn client_info_fields(flood: &str) -> Vec<(&'static str, String)> {
    let opening = |info: &str, capabilities: &str, params: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":1,"method":"initialize","params":{{"protocolVersion":"{LEGACY}",
            "clientInfo":{{"name":"c","version":"NUMBER"{info}}},"capabilities":{{{capabilities}}}{params}}}}}"#
        )
        .replace('\n', " ")
    };
    let text = "x".repeat(flood.len());
    let icons = format!("[{}]", r#"{"src":""},"#.repeat(flood.len() / 11).trim_end_matches(','));
    vec![
        // Baseline: the memory that a connection needs to read a message of that length.
        ("padding", opening("", "", &" ".repeat(flood.len()))),
        ("experimental", opening("", &format!(r#""experimental":{{"a":{flood}}}"#), "")),
        ("extensions", opening("", &format!(r#""extensions":{{"a/b":{flood}}}"#), "")),
        ("tasks", opening("", &format!(r#""tasks":{{"a":{flood}}}"#), "")),
        ("roots", opening("", &format!(r#""roots":{{"a":{flood}}}"#), "")),
        ("sampling", opening("", &format!(r#""sampling":{{"a":{flood}}}"#), "")),
        ("elicitation", opening("", &format!(r#""elicitation":{{"a":{flood}}}"#), "")),
        ("unknown capabilities", opening("", &format!(r#""a":{flood}"#), "")),
        ("icons", opening(&format!(r#","icons":{icons}"#), "", "")),
        ("description", opening(&format!(r#","description":"{text}""#), "", "")),
        ("title", opening(&format!(r#","title":"{text}""#), "", "")),
        ("websiteUrl", opening(&format!(r#","websiteUrl":"https://{text}""#), "", "")),
        ("unknown fields", opening(&format!(r#","a":{flood}"#), "", "")),
        ("_meta", opening("", "", &format!(r#","_meta":{{"a":{flood}}}"#))),
        ("unknown params", opening("", "", &format!(r#","a":{flood}"#))),
    ]
}

/// CVE-2026-111768, in stored state: 250 kB of `initialize` took 16 MB for as long as the session lasted.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn client_info_is_limited_in_size() {
    const OPENINGS: usize = 10;
    const KEPT: usize = 32_000;
    // Lasting memory of a connection, in addition to the client's data: buffers and tasks.
    const CONNECTION: usize = 64_000;
    let process = crate::advisories::server_process::ServerProcess::start_tidy().await;
    let flood = format!("[{}0]", r#"{"":0},"#.repeat(240_000 / 7));
    for transport in ["http", "http+sse", "websocket", "tcp", "unix"] {
        let around = if transport == "http" { 0 } else { CONNECTION };
        // All connections stay open until the end, so that none reuses the memory of another.
        let mut all = Vec::new();
        for (place, opening) in client_info_fields(&flood) {
            let mut open = async |number: usize| {
                // Every client sends different data, because equal data is shared.
                let opening = opening.replace("NUMBER", &number.to_string());
                all.push(open_over(&process, transport, &opening).await);
            };
            // Two warm-up rounds: memory that the server allocates for one connection is reused for the next.
            for number in 0..2 {
                open(number).await;
            }
            let before = process.resident();
            for number in 0..OPENINGS {
                open(2 + number).await;
            }
            let kept = process.resident().saturating_sub(before) / OPENINGS;
            assert!(kept <= KEPT + around, "{place} over {transport}: {kept} bytes kept");
        }
    }
}

/// Stream of any type.
#[cfg(target_os = "linux")]
trait Stream: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin {}

#[cfg(target_os = "linux")]
impl<S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Send + Unpin> Stream for S {}

/// Opens a session; returns the connection that keeps it open, or nothing over HTTP.
#[cfg(target_os = "linux")]
async fn open_over(
    process: &crate::advisories::server_process::ServerProcess,
    transport: &str,
    opening: &str,
) -> Option<Box<dyn Stream>> {
    use crate::advisories::resource_starvation::{frame, websocket};
    use tokio::net::{TcpStream, UnixStream};

    let post = |path: &str| {
        let length = opening.len();
        format!(
            "POST {path} HTTP/1.1\r\nhost: localhost\r\naccept: application/json\r\ncontent-type: \
             application/json\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{opening}"
        )
    };
    let line = format!("{opening}\n").into_bytes();
    let http = async || TcpStream::connect(process.address).await.unwrap();
    let (mut stream, sent, expected): (Box<dyn Stream>, Vec<u8>, &str) = match transport {
        "http" => (Box::new(http().await), post("/mcp").into_bytes(), "mcp-session-id"),
        "http+sse" => {
            let mut events = http().await;
            let get = "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
            events.write_all(get.as_bytes()).await.unwrap();
            let received = until(&mut events, "\n\n").await;
            let path = received.split("data: ").nth(1).and_then(|it| it.lines().next()).unwrap();
            let mut posting = http().await;
            posting.write_all(post(&format!("/{path}")).as_bytes()).await.unwrap();
            until(&mut posting, " 202 ").await;
            (Box::new(events), Vec::new(), "\"result\"")
        }
        "websocket" => {
            let sent = [&*frame(opening.len()), opening.as_bytes()].concat();
            (Box::new(websocket(http().await).await), sent, "\"result\"")
        }
        "unix" => (Box::new(UnixStream::connect(&process.unix).await.unwrap()), line, "\"result\""),
        _ => (Box::new(TcpStream::connect(process.lines).await.unwrap()), line, "\"result\""),
    };
    stream.write_all(&sent).await.unwrap();
    until(&mut stream, expected).await;
    (transport != "http").then_some(stream)
}
