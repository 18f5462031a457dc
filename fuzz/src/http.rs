//! HTTP requests with any headers.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::{BodyExt as _, Full};
use serde_json::Value;
use tower_service::Service as _;
use wharf::{Endpoint, Server, Tool};

/// A request: its method and path, a line per header, an empty line, the body.
pub fn headers(data: &[u8]) {
    let Some(request) = request(data) else { return };
    let (headers, body) = (request.headers().clone(), request.body().clone());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (status, reply) = runtime.block_on(respond(request));
    assert!(status != 500, "{headers:?} {body:?}");
    if status == 200 {
        check_host(&headers);
        check_routing(&headers, &body, &reply);
    }
}

fn endpoint() -> Endpoint {
    let tool = Tool::new("add", async || "3");
    Server::new("harbour", "1.0.0").add(tool).build().unwrap()
}

async fn respond(request: Request<Bytes>) -> (u16, Bytes) {
    let endpoint = endpoint();
    let response = endpoint.http().call(request.map(Full::new));
    let response = tokio::time::timeout(Duration::from_secs(5), response).await;
    let response = response.expect("the response begins").unwrap();
    let (head, body) = response.into_parts();
    let kind = head.headers.get("content-type");
    let is_json = kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    // A stream may have no end.
    let body = match is_json {
        true => body.collect().await.map(|body| body.to_bytes()).unwrap_or_default(),
        false => Bytes::new(),
    };
    endpoint.shutdown();
    (head.status.as_u16(), body)
}

fn request(data: &[u8]) -> Option<Request<Bytes>> {
    let mut rest = data;
    let mut line = || {
        let end = rest.iter().position(|byte| *byte == b'\n')?;
        let line = &rest[..end];
        rest = &rest[end + 1..];
        Some(line.strip_suffix(b"\r").unwrap_or(line))
    };
    let first = std::str::from_utf8(line()?).ok()?;
    let (method, path) = first.split_once(' ')?;
    let mut request = Request::new(Bytes::new());
    *request.method_mut() = Method::from_bytes(method.as_bytes()).ok()?;
    *request.uri_mut() = path.parse::<Uri>().ok()?;
    while let Some(header) = line().filter(|line| !line.is_empty()) {
        let colon = header.iter().position(|byte| *byte == b':')?;
        let name = HeaderName::from_bytes(&header[..colon]).ok()?;
        let value = HeaderValue::from_bytes(header[colon + 1..].trim_ascii()).ok()?;
        request.headers_mut().append(name, value);
    }
    *request.body_mut() = Bytes::copy_from_slice(rest);
    Some(request)
}

/// Only requests to this machine are served.
fn check_host(headers: &HeaderMap) {
    let hosts: Vec<_> = headers.get_all("host").iter().collect();
    if let [host] = &hosts[..] {
        let host = host.to_str().unwrap_or_default().to_ascii_lowercase();
        let is_local = ["localhost", "127.0.0.1", "[::1]"].iter().any(|it| host.starts_with(it));
        assert!(is_local, "served as {host}");
    }
    assert!(hosts.len() < 2, "served with two hosts");
}

/// A modern request is served only if its headers repeat the fields of its body, each once.
fn check_routing(headers: &HeaderMap, body: &[u8], reply: &[u8]) {
    let (Ok(body), Ok(reply)) =
        (serde_json::from_slice::<Value>(body), serde_json::from_slice::<Value>(reply))
    else {
        return;
    };
    let version = &body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    if reply.get("result").is_none() || version != "2026-07-28" {
        return;
    }
    for (name, field) in [("mcp-protocol-version", version), ("mcp-method", &body["method"])] {
        let values: Vec<_> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
        let expected = field.as_str().unwrap_or_default().as_bytes();
        assert_eq!(values, [expected], "{name}");
    }
    let target = match body["method"].as_str() {
        Some("tools/call" | "prompts/get") => &body["params"]["name"],
        Some("resources/read") => &body["params"]["uri"],
        _ => return,
    };
    let values: Vec<_> = headers.get_all("mcp-name").iter().map(HeaderValue::as_bytes).collect();
    let [value] = &values[..] else { panic!("served with {} Mcp-Name headers", values.len()) };
    // A name that a header cannot have is encoded.
    let expected = target.as_str().unwrap_or_default().as_bytes();
    assert!(*value == expected || value.starts_with(b"=?base64?"), "Mcp-Name");
}
