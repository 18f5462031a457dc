//! Back-pressure: clients that do not read their responses must not exhaust the server's memory.
//!
//! Each test floods such clients from a separate process, waits until their calls have ended, and checks the peak
//! memory of the process.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::advisories::{
    http_client::{HttpClient, LEGACY, MODERN, SESSION},
    server_process::{REPLAY_TOTAL, ServerProcess},
    web,
};

const MIB: usize = 1 << 20;

/// Sends `flood` from all clients, which read nothing; returns the growth of the process until their calls have ended.
async fn memory_growth(process: &ServerProcess, clients: Vec<HttpClient>, flood: Value) -> usize {
    let observer = process.caller(MODERN);
    observer.works().await;
    let before = process.peak();
    let mut unread = Vec::new();
    for client in &clients {
        let response = client.send(&client.tool("flood", flood.clone())).await;
        assert_eq!(response.status(), 200);
        unread.push(response);
    }
    observer.text("after", json!({"ended": clients.len()})).await;
    drop(unread);
    observer.works().await;
    process.peak() - before
}

/// Twenty clients used to take 4.9 GB: 256 messages each, of any size.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_long_messages_hold_few_of_them() {
    for pool in [web::http1, web::http2] {
        let process = ServerProcess::impatient().await;
        let caller = |_| HttpClient { pool: pool(), ..process.caller(MODERN) };
        let memory_growth = memory_growth(
            &process,
            (0..10).map(caller).collect(),
            json!({"lines": 50, "size": MIB}),
        )
        .await;
        // Four messages each: one that is queued, one that is written, one that is created, and overhead of the
        // allocator.
        assert!(memory_growth <= 40 * MIB, "{} MiB", memory_growth >> 20);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn clients_that_do_not_read_short_messages_hold_few_of_them() {
    let process = ServerProcess::impatient().await;
    let clients = (0..20).map(|_| process.caller(MODERN)).collect();
    let memory_growth =
        memory_growth(&process, clients, json!({"lines": 200, "size": 20_000})).await;
    assert!(memory_growth <= 20 * MIB / 2, "{} MiB", memory_growth >> 20);
}

/// In a session the calls continue; the memory of events that are kept for replay has a common limit.
#[tokio::test(flavor = "multi_thread")]
async fn sessions_whose_clients_do_not_read_stay_within_the_total() {
    for (size, lines) in [(20_000, 60), (500, 800)] {
        let process = ServerProcess::impatient().await;
        let mut clients = Vec::new();
        for _ in 0..40 {
            clients.push(process.caller(LEGACY).opened().await);
        }
        let memory_growth =
            memory_growth(&process, clients, json!({"lines": lines, "size": size})).await;
        // In addition to forty connections with their buffers.
        assert!(
            memory_growth <= REPLAY_TOTAL + 12 * MIB,
            "{} MiB at {size} bytes",
            memory_growth >> 20
        );
    }
}

/// Connection that is never read: all of its output waits in the server.
async fn websocket(process: &ServerProcess, message: &Value) -> TcpStream {
    let mut stream = TcpStream::connect(process.address).await.unwrap();
    let request = format!(
        "GET /mcp HTTP/1.1\r\nhost: {}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
         sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\
         sec-websocket-protocol: mcp\r\n\r\n",
        process.address,
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let message = message.to_string();
    let length = u16::try_from(message.len()).unwrap().to_be_bytes();
    let mut frame = vec![0x81, 0x80 | 126, length[0], length[1], 0, 0, 0, 0];
    frame.extend_from_slice(message.as_bytes());
    stream.write_all(&frame).await.unwrap();
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn websockets_that_are_not_read_hold_few_messages() {
    for (size, lines) in [(MIB, 50), (20_000, 200)] {
        let process = ServerProcess::impatient().await;
        let observer = process.caller(MODERN);
        observer.works().await;
        let before = process.peak();
        let flood = observer.tool("flood", json!({"lines": lines, "size": size}));
        let mut sockets = Vec::new();
        for _ in 0..10 {
            sockets.push(websocket(&process, &flood).await);
        }
        observer.text("after", json!({"ended": sockets.len()})).await;
        let memory_growth = process.peak() - before;
        // One queued message, one that is created, one that is written as a frame, and what glibc's arenas keep
        // (measured: 54 MiB at 1 MiB; without the limit 500).
        assert!(
            memory_growth <= 10 * (5 * size + MIB),
            "{} MiB at {size} bytes",
            memory_growth >> 20
        );
    }
}

/// A session's GET stream that is not read, and the messages sent to the session meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_was_not_read_answers_afterwards() {
    let process = ServerProcess::impatient().await;
    let client = process.caller(LEGACY).opened().await;
    assert!(client.session.is_some(), "{SESSION} is missing");
    let flood = client.tool("flood", json!({"lines": 300, "size": 20_000}));
    let unread = client.send(&flood).await;
    process.caller(MODERN).text("after", json!({"ended": 1})).await;
    client.works().await;
    drop(unread);
}
