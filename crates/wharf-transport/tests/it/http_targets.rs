//! Request targets and hosts that are malformed: pipelined HTTP/1.1, HTTP/2 frames, and the tower service.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use wharf_model::{
    BoxFuture, Deadlines, Implementation, Outbox, Outcome, Reply, Request, Service, ToolResult,
};
use wharf_transport::{
    ServerContext, Shutdown,
    server::http::{Http, HttpService, serve},
};
use wharf_wire::ServerProtocol;

const PATIENCE: Duration = Duration::from_secs(60);

struct TargetService;

impl Service for TargetService {
    fn call(&self, request: Request, _: Outbox) -> BoxFuture<Outcome> {
        Box::pin(async move {
            match request.method {
                wharf_model::Method::Discover => Reply::Discover(Box::default()).into(),
                _ => ToolResult::text("now").into(),
            }
        })
    }
}

fn service() -> HttpService {
    let host = ServerContext::new(
        Arc::new(ServerProtocol::new(Implementation::new("toy", "1"))),
        TargetService,
    )
    .deadlines(Deadlines::NONE);
    HttpService::new(Arc::new(host), Http::new().health(), Shutdown::new())
}

async fn start() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(serve(service(), listener));
    address
}

/// Body of a modern call whose argument has a fragment, a request line and a heading.
const CALL: &str = r##"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t","arguments":{"text":"# GET /mcp#x HTTP/1.1"},"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"##;

const FIELDS: &str = "host: localhost\r\ncontent-type: application/json\r\naccept: application/json, text/event-stream\r\n\
     mcp-protocol-version: 2026-07-28\r\nmcp-method: tools/call\r\nmcp-name: t\r\nx-note: GET /mcp#x HTTP/1.1\r\n";

fn get(target: &str) -> String {
    format!("GET {target} HTTP/1.1\r\nhost: localhost\r\n\r\n")
}

fn post(target: &str, end: &str) -> String {
    let length = CALL.len() + end.len();
    format!("POST {target} HTTP/1.1\r\n{FIELDS}content-length: {length}\r\n\r\n{CALL}{end}")
}

fn chunked(target: &str) -> String {
    let length = CALL.len();
    format!(
        "POST {target} HTTP/1.1\r\n{FIELDS}transfer-encoding: chunked\r\n\r\n{length:x}\r\n{CALL}\r\n0\r\n\r\n"
    )
}

/// Sends all requests at once, and returns the statuses of the replies until the server closes.
async fn statuses(address: SocketAddr, requests: &[String]) -> Vec<u16> {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(requests.concat().as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let mut all = Vec::new();
    timeout(PATIENCE, stream.read_to_end(&mut all)).await.expect("patience").unwrap();
    let all = String::from_utf8(all).unwrap();
    let status = |reply: &str| reply.get(..3)?.parse().ok();
    all.split("HTTP/1.1 ").filter_map(status).collect()
}

/// RFC 9112, section 3.2: no form of a request target has a fragment. hyper parses pipelined requests from its own
/// buffer and drops their fragments, so that these are requests for the path without it.
#[tokio::test]
async fn a_target_with_a_fragment_is_refused_or_pipelined_the_path_without_it() {
    let address = start().await;
    let firsts = [get("/ready"), post("/mcp", ""), post("/mcp", " \n"), chunked("/mcp")];
    for target in ["/mcp#x", "/mcp#", "/mcp?a#b", "http://localhost/mcp#x"] {
        for (bad, plain) in [(post(target, ""), 200), (chunked(target), 200)] {
            let requests = [bad.clone(), get("/ready")];
            assert_eq!(statuses(address, &requests).await, [400], "{bad}");
            for first in &firsts {
                let requests = [first.clone(), bad.clone()];
                assert_eq!(statuses(address, &requests).await, [200, plain], "{first}{bad}");
            }
        }
    }
    // Elsewhere the character has no meaning.
    assert_eq!(statuses(address, &firsts).await, [200; 4]);
    assert_eq!(statuses(address, &[firsts.concat(), firsts.concat()]).await, [200; 8]);
}

/// HTTP/2 by hand: the status code's HPACK index for a GET with these pseudo-header fields and fields. None if the
/// server resets the stream.
async fn http2(address: SocketAddr, fields: &[(&str, &str)]) -> Option<u8> {
    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }
    let text = |it: &str| [&[u8::try_from(it.len()).unwrap()], it.as_bytes()].concat();
    let literal = |it: &(&str, &str)| [vec![0], text(it.0), text(it.1)].concat();
    let block: Vec<u8> = fields.iter().flat_map(literal).collect();
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    // END_STREAM and END_HEADERS.
    stream.write_all(&frame(1, 5, 1, &block)).await.unwrap();
    loop {
        let mut head = [0; 9];
        timeout(PATIENCE, stream.read_exact(&mut head)).await.expect("patience").unwrap();
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        timeout(PATIENCE, stream.read_exact(&mut payload)).await.expect("patience").unwrap();
        match (head[3], head[8]) {
            (1, 1) => return payload.first().copied(),
            (3, 1) => return None,
            _ => {}
        }
    }
}

const OK: Option<u8> = Some(0x88);
const BAD_REQUEST: Option<u8> = Some(0x8c);

fn ready<'a>(path: &'a str, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    [&[(":method", "GET"), (":scheme", "http"), (":path", path)], more].concat()
}

#[tokio::test]
async fn an_http2_request_without_exactly_one_host_is_refused() {
    let address = start().await;
    let authority = (":authority", "localhost");
    let host = ("host", "localhost");
    for path in ["/ready", "/mcp", "/nowhere"] {
        assert_eq!(http2(address, &ready(path, &[])).await, BAD_REQUEST, "{path}: no host");
        let twice = ready(path, &[host, host]);
        assert_eq!(http2(address, &twice).await, BAD_REQUEST, "{path}: two hosts");
        let thrice = ready(path, &[authority, host, host]);
        assert_eq!(http2(address, &thrice).await, BAD_REQUEST, "{path}: two hosts more");
        // A repeated pseudo-header field is a stream error of type PROTOCOL_ERROR (RFC 9113, section 8.1.1).
        let twice = ready(path, &[authority, authority]);
        assert_eq!(http2(address, &twice).await, None, "{path}: two authorities");
    }
    for named in [&[authority][..], &[host], &[authority, host]] {
        assert_eq!(http2(address, &ready("/ready", named)).await, OK, "{named:?}");
    }
}

/// h2 drops the fragment before the request is received: the request is one for the path.
#[tokio::test]
async fn an_http2_path_with_a_fragment_is_the_path_without_it() {
    let address = start().await;
    let authority = [(":authority", "localhost")];
    assert_eq!(http2(address, &ready("/ready#x", &authority)).await, OK);
    let elsewhere = http2(address, &ready("/#/ready", &authority)).await;
    assert_eq!(elsewhere, http2(address, &ready("/", &authority)).await);
    assert_ne!(elsewhere, OK);
}

/// `http::Uri` has no fragment, so a mounted server serves the path without it.
#[tokio::test]
async fn a_mounted_server_serves_the_path_without_the_fragment() {
    let status = async |target: &str| {
        let request = http::Request::post(target).header("host", "localhost");
        let request = request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream")
            .header("mcp-protocol-version", "2026-07-28")
            .header("mcp-method", "tools/call")
            .header("mcp-name", "t")
            .body(CALL.to_owned())
            .unwrap();
        assert_eq!(request.uri(), "/mcp");
        tower_service::Service::call(&mut service(), request).await.unwrap().status().as_u16()
    };
    assert_eq!((status("/mcp").await, status("/mcp#x").await), (200, 200));
}
