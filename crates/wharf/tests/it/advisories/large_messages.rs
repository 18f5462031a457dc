//! Memory of large messages while they are read and answered.
#![cfg(target_os = "linux")]

use serde_json::{Value, json};
use tokio::{io::AsyncWriteExt, task::JoinSet};

use crate::advisories::{
    http_client::MODERN,
    raw_http::{self, VERSION},
    resource_starvation::connect_from,
    server_process::{BODIES_TOTAL, MESSAGE, ServerProcess},
};

/// Addresses of the callers: none of them may use all of the memory.
const CALLERS: u8 = 8;
const MESSAGES_PER_CALLER: usize = 4;

/// Eighty messages of 15 MiB took 1.1 GiB, of the 256 MiB that `HttpLimits::bodies` allows: a body was charged once, but its
/// arguments and its reply take as much again. Here the limit and the messages have an eighth of that size.
#[tokio::test(flavor = "multi_thread")]
async fn large_messages_stay_within_their_limit_and_are_all_answered() {
    let process = ServerProcess::start_small().await;
    let observer = process.caller(MODERN);
    observer.works().await;
    let before = process.peak();
    // Without a progress token, the tool keeps the text while it waits, and returns it.
    let text = "x".repeat(MESSAGE - (64 << 10));
    let arguments = json!({"milliseconds": 100, "nonce": text});
    let call = observer.message("tools/call", json!({"name": "nap", "arguments": arguments}));
    let headers = [("mcp-method", "tools/call"), ("mcp-name", "nap"), VERSION];
    let call = raw_http::post_to(process.address, &headers, &call.to_string());
    let mut calls = JoinSet::new();
    for number in 0..usize::from(CALLERS) * MESSAGES_PER_CALLER {
        let (call, address) = (call.clone(), process.address);
        let from = format!("127.0.0.{}", 2 + number % usize::from(CALLERS));
        calls.spawn(async move {
            let mut stream = connect_from(&from, address).await;
            stream.write_all(call.as_bytes()).await.unwrap();
            let answer = raw_http::answer(&mut stream).await.unwrap();
            assert_eq!(answer.status, 200);
            let reply: Value = serde_json::from_slice(&answer.body).unwrap();
            reply["result"]["content"][0]["text"].as_str().unwrap().len()
        });
    }
    let lengths = calls.join_all().await;
    assert!(lengths.iter().all(|length| *length == text.len()), "{lengths:?}");
    let memory_growth = process.peak() - before;
    // In addition to the connections and their buffers.
    let limit = BODIES_TOTAL + BODIES_TOTAL / 4;
    assert!(memory_growth <= limit, "{} of {} MiB", memory_growth >> 20, limit >> 20);
}
