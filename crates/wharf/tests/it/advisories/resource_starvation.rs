//! One caller must not exhaust shared resources: sessions, connections, message memory.
//!
//! Callers are identified by address here: 127.0.0.1 is the attacker, 127.0.0.2 another client.

use std::{net::SocketAddr, time::Duration};

use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::json;
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::{sleep, timeout},
};
use tower_service::Service;
use wharf::{
    http::{Http, HttpLimits},
    model::RemoteAddress,
    server::Limits,
};

use crate::advisories::{
    attacked_server::{HandlerCounts, server},
    harness::{Harness, PATIENCE},
    http_client::{self, HttpClient, LEGACY, SESSION},
    raw_http, web,
};

const NEWCOMER: &str = "127.0.0.2";

/// Connects from the address of the second client.
pub async fn connect_as_newcomer(to: SocketAddr) -> TcpStream {
    connect_from(NEWCOMER, to).await
}

/// Connects from this loopback address.
pub async fn connect_from(from: &str, to: SocketAddr) -> TcpStream {
    let socket = TcpSocket::new_v4().expect("a socket");
    socket.bind(SocketAddr::new(from.parse().expect("an address"), 0)).expect("loopback");
    timeout(PATIENCE, socket.connect(to)).await.expect("patience").expect("a connection")
}

/// Upgrades the connection to WebSocket.
pub async fn websocket(mut stream: TcpStream) -> TcpStream {
    let request = "GET /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
                 sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
                 sec-websocket-protocol: mcp\r\n\r\n";
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    assert_eq!(raw_http::answer(&mut stream).await.expect("an answer").status, 101);
    stream
}

/// Head of a text frame of this length, masked with zeros so that the text is unchanged.
pub fn frame(length: usize) -> Vec<u8> {
    let mut head = vec![0x81, 0xff];
    head.extend((length as u64).to_be_bytes());
    head.extend([0; 4]);
    head
}

/// Asserts that the server answers a modern HTTP call of the second client.
async fn newcomer_works(harness: &Harness) {
    let mut stream = connect_as_newcomer(harness.address).await;
    stream.write_all(raw_http::modern_call(harness).as_bytes()).await.expect("the server reads");
    assert_eq!(raw_http::answer(&mut stream).await.expect("an answer").status, 200);
}

/// Ten thousand used sessions of one caller locked all other clients out for half an hour.
#[tokio::test]
async fn ten_thousand_sessions_of_one_caller_leave_room_for_others() {
    let mut service = server(&HandlerCounts::default()).build().expect("a server").http();
    let mut post = async |address: &str, session: Option<&str>, message: serde_json::Value| {
        let mut request = web::post("http://localhost/mcp", LEGACY, message.to_string());
        let address = SocketAddr::new(address.parse().expect("an address"), 1);
        request.extensions_mut().insert(RemoteAddress(address));
        request.headers_mut().extend(session.map(|it| (SESSION, it.parse().expect("text"))));
        let Ok(response) = service.call(request).await;
        let session =
            response.headers().get(SESSION).map(|it| it.to_str().expect("text").to_owned());
        (response.status().as_u16(), session)
    };
    let info = json!({"name": "a", "version": "1"});
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": info});
    let opening = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let ping = json!({"jsonrpc": "2.0", "id": 2, "method": "ping"});
    let mut first = None;
    for _ in 0..10_000 {
        let (status, session) = post("127.0.0.1", None, opening.clone()).await;
        assert_eq!(status, 200);
        assert_eq!(post("127.0.0.1", session.as_deref(), ping.clone()).await.0, 200);
        first = first.or(session);
    }
    // All sessions exist, and another caller can still open one.
    assert_eq!(post("127.0.0.1", first.as_deref(), ping.clone()).await.0, 200);
    let (status, session) = post(NEWCOMER, None, opening.clone()).await;
    assert_eq!(status, 200);
    for _ in 0..100 {
        assert_eq!(post("127.0.0.1", None, opening.clone()).await.0, 200);
    }
    assert_eq!(post(NEWCOMER, session.as_deref(), ping.clone()).await.0, 200);
}

/// The same with an open stream in every session, so that none is idle.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_in_use_of_one_caller_leave_room_for_others() {
    let harness = Harness::limited(HttpLimits::default().sessions(8)).await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let mut streams = Vec::new();
    for _ in 0..8 {
        let caller = fresh.clone().opened().await;
        streams.push(caller.listen().await);
    }
    let refused = fresh.send(&fresh.initialize()).await;
    assert_eq!(refused.status(), 503);
    assert!(refused.headers().contains_key("retry-after"));
    let mut newcomer = connect_as_newcomer(harness.address).await;
    let opening = raw_http::post(&harness, &[], &fresh.initialize().to_string());
    newcomer.write_all(opening.as_bytes()).await.expect("the server reads");
    assert_eq!(raw_http::answer(&mut newcomer).await.expect("an answer").status, 200);
}

/// Idle connections of one caller, on any transport, blocked other clients for ever.
#[tokio::test(flavor = "multi_thread")]
async fn idle_connections_of_one_caller_leave_room_for_others() {
    const PLACES: usize = 16;
    let harness = Harness::limited(HttpLimits::default().connections(PLACES)).await;
    for kind in ["nothing", "http", "websocket"] {
        let mut idle = Vec::new();
        for _ in 0..PLACES {
            let mut stream = harness.connect().await;
            match kind {
                "http" => {
                    stream
                        .write_all(raw_http::modern_call(&harness).as_bytes())
                        .await
                        .expect("reads");
                    assert_eq!(raw_http::answer(&mut stream).await.expect("an answer").status, 200);
                }
                "websocket" => stream = websocket(stream).await,
                _ => {}
            }
            idle.push(stream);
        }
        newcomer_works(&harness).await;
        // Later connections from the same address do not wait either.
        HttpClient::modern(&harness).works().await;
    }
}

/// The same at full size: as many connections as the default limit, or the limit of this process, allows.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn sixteen_thousand_sockets_of_one_caller_leave_room_for_others() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

    // The child inherits the limit.
    let Rlimit { maximum, .. } = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).expect("the hard limit");
    let most = usize::try_from(maximum.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    let count = HttpLimits::default().connections.min(most.saturating_sub(200));
    let process = crate::advisories::server_process::ServerProcess::crowded(count).await;
    let mut sockets = Vec::new();
    for _ in 0..count {
        sockets.push(TcpStream::connect(process.address).await.expect("a connection"));
    }
    let all_accepted = async {
        while process.files() < count {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, all_accepted).await.expect("patience");
    let opening = process.caller(LEGACY).initialize().to_string();
    let opening = format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{opening}",
        opening.len()
    );
    for _ in 0..10 {
        let mut newcomer = connect_as_newcomer(process.address).await;
        newcomer.write_all(opening.as_bytes()).await.expect("the server reads");
        assert_eq!(raw_http::answer(&mut newcomer).await.expect("an answer").status, 200);
    }
    process.stop().await;
}

/// A connection with a call in flight is not evicted for other connections of the same caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_a_call_is_not_closed_for_idle_ones() {
    let harness = Harness::limited(HttpLimits::default().connections(4)).await;
    let caller = HttpClient::modern(&harness);
    let wait = caller.tool("wait", json!({})).to_string();
    let heads = [raw_http::VERSION, ("mcp-method", "tools/call"), ("mcp-name", "wait")];
    let mut busy = harness.connect().await;
    busy.write_all(raw_http::post(&harness, &heads, &wait).as_bytes())
        .await
        .expect("the server reads");
    harness.counts.begun.reaches(1).await;
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(websocket(harness.connect().await).await);
    }
    harness.counts.gate.add();
    until(&mut busy, "through").await;
}

/// A connection with an HTTP+SSE stream is not evicted either.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_with_an_old_stream_is_not_closed_for_idle_ones() {
    let harness = Harness::tuned(|server| {
        let limits = Limits::default().http(HttpLimits::default().connections(4));
        server.limits(limits).http(Http::new().sse_2024())
    })
    .await;
    let mut stream = harness.connect().await;
    let get = "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n\r\n";
    stream.write_all(get.as_bytes()).await.expect("the server reads");
    let said = until(&mut stream, "\n\n").await;
    let endpoint = said.split("data: ").nth(1).and_then(|it| it.lines().next()).expect("an event");
    let mut idle = Vec::new();
    for _ in 0..20 {
        idle.push(websocket(harness.connect().await).await);
    }
    let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let post = raw_http::post(&harness, &[], ping).replace("/mcp", &format!("/{endpoint}"));
    assert_eq!(raw_http::ask(&harness, &post).await.status, 202);
    until(&mut stream, "\"id\":7,\"result\"").await;
}

/// Reads until `end` arrives.
pub async fn until(stream: &mut (impl AsyncRead + Unpin), end: &str) -> String {
    let (mut read, mut part) = (String::new(), [0; 4096]);
    while !read.contains(end) {
        let size = timeout(PATIENCE, stream.read(&mut part)).await.expect("patience");
        let size = size.expect("the connection stays");
        assert_ne!(size, 0, "closed after {read}");
        read += &String::from_utf8_lossy(&part[..size]);
    }
    read
}

/// An HTTP/2 connection is idle since its last request, not since its first.
#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_was_just_used_is_not_the_longest_idle() {
    let harness = Harness::limited(HttpLimits::default().connections(4)).await;
    let caller = HttpClient::modern(&harness);
    let (mut line, connection) =
        http2::handshake(TokioExecutor::new(), TokioIo::new(harness.connect().await))
            .await
            .expect("a connection");
    tokio::spawn(connection);
    let mut idle = Vec::new();
    for _ in 0..20 {
        let call = caller.post(&caller.tool("echo", json!({"text": "on"})));
        let response = line.send_request(call).await.expect("the connection stays");
        assert_eq!(http_client::text(&http_client::reply(response).await), "on");
        idle.push(websocket(harness.connect().await).await);
    }
}

/// Bodies too short to count against their caller's share used up the memory limit of all bodies.
#[tokio::test(flavor = "multi_thread")]
async fn short_bodies_of_one_caller_leave_room_for_others() {
    const SHORT: usize = 64 << 10;
    let harness = Harness::limited(HttpLimits::default().bodies(8 * SHORT)).await;
    let caller = HttpClient::modern(&harness);
    let mut call = caller.message("tools/call", json!({"name": "wait", "arguments": {}}));
    call["params"]["_meta"]["padding"] = "".into();
    let missing = SHORT - call.to_string().len();
    call["params"]["_meta"]["padding"] = "x".repeat(missing).into();
    let heads = [raw_http::VERSION, ("mcp-method", "tools/call"), ("mcp-name", "wait")];
    let call = raw_http::post(&harness, &heads, &call.to_string());
    let mut streams = Vec::new();
    for number in 1..=8 {
        let mut stream = harness.connect().await;
        stream.write_all(call.as_bytes()).await.expect("the server reads");
        let refused = tokio::select! {
            () = harness.counts.begun.reaches(number) => None,
            answer = raw_http::answer(&mut stream) => Some(answer.expect("an answer").status),
        };
        match refused {
            None => streams.push(stream),
            Some(status) => {
                assert_eq!(status, 503);
                break;
            }
        }
    }
    // Half of the limit is available without a share, and a share is half of the rest.
    assert_eq!(streams.len(), 6);
    newcomer_works(&harness).await;
}

/// Endless messages on many WebSockets or lines took sixteen megabytes each, without a time limit. The time limit
/// itself is tested with a paused clock: `wharf-transport/tests/it/{jsonl_limits.rs,http_websocket_sse}`.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn unfinished_messages_take_little_and_leave_room() {
    const SOCKETS: usize = 200;
    const LENGTH: usize = 3_900_000;
    /// Memory of connections that are open, without a message: up to 69 kB each were measured with glibc's allocator.
    const CONNECTIONS_MEMORY: usize = SOCKETS * 70_000;
    let process = crate::advisories::server_process::ServerProcess::start_tidy().await;
    process.caller(LEGACY).opened().await.works().await;
    let part = vec![b' '; LENGTH];
    for lines in [false, true] {
        let before = process.resident();
        let mut streams = Vec::new();
        for _ in 0..SOCKETS {
            let address = if lines { process.lines } else { process.address };
            let mut stream = TcpStream::connect(address).await.expect("a connection");
            if !lines {
                stream = websocket(stream).await;
                stream.write_all(&frame(2 * LENGTH)).await.expect("the server reads");
            }
            stream.write_all(&part).await.expect("the server reads");
            streams.push(stream);
        }
        let kept = process.resident().saturating_sub(before);
        assert!(kept <= 64_000_000, "lines: {lines}, kept: {} MB", kept / 1_000_000);
        // A message of the same length from another caller is accepted.
        let address = if lines { process.lines } else { process.address };
        let mut newcomer = connect_as_newcomer(address).await;
        let ping = r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
        let mut long = " ".repeat(LENGTH) + ping;
        if lines {
            long.push('\n');
        } else {
            newcomer = websocket(newcomer).await;
            newcomer.write_all(&frame(long.len())).await.expect("the server reads");
        }
        newcomer.write_all(long.as_bytes()).await.expect("the server reads");
        let mut reply = [0; 64];
        let size = timeout(PATIENCE, newcomer.read(&mut reply)).await.expect("patience");
        let reply = String::from_utf8_lossy(&reply[..size.expect("a reply")]).into_owned();
        assert!(reply.contains("\"id\":7,\"result\""), "{reply}");
        // The messages time out, although their connections stay open.
        let is_back = async {
            while process.resident() > before + CONNECTIONS_MEMORY {
                sleep(Duration::from_millis(50)).await;
            }
        };
        let is_back = timeout(PATIENCE, is_back).await.is_ok();
        let kept = process.resident().saturating_sub(before);
        assert!(is_back, "lines: {lines}, kept: {} kB", kept / 1_000);
        drop(streams);
    }
}
