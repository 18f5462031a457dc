//! Floods of HTTP/2 frames: streams that are reset, and endless headers.
#![cfg(target_os = "linux")]

use tokio::{
    io::{AsyncWriteExt, copy, sink, split},
    net::TcpStream,
    time::timeout,
};

use crate::advisories::{harness::PATIENCE, http_client::MODERN, server_process::ServerProcess};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: u8 = 4;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

/// Maximum growth of the server's memory, in bytes: a connection with its buffers and 256 streams.
const MAX_GROWTH: usize = 8 << 20;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Header fields without compression.
fn fields(fields: &[(&str, &str)]) -> Vec<u8> {
    let text = |it: &str| [&[u8::try_from(it.len()).unwrap()], it.as_bytes()].concat();
    fields.iter().flat_map(|it| [vec![0], text(it.0), text(it.1)].concat()).collect()
}

fn request(more: &[(&str, &str)]) -> Vec<u8> {
    let (method, path) = ((":method", "POST"), (":path", "/mcp"));
    let pseudo = [method, (":scheme", "http"), (":authority", "localhost"), path];
    fields(&[&pseudo, more].concat())
}

/// Sends the frames that `frames` makes for each odd stream number. Returns whether the server closed the connection.
async fn flood(count: u32, frames: impl Fn(u32) -> Vec<u8>) -> bool {
    let process = ServerProcess::start().await;
    process.caller(MODERN).works().await;
    let before = process.peak();
    let (mut reader, mut writer) = split(TcpStream::connect(process.address).await.unwrap());
    let reading = tokio::spawn(async move { copy(&mut reader, &mut sink()).await });
    writer.write_all(PREFACE).await.unwrap();
    writer.write_all(&frame(SETTINGS, 0, 0, &[])).await.unwrap();
    let sending = async {
        for number in 0..count {
            if writer.write_all(&frames(2 * number + 1)).await.is_err() {
                return true;
            }
        }
        false
    };
    let is_closed = timeout(PATIENCE, sending).await.expect("the server reads or closes");
    process.caller(MODERN).works().await;
    let growth = process.peak() - before;
    assert!(growth <= MAX_GROWTH, "grew by {growth} bytes");
    drop(writer);
    let is_closed = is_closed || reading.is_finished();
    reading.abort();
    is_closed
}

/// RUSTSEC-2023-0034, RUSTSEC-2024-0003, RUSTSEC-2026-0258: streams that the client or the server had reset stayed in
/// memory.
#[tokio::test(flavor = "multi_thread")]
async fn streams_that_are_reset_are_not_kept() {
    const NO_ERROR: [u8; 4] = [0; 4];
    flood(50_000, |stream| {
        let request = frame(HEADERS, END_HEADERS, stream, &request(&[]));
        [request, frame(RST_STREAM, 0, stream, &NO_ERROR)].concat()
    })
    .await;
    // Field names in upper case are errors of the stream, which the server resets.
    let malformed =
        |stream| frame(HEADERS, END_HEADERS | END_STREAM, stream, &request(&[("X-UPPER", "x")]));
    assert!(flood(50_000, malformed).await, "50,000 errors were accepted");
}

/// RUSTSEC-2024-0332: headers continued in CONTINUATION frames without a limit.
#[tokio::test(flavor = "multi_thread")]
async fn headers_without_end_are_refused() {
    let value = "x".repeat(100);
    let more = fields(&vec![("x-more", &*value); 140]);
    let is_closed = flood(4_000, |stream| match stream {
        1 => frame(HEADERS, END_STREAM, 1, &request(&[])),
        _ => frame(CONTINUATION, 0, 1, &more),
    })
    .await;
    assert!(is_closed, "60 MB of headers were accepted");
}
