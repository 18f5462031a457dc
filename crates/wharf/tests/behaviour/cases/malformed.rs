//! Malformed messages: lines that are not JSON-RPC messages, and messages that are not a single line.

use serde_json::{Value, json};

use crate::{client::Client, harness::Harness, server::LONGEST};

/// Malformed input and the expected error code.
const MALFORMED: &[(&[u8], i64)] = &[
    (b"{", -32700),
    (b"hello", -32700),
    (b"\"hello\"", -32600),
    (
        b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"tools/call\",\"params\":{\"name\":\"\xff\"}}",
        -32700,
    ),
    (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"id\":2,\"method\":\"tools/list\"}", -32600),
    (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"m\\u0065thod\":\"ping\",\"method\":\"tools/list\"}", -32600),
    (b"{\"jsonrpc\":\"2.0\",\"id\":null,\"method\":\"tools/list\"}", -32600),
    (b"{\"jsonrpc\":\"2.0\",\"id\":1.5,\"method\":\"tools/list\"}", -32600),
    (b"{\"jsonrpc\":\"2.0\",\"id\":{},\"method\":\"tools/list\"}", -32600),
    (b"{\"jsonrpc\":\"1.0\",\"id\":1,\"method\":\"tools/list\"}", -32600),
    (b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":5}", -32600),
    (b"{\"jsonrpc\":\"2.0\",\"id\":1}", -32600),
];

pub async fn a_malformed_message_gets_an_error_and_the_next_one_works(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let deep =
        [b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"x\",\"params\":".as_slice(), &[b'['; 200]];
    let deep = deep.concat();
    let table = MALFORMED.iter().copied();
    for (line, code) in table.chain([(&*deep, -32700)]) {
        if harness.transport.sends_text() && std::str::from_utf8(line).is_err() {
            continue;
        }
        client.send_bytes(line).await;
        client.send_text("\n").await;
        let reply = client.receive().await.unwrap();
        let shown = String::from_utf8_lossy(line).into_owned();
        assert_eq!(reply["error"]["code"], code, "{shown}: {reply}");
        works(&mut client).await;
    }
    // A response with both a result and an error, for an unknown request: ignored or rejected, never fatal.
    client.send(&json!({"jsonrpc": "2.0", "id": 9, "result": {}, "error": {}})).await;
    client.send(&json!({"jsonrpc": "2.0", "id": 9, "result": {}})).await;
    let id = client.start("tools/call", json!({"name": "echo", "arguments": {"text": "on"}})).await;
    while client.receive().await.unwrap()["id"] != id {}
}

async fn works(client: &mut Client) {
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
}

pub async fn blank_lines_are_skipped(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.send_text("\n\n  \t \n\r\n").await;
    works(&mut client).await;
    client.send_text("\n").await;
    assert!(client.is_quiet().await);
}

pub async fn carriage_returns_are_tolerated(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let call = json!({"name": "echo", "arguments": {"text": "a\r\nb"}});
    let request = client.request(&json!("r"), "tools/call", call);
    client.send_text(&format!("{request}\r\n")).await;
    let result = client.reply(&json!("r")).await.unwrap();
    assert_eq!(crate::client::only_text(&result), "a\r\nb");
}

pub async fn a_line_that_is_too_long_gets_its_error_and_the_next_works(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let echo = |client: &Client, text: String| {
        let call = json!({"name": "echo", "arguments": {"text": text}});
        client.request(&json!("long"), "tools/call", call).to_string()
    };
    let around = echo(&client, String::new()).len();
    let fits = echo(&client, "x".repeat(LONGEST - around));
    assert_eq!(fits.len(), LONGEST);
    client.send_text(&format!("{fits}\n")).await;
    let result = client.reply(&json!("long")).await.unwrap();
    assert_eq!(crate::client::only_text(&result).len(), LONGEST - around);
    for extra in [1, 3 * LONGEST] {
        let line = echo(&client, "x".repeat(LONGEST - around + extra));
        client.send_text(&format!("{line}\n")).await;
        let reply = client.receive().await.unwrap();
        assert_eq!(reply["id"], Value::Null);
        assert_eq!(reply["error"]["code"], -32801, "{reply}");
        works(&mut client).await;
    }
}

pub async fn a_message_may_come_in_pieces(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let call = json!({"name": "echo", "arguments": {"text": "Grüße aus Århus"}});
    let request = format!("{}\n", client.request(&json!("p"), "tools/call", call));
    for piece in request.as_bytes().chunks(7) {
        client.send_bytes(piece).await;
        tokio::task::yield_now().await;
    }
    let result = client.reply(&json!("p")).await.unwrap();
    assert_eq!(crate::client::only_text(&result), "Grüße aus Århus");
}

pub async fn the_last_line_needs_no_newline(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let call = json!({"name": "echo", "arguments": {"text": "bye"}});
    let request = client.request(&json!("b"), "tools/call", call);
    client.send_text(&request.to_string()).await;
    client.close().await;
    let result = client.reply(&json!("b")).await.unwrap();
    assert_eq!(crate::client::only_text(&result), "bye");
    assert_eq!(client.receive().await, None);
}

pub async fn a_request_of_a_browser_ends_the_connection(harness: Harness, revision: &'static str) {
    let (reader, writer) = harness.connect(revision).await;
    let mut client = Client::new(reader, writer, revision);
    let call = json!({"name": "echo", "arguments": {"text": "forged"}});
    let forged = client.request(&json!(1), "tools/call", call);
    client.send_text(&format!("POST / HTTP/1.1\r\nHost: localhost\r\n\r\n{forged}\n")).await;
    assert_eq!(client.receive().await, None);
}
