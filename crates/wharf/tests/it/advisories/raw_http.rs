//! Raw HTTP/1.1 requests that a regular client cannot send.

use std::net::SocketAddr;

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::advisories::{
    harness::{Harness, PATIENCE},
    http_client::HttpClient,
};

/// Modern call of `echo` as raw bytes.
pub fn modern_call(harness: &Harness) -> String {
    let caller = HttpClient::modern(harness);
    let call = caller.tool("echo", serde_json::json!({"text": "on"}));
    post(harness, &[("mcp-method", "tools/call"), ("mcp-name", "echo"), VERSION], &call.to_string())
}

pub const VERSION: (&str, &str) = ("mcp-protocol-version", crate::advisories::http_client::MODERN);

/// POST with these headers in addition to the usual ones.
pub fn post(harness: &Harness, headers: &[(&str, &str)], body: &str) -> String {
    post_to(harness.address, headers, body)
}

/// The same to a server at this address.
pub fn post_to(address: SocketAddr, headers: &[(&str, &str)], body: &str) -> String {
    let headers: String =
        headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    format!(
        "POST /mcp HTTP/1.1\r\nhost: {address}\r\naccept: application/json, text/event-stream\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n{headers}\r\n{body}",
        body.len(),
    )
}

/// Parsed response.
#[derive(Clone, Debug)]
pub struct RawResponse {
    pub status: u16,
    pub head: String,
    /// Body; empty unless the response declares its length.
    pub body: Vec<u8>,
}

impl RawResponse {
    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    pub fn code(&self) -> i64 {
        let message: Value = serde_json::from_slice(&self.body).unwrap_or_default();
        message["error"]["code"].as_i64().unwrap_or_default()
    }
}

/// Sends a request on its own connection.
pub async fn ask(harness: &Harness, request: &str) -> RawResponse {
    let mut stream = harness.connect().await;
    stream.write_all(request.as_bytes()).await.expect("the server reads");
    answer(&mut stream).await.unwrap_or_else(|| panic!("no answer to {request}"))
}

/// Next response; `None` if the server closes the connection instead.
pub async fn answer(stream: &mut TcpStream) -> Option<RawResponse> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let byte = timeout(PATIENCE, stream.read_u8()).await.expect("patience");
        head.push(byte.ok()?);
    }
    let head = String::from_utf8(head).expect("plain text");
    let status = head.split(' ').nth(1).and_then(|it| it.parse().ok()).expect("a status");
    let mut answer = RawResponse { status, head, body: Vec::new() };
    let length = answer.header("content-length").map_or(0, |it| it.parse().expect("a number"));
    answer.body.resize(length, 0);
    timeout(PATIENCE, stream.read_exact(&mut answer.body)).await.expect("patience").ok()?;
    Some(answer)
}
