//! HTTP/1.1 read and write timeouts of a connection, and notifications sent before a stream is
//! read.

#[cfg(feature = "client")]
use std::{future::poll_fn, pin::Pin};
use std::{net::SocketAddr, sync::Arc, time::Duration};

#[cfg(feature = "client")]
use http_body::Body;
#[cfg(feature = "client")]
use hyper::client::conn::http2;
#[cfg(feature = "client")]
use hyper_util::rt::{TokioExecutor, TokioIo};
use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::broadcast,
    task::{JoinSet, coop, yield_now},
    time::{sleep, timeout},
};
use wharf_model::{
    BoxFuture, Deadlines, Implementation, Method, Notification, Outbox, Outcome, Reply, Request,
    Service, ToolResult,
};
use wharf_transport::{
    ServerContext, Shutdown,
    server::http::{Http, HttpLimits, HttpService, serve},
};
use wharf_wire::ServerProtocol;

const PATIENCE: Duration = Duration::from_secs(30);

/// Tools that use up the cooperative budget and return a given number of bytes. Its subscription
/// starts late.
struct TimeoutService(broadcast::Sender<()>);

impl Service for TimeoutService {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        let changes = self.0.clone();
        Box::pin(async move {
            match request.method {
                Method::Discover => Reply::Discover(Box::default()).into(),
                Method::Listen => {
                    yield_now().await;
                    let mut changes = changes.subscribe();
                    while changes.recv().await.is_ok() {
                        outbox.notify(Notification::ToolsChanged);
                        outbox.wait_for_capacity().await;
                    }
                    Reply::Listened.into()
                }
                _ => {
                    let arguments: Value = serde_json::from_str(request.arguments()).unwrap();
                    for _ in 0..arguments["budget"].as_u64().unwrap_or(0) {
                        coop::consume_budget().await;
                    }
                    let length = arguments["bytes"].as_u64().unwrap_or(1) as usize;
                    ToolResult::text("x".repeat(length)).into()
                }
            }
        })
    }
}

async fn start(head: Duration, changes: broadcast::Sender<()>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    start_at(listener, HttpLimits::default().head(head).write(PATIENCE), changes)
}

fn start_at(
    listener: TcpListener,
    limits: HttpLimits,
    changes: broadcast::Sender<()>,
) -> SocketAddr {
    let host = ServerContext::new(
        Arc::new(ServerProtocol::new(Implementation::new("toy", "1"))),
        TimeoutService(changes),
    )
    .deadlines(Deadlines::NONE)
    .http_limits(limits);
    let service = HttpService::new(Arc::new(host), Http::new(), Shutdown::new());
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(service, listener));
    address
}

fn post(session: &str, body: &str) -> String {
    format!(
        "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
         accept: application/json, text/event-stream\r\n{session}content-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn call(arguments: &str) -> String {
    format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{arguments}}}}}"#
    )
}

/// Head of the next reply, and its body by content length.
async fn reply(stream: &mut TcpStream) -> String {
    let (mut all, mut piece) = (String::new(), [0; 4096]);
    loop {
        let length = stream.read(&mut piece).await.unwrap();
        assert!(length > 0, "closed after {all:?}");
        all.push_str(&String::from_utf8_lossy(&piece[..length]));
        let Some((head, body)) = all.split_once("\r\n\r\n") else { continue };
        let expected = head.split("content-length: ").nth(1).map(|it| it.lines().next().unwrap());
        if body.len() >= expected.map_or(0, |it| it.parse().unwrap()) {
            return all;
        }
    }
}

/// Opens a session; returns its header lines.
async fn session(address: SocketAddr) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let hello = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}"#;
    stream.write_all(post("", hello).as_bytes()).await.unwrap();
    let reply = reply(&mut stream).await;
    let id = reply.split("mcp-session-id: ").nth(1).unwrap().lines().next().unwrap();
    format!("mcp-session-id: {id}\r\nmcp-protocol-version: 2025-11-25\r\n")
}

/// Reading a response has its own timeout, which is longer here than the one for the next request.
#[tokio::test]
async fn a_slow_reader_does_not_hit_the_idle_timeout() {
    let head = Duration::from_millis(300);
    let address = start(head, broadcast::Sender::new(1)).await;
    let session = session(address).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let large = post(&session, &call(r#"{"bytes":40000000}"#));
    stream.write_all(large.as_bytes()).await.unwrap();
    let mut piece = vec![0; 1 << 16];
    let mut length = stream.read(&mut piece).await.unwrap();
    sleep(4 * head).await;
    while length < 40_000_000 {
        let more = timeout(PATIENCE, stream.read(&mut piece)).await.unwrap().unwrap();
        assert!(more > 0, "cut off after {length} bytes");
        length += more;
    }
}

/// The timer must fire even if a handler has used up its cooperative budget.
#[tokio::test]
async fn a_partial_pipelined_request_times_out() {
    let address = start(Duration::from_millis(300), broadcast::Sender::new(1)).await;
    let session = session(address).await;
    let mut clients = JoinSet::new();
    for budget in 100..=135 {
        let call = post(&session, &call(&format!(r#"{{"budget":{budget}}}"#)));
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await.unwrap();
            stream.write_all(format!("{call}POST /mc").as_bytes()).await.unwrap();
            let mut rest = Vec::new();
            let ended = timeout(PATIENCE, stream.read_to_end(&mut rest)).await;
            assert!(ended.is_ok(), "still open after {budget}");
        });
    }
    clients.join_all().await;
}

/// A subscription that has to wait first continues although its stream is not read yet.
#[tokio::test]
async fn a_change_before_the_stream_is_read_is_delivered() {
    let changes = broadcast::Sender::new(16);
    let address = start(PATIENCE, changes.clone()).await;
    let session = session(address).await;
    let mut stream = TcpStream::connect(address).await.unwrap();
    let initialized = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    stream.write_all(post(&session, initialized).as_bytes()).await.unwrap();
    reply(&mut stream).await;
    let begun = async {
        while changes.receiver_count() == 0 {
            yield_now().await;
        }
    };
    timeout(PATIENCE, begun).await.expect("the listen has not begun");
    changes.send(()).unwrap();
    let get = format!(
        "GET /mcp HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\n{session}\r\n"
    );
    stream.write_all(get.as_bytes()).await.unwrap();
    let (mut all, mut piece) = (String::new(), [0; 4096]);
    while !all.contains("notifications/tools/list_changed") {
        let length = timeout(PATIENCE, stream.read(&mut piece)).await.expect(&all).unwrap();
        assert!(length > 0, "closed after {all:?}");
        all.push_str(&String::from_utf8_lossy(&piece[..length]));
    }
}

/// The kernel reports room in a socket only when a third of its send buffer is free, so a large buffer hid that the
/// client read.
#[tokio::test]
async fn a_client_that_reads_slowly_and_steadily_gets_its_whole_reply() {
    const LENGTH: usize = 12 << 20;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_send_buffer_size(2 << 20).unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let limits = HttpLimits::default().write(Duration::from_millis(500));
    let address = start_at(socket.listen(2).unwrap(), limits, broadcast::channel(1).0);
    let session = session(address).await;
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(8 << 10).unwrap();
    let mut client = socket.connect(address).await.unwrap();
    let request = post(&session, &call(&format!(r#"{{"bytes":{LENGTH}}}"#)));
    client.write_all(request.as_bytes()).await.unwrap();
    let (mut all, mut piece) = (0, [0; 4096]);
    for _ in 0..160 {
        sleep(Duration::from_millis(25)).await;
        all += client.read(&mut piece).await.unwrap();
    }
    let mut rest = vec![0; 1 << 20];
    while all < LENGTH {
        let length = client.read(&mut rest).await.unwrap();
        assert!(length > 0, "closed after {all} bytes");
        all += length;
    }
}

/// The same over HTTP/2, where the client returns flow-control credit as it reads.
#[cfg(feature = "client")]
#[tokio::test]
async fn an_http2_client_that_reads_slowly_and_steadily_gets_its_whole_reply() {
    const LENGTH: usize = 2 << 20;
    let limits = HttpLimits::default().write(Duration::from_millis(500));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = start_at(listener, limits, broadcast::channel(1).0);
    let stream = TcpStream::connect(address).await.unwrap();
    let (mut client, connection) = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(64 << 10)
        .handshake(TokioIo::new(stream))
        .await
        .unwrap();
    tokio::spawn(connection);
    let call = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"t","arguments":{{"bytes":{LENGTH}}},"_meta":{{
        "io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    let request = http::Request::post(format!("http://{address}/mcp"))
        .header("content-type", "application/json")
        .header("accept", "application/json, text/event-stream")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", "tools/call")
        .header("mcp-name", "t")
        .body(call)
        .unwrap();
    let response = client.send_request(request).await.unwrap();
    assert_eq!(response.status(), 200);
    let mut body = response.into_body();
    let (mut all, mut frames) = (0, 0);
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        all += frame.unwrap().into_data().map_or(0, |data| data.len());
        frames += 1;
        if frames < 40 {
            sleep(Duration::from_millis(100)).await;
        }
    }
    assert!(all > LENGTH, "closed after {all} bytes");
}
