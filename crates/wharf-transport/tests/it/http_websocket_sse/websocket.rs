//! WebSocket over an in-memory connection, with tungstenite's client.

use std::{convert::Infallible, time::Duration};

use futures_util::{SinkExt, StreamExt};
use http::{Request, Response};
use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex},
    time::timeout,
};
use tokio_tungstenite::{
    WebSocketStream, client_async,
    tungstenite::{
        self, Message,
        handshake::client::generate_key,
        protocol::frame::{
            CloseFrame, Frame,
            coding::{CloseCode, Data, OpCode},
        },
    },
};
use tower_service::Service;
use wharf_model::Principal;
use wharf_transport::server::http::Http;

use crate::http_websocket_sse::support::{
    TestEndpoint, initialize, initialized, legacy_tool, limit_messages, modern, text_of, tool,
};

/// The client's end of a connection to the endpoint.
fn connect(endpoint_server: &TestEndpoint) -> DuplexStream {
    let (client, server) = duplex(64 << 10);
    let service = endpoint_server.service.clone();
    let answer = service_fn(move |mut request: Request<_>| {
        let mut service = service.clone();
        request.extensions_mut().insert(Principal::new("alice"));
        async move { Ok::<_, Infallible>(service.call(request).await.unwrap()) }
    });
    let serving = http1::Builder::new().serve_connection(TokioIo::new(server), answer);
    tokio::spawn(serving.with_upgrades());
    client
}

fn handshake() -> http::request::Builder {
    Request::get("ws://localhost/mcp")
        .header("host", "localhost")
        .header("connection", "keep-alive, Upgrade")
        .header("upgrade", "WebSocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", generate_key())
}

fn offer(protocols: &str) -> http::request::Builder {
    handshake().header("sec-websocket-protocol", protocols)
}

/// A handshake with one header changed.
fn with(name: &'static str, value: &str) -> http::request::Builder {
    let mut request = offer("mcp");
    request.headers_mut().unwrap().insert(name, value.parse().unwrap());
    request
}

struct WebSocketClient<S = DuplexStream>(WebSocketStream<S>);

impl WebSocketClient {
    async fn open(endpoint_server: &TestEndpoint) -> WebSocketClient {
        WebSocketClient::over(connect(endpoint_server)).await
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> WebSocketClient<S> {
    async fn over(stream: S) -> WebSocketClient<S> {
        let (socket, reply) = client_async(offer("mcp").body(()).unwrap(), stream).await.unwrap();
        assert_eq!(reply.headers()["sec-websocket-protocol"], "mcp");
        WebSocketClient(socket)
    }

    async fn send(&mut self, message: impl ToString) {
        self.0.send(Message::text(message.to_string())).await.unwrap();
    }

    async fn next(&mut self) -> Value {
        loop {
            match self.0.next().await.unwrap().unwrap() {
                Message::Text(text) => return serde_json::from_str(&text).unwrap(),
                Message::Ping(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    async fn reply_to(&mut self, message: Value) -> Value {
        self.send(&message).await;
        let reply = self.next().await;
        assert_eq!(reply["id"], message["id"], "{reply}");
        reply
    }

    /// Close code of the server. Nothing else may arrive before.
    async fn closed(&mut self) -> Option<CloseCode> {
        let closed = timeout(Duration::from_secs(600), self.0.next()).await.unwrap();
        let Message::Close(reason) = closed.unwrap().unwrap() else { panic!("it is open") };
        let end = timeout(Duration::from_secs(600), self.0.next()).await.unwrap();
        assert!(end.is_none(), "{end:?}");
        reason.map(|it| it.code)
    }
}

/// Response of the endpoint to a handshake, valid or not: tungstenite sends only valid ones.
async fn answer(
    endpoint_server: &TestEndpoint,
    request: http::request::Builder,
) -> Response<String> {
    let request = request.body(()).unwrap();
    let mut stream = connect(endpoint_server);
    let mut head = format!("GET {} HTTP/1.1\r\n", request.uri().path());
    for (name, value) in request.headers() {
        head += &format!("{name}: {}\r\n", value.to_str().unwrap());
    }
    stream.write_all(format!("{head}\r\n").as_bytes()).await.unwrap();
    let mut reply = Vec::new();
    while !reply.ends_with(b"\r\n\r\n") {
        reply.push(stream.read_u8().await.unwrap());
    }
    stream.shutdown().await.unwrap();
    stream.read_to_end(&mut reply).await.unwrap();
    let reply = String::from_utf8_lossy(&reply);
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    let (status, headers) = head.split_once("\r\n").unwrap();
    let mut parsed = Response::builder().status(status.split(' ').nth(1).unwrap());
    for (name, value) in headers.lines().filter_map(|line| line.split_once(": ")) {
        parsed = parsed.header(name, value);
    }
    parsed.body(body.to_owned()).unwrap()
}

#[tokio::test(start_paused = true)]
async fn every_revision_is_served_with_server_to_client_requests() {
    let endpoint_server = TestEndpoint::new(Http::new());
    for revision in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut client = WebSocketClient::open(&endpoint_server).await;
        let reply = client.reply_to(initialize(revision)).await;
        assert_eq!(reply["result"]["protocolVersion"], revision);
        client.send(initialized()).await;
        client.send(legacy_tool(1, "ask")).await;
        let ask = client.next().await;
        assert_eq!(ask["method"], "roots/list");
        client.send(json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"roots": []}})).await;
        assert_eq!(client.next().await["id"], 1);
    }
    let mut client = WebSocketClient::open(&endpoint_server).await;
    assert_eq!(text_of(&client.reply_to(tool(1, "who")).await), "alice");
    client.send(modern(2, "subscriptions/listen", json!({"notifications": {}}))).await;
    let told = client.next().await;
    assert_eq!(told["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(text_of(&client.reply_to(tool(3, "now")).await), "now");
}

#[tokio::test(start_paused = true)]
async fn the_subprotocol_must_be_offered() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let twice = offer("chat").header("sec-websocket-protocol", "mcp");
    for right in [offer("mcp"), offer("chat, mcp"), offer("mcp,chat"), twice] {
        let reply = answer(&endpoint_server, right).await;
        assert_eq!(reply.status(), 101);
        assert_eq!(reply.headers()["sec-websocket-protocol"], "mcp");
    }
    for wrong in [handshake(), offer("chat"), offer("MCP"), offer("mcp2"), offer("")] {
        let reply = answer(&endpoint_server, wrong).await;
        assert_eq!(reply.status(), 400);
        assert!(reply.body().contains("mcp"), "{}", reply.body());
    }
}

#[tokio::test(start_paused = true)]
async fn an_invalid_handshake_is_rejected() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let old = answer(&endpoint_server, with("sec-websocket-version", "8")).await;
    assert_eq!(old.status(), 426);
    assert_eq!(old.headers()["sec-websocket-version"], "13");
    for key in [
        "",
        "short",
        "dGhlIHNhbXBsZSBub25jZQ=",
        "dGhlIHNhbXBsZSBub25j!Q==",
        "dGhlIHNhbXBsZSBub25jZQAA",
    ] {
        assert_eq!(
            answer(&endpoint_server, with("sec-websocket-key", key)).await.status(),
            400,
            "{key}"
        );
    }
    let twice = offer("mcp").header("sec-websocket-key", generate_key());
    assert_eq!(answer(&endpoint_server, twice).await.status(), 400);
    // A connection without upgrade support, such as HTTP/2.
    let request = offer("mcp").uri("/mcp").body(String::new()).unwrap();
    assert_eq!(endpoint_server.service.clone().call(request).await.unwrap().status(), 400);
    // A request that is not a WebSocket handshake is handled by the other routes.
    for (name, value) in [("upgrade", "h2c"), ("connection", "close")] {
        assert_ne!(answer(&endpoint_server, with(name, value)).await.status(), 101);
    }
    let deaf = TestEndpoint::new(Http::new().stateless().websocket(false));
    assert_eq!(answer(&deaf, offer("mcp")).await.status(), 405);
}

#[tokio::test(start_paused = true)]
async fn unauthenticated_clients_are_rejected_before_the_upgrade() {
    let endpoint_server = TestEndpoint::new(Http::new());
    for (name, value) in [
        ("origin", "https://evil.example"),
        ("origin", "http://localhost.evil.example"),
        ("origin", "null"),
        ("host", "evil.example"),
        ("host", "evil.example:8000"),
        ("host", "localhost.evil.example"),
        ("host", "[::2]:8000"),
    ] {
        assert_eq!(
            answer(&endpoint_server, with(name, value)).await.status(),
            403,
            "{name}: {value}"
        );
    }
    for (name, value) in [("origin", "http://localhost:3000"), ("host", "[::1]:8000")] {
        assert_eq!(
            answer(&endpoint_server, with(name, value)).await.status(),
            101,
            "{name}: {value}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn long_messages_are_carried_and_too_long_ones_rejected() {
    let endpoint_server = TestEndpoint::with(Http::new(), |host| limit_messages(host, 2 << 20));
    let mut client = WebSocketClient::open(&endpoint_server).await;
    let call = |id, size| {
        modern(id, "tools/call", json!({"name": "long", "arguments": {"x": "é".repeat(size)}}))
    };
    assert_eq!(text_of(&client.reply_to(call(1, 1 << 19)).await).len(), 1 << 20);
    client.send(call(2, 1 << 20)).await;
    let refused = client.next().await;
    assert_eq!(refused["id"], Value::Null);
    assert!(refused["error"]["code"].is_i64(), "{refused}");
    assert_eq!(text_of(&client.reply_to(tool(3, "now")).await), "now");
}

#[tokio::test(start_paused = true)]
async fn a_message_may_come_in_pieces_with_pings_in_between() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let mut client = WebSocketClient::open(&endpoint_server).await;
    let message = tool(1, "now").to_string().into_bytes();
    let last = message.len() - 1;
    for (at, byte) in message.into_iter().enumerate() {
        let kind = if at == 0 { Data::Text } else { Data::Continue };
        let frame = Frame::message(vec![byte], OpCode::Data(kind), at == last);
        client.0.feed(Message::Frame(frame)).await.unwrap();
        if at == last / 2 {
            client.0.feed(Message::Ping("alive?".into())).await.unwrap();
        }
    }
    client.0.flush().await.unwrap();
    assert_eq!(client.0.next().await.unwrap().unwrap(), Message::Pong("alive?".into()));
    assert_eq!(client.next().await["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn a_message_may_have_line_breaks_between_its_parts_but_not_within() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let mut client = WebSocketClient::open(&endpoint_server).await;
    let pretty = serde_json::to_string_pretty(&tool(1, "now")).unwrap();
    client.send(pretty.replace('\n', "\r\n")).await;
    assert_eq!(client.next().await["id"], 1);
    client.send(tool(2, "n\\no").to_string().replace("\\\\n", "\n")).await;
    assert_eq!(client.next().await["error"]["code"], -32700);
    client.send("[1,2").await;
    assert_eq!(client.next().await["error"]["code"], -32700);
}

#[tokio::test(start_paused = true)]
async fn a_binary_message_closes_the_connection() {
    let invalid = Frame::message(vec![0xff], OpCode::Data(Data::Text), true);
    let orphan = Frame::message("x", OpCode::Data(Data::Continue), true);
    for (message, code) in [
        (Message::binary("{}"), CloseCode::Unsupported),
        (Message::Frame(invalid), CloseCode::Invalid),
        (Message::Frame(orphan), CloseCode::Protocol),
    ] {
        let endpoint_server = TestEndpoint::new(Http::new());
        let mut client = WebSocketClient::open(&endpoint_server).await;
        client.send(tool(1, "gate")).await;
        endpoint_server.until_running(1).await;
        client.0.send(message).await.unwrap();
        assert_eq!(client.closed().await, Some(code));
        endpoint_server.until_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_frame_is_acknowledged_and_cancels_the_calls_in_flight() {
    let reason = CloseFrame { code: CloseCode::Library(4321), reason: "enough".into() };
    for (reason, code) in [(None, None), (Some(reason), Some(CloseCode::Library(4321)))] {
        let endpoint_server = TestEndpoint::new(Http::new());
        let mut client = WebSocketClient::open(&endpoint_server).await;
        client.send(tool(1, "gate")).await;
        client.send(tool(2, "flood")).await;
        endpoint_server.until_running(2).await;
        client.0.close(reason).await.unwrap();
        let closed = loop {
            match client.0.next().await.unwrap().unwrap() {
                Message::Close(reason) => break reason,
                other => assert!(other.is_text()),
            }
        };
        assert_eq!(closed.map(|it| it.code), code);
        endpoint_server.until_nothing_is_left().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_shutdown_answers_calls_and_notifies_the_client() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let (mut busy, mut idle) = (
        WebSocketClient::open(&endpoint_server).await,
        WebSocketClient::open(&endpoint_server).await,
    );
    idle.reply_to(tool(1, "now")).await;
    busy.send(tool(1, "gate")).await;
    busy.send(modern(2, "subscriptions/listen", json!({"notifications": {}}))).await;
    assert!(busy.next().await["method"].is_string());
    endpoint_server.shutdown.stop();
    assert_eq!(idle.closed().await, Some(CloseCode::Away));
    assert_eq!(busy.next().await["id"], 2);
    assert_eq!(busy.next().await["method"], "notifications/cancelled");
    endpoint_server.gate.add_permits(1);
    assert_eq!(busy.next().await["id"], 1);
    assert_eq!(busy.closed().await, Some(CloseCode::Away));
    endpoint_server.until_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_nothing_is_dropped() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let mut client = WebSocketClient::open(&endpoint_server).await;
    client.send(tool(1, "flood")).await;
    endpoint_server.until_running(1).await;
    // Earlier than for a client that sends nothing.
    endpoint_server.until_running(0).await;
    endpoint_server.until_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn back_pressure_slows_only_the_calls_of_a_slow_reader() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let mut client = WebSocketClient::open(&endpoint_server).await;
    for id in 0..5 {
        client.send(tool(id, "long")).await;
    }
    for id in 0..5 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert_eq!(client.next().await["id"], id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_answers_pings_stays_and_one_that_does_not_is_dropped() {
    let endpoint_server = TestEndpoint::with(Http::new(), |host| {
        host.http_limits.keep_alive = Duration::from_secs(10)
    });
    let (mut alive, mut dead) = (
        WebSocketClient::open(&endpoint_server).await,
        WebSocketClient::open(&endpoint_server).await,
    );
    for client in [&mut alive, &mut dead] {
        client.send(tool(1, "gate")).await;
    }
    endpoint_server.until_running(2).await;
    for _ in 0..5 {
        // tungstenite responds when it reads on.
        assert!(alive.0.next().await.unwrap().unwrap().is_ping());
    }
    endpoint_server.until_running(1).await;
    endpoint_server.gate.add_permits(1);
    assert_eq!(alive.next().await["id"], 1);
    let mut received = Vec::new();
    dead.0.get_mut().read_to_end(&mut received).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_client_may_disconnect_at_any_byte() {
    let mut bytes = format!(
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-protocol: mcp\r\nsec-websocket-key: {}\r\n\r\n",
        generate_key()
    )
    .into_bytes();
    let head = bytes.len();
    let (record, mut recorded) = duplex(1 << 20);
    let role = tungstenite::protocol::Role::Client;
    let mut socket = WebSocketStream::from_raw_socket(record, role, None).await;
    for message in [
        Message::text(initialize("2025-11-25").to_string()),
        Message::text(initialized().to_string()),
        Message::Ping("alive?".into()),
        Message::text(legacy_tool(1, "ask").to_string()),
        Message::text(tool(2, "gate").to_string()),
        Message::Close(None),
    ] {
        socket.send(message).await.unwrap();
    }
    drop(socket);
    recorded.read_to_end(&mut bytes).await.unwrap();
    for end in 0..=bytes.len() {
        let endpoint_server = TestEndpoint::new(Http::new());
        let mut stream = connect(&endpoint_server);
        stream.write_all(&bytes[..head.min(end)]).await.unwrap();
        if end >= head {
            let mut reply = [0; 1024];
            let size = stream.read(&mut reply).await.unwrap();
            assert!(reply[..size].starts_with(b"HTTP/1.1 101"));
            stream.write_all(&bytes[head..end]).await.unwrap();
        }
        if end % 2 == 0 {
            // Half of them disconnect before the server is polled.
            tokio::task::yield_now().await;
        }
        drop(stream);
        endpoint_server.until_nothing_is_left().await;
    }
}

#[tokio::test]
async fn our_own_accept_loop_serves_websockets_over_a_real_socket() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let serving = tokio::spawn(wharf_transport::server::http::serve(
        endpoint_server.service.clone(),
        listener,
    ));
    let mut client =
        WebSocketClient::over(tokio::net::TcpStream::connect(address).await.unwrap()).await;
    assert_eq!(client.reply_to(initialize("2025-11-25")).await["id"], 0);
    assert_eq!(text_of(&client.reply_to(legacy_tool(1, "long")).await).len(), 1 << 20);
    endpoint_server.shutdown.stop();
    assert_eq!(client.closed().await, Some(CloseCode::Away));
    serving.await.unwrap();
    endpoint_server.until_nothing_is_left().await;
}

#[tokio::test(start_paused = true)]
async fn a_message_that_does_not_end_times_out() {
    let endpoint_server = TestEndpoint::new(Http::new());
    let mut client = WebSocketClient::open(&endpoint_server).await;
    assert_eq!(text_of(&client.reply_to(tool(1, "now")).await), "now");
    // The first frame of a message, of any length.
    let part = Frame::message("x".repeat(1 << 20), OpCode::Data(Data::Text), false);
    client.0.send(Message::Frame(part)).await.unwrap();
    let began = tokio::time::Instant::now();
    let refusal = client.next().await;
    assert!(
        refusal["error"]["message"].as_str().unwrap().contains("too long to arrive"),
        "{refusal}"
    );
    assert_eq!(client.closed().await, Some(CloseCode::Normal));
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
    endpoint_server.until_nothing_is_left().await;
}

#[tokio::test]
async fn a_websocket_keeps_its_connection_slot_while_calls_are_in_flight() {
    let endpoint_server = TestEndpoint::with(Http::new(), |host| host.http_limits.connections = 1);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(wharf_transport::server::http::serve(endpoint_server.service.clone(), listener));
    let connect = || tokio::net::TcpStream::connect(address);
    let mut first = WebSocketClient::over(connect().await.unwrap()).await;
    first.send(tool(1, "gate")).await;
    endpoint_server.until_running(1).await;
    let mut refused = String::new();
    connect().await.unwrap().read_to_string(&mut refused).await.unwrap();
    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 503") && head.contains("retry-after: 1"), "{head}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{refused}");
    assert!(body.contains("full") && serde_json::from_str::<Value>(body).is_ok(), "{body}");
    endpoint_server.gate.add_permits(1);
    assert_eq!(first.next().await["id"], 1);
    // Now it is idle and is evicted.
    let mut second = WebSocketClient::over(connect().await.unwrap()).await;
    assert_eq!(text_of(&second.reply_to(tool(2, "now")).await), "now");
    assert!(!matches!(first.0.next().await, Some(Ok(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn clients_with_the_same_ids_receive_only_their_messages() {
    let endpoint_server = std::sync::Arc::new(TestEndpoint::new(Http::new()));
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..64 {
        let endpoint_server = endpoint_server.clone();
        clients.spawn(async move {
            let mut client = WebSocketClient::open(&endpoint_server).await;
            let name = format!("nonce-{number}");
            for id in 0..50 {
                assert_eq!(text_of(&client.reply_to(tool(id, &name)).await), name);
            }
            client.0.close(None).await.unwrap();
            assert_eq!(client.closed().await, None);
        });
    }
    assert!(clients.join_all().await.len() == 64);
}
