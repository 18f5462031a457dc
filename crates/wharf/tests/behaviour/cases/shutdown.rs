//! End of connections and processes.

use serde_json::json;
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    time::timeout,
};

use crate::{
    client::{Client, only_text},
    harness::{Harness, PATIENCE, this_binary},
};

async fn nap(client: &mut Client) -> serde_json::Value {
    let arguments = json!({"milliseconds": 200, "nonce": "done"});
    let call = json!({"name": "nap", "arguments": arguments, "_meta": {"progressToken": 1}});
    client.start("tools/call", call).await
}

pub async fn calls_under_way_are_finished_when_the_client_closes(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let id = nap(&mut client).await;
    client.close().await;
    assert_eq!(only_text(&client.reply(&id).await.unwrap()), "done");
    assert_eq!(client.receive().await, None);
}

pub async fn calls_under_way_are_finished_when_the_server_stops(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let id = nap(&mut client).await;
    client.notified("notifications/progress").await;
    harness.stop().await;
    assert_eq!(only_text(&client.reply(&id).await.unwrap()), "done");
    harness.is_over(&mut client).await;
}

pub async fn both_eras_share_one_stream(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    assert_eq!(client.text("add", json!({"a": 1, "b": 2})).await, "3");
    client.revision = crate::client::MODERN;
    let discovery = client.call("server/discover", json!({})).await;
    assert_eq!(discovery["resultType"], "complete");
    client.revision = revision;
    let list = client.call("tools/list", json!({})).await;
    assert_eq!(list.get("resultType").is_some(), client.is_modern());
}

pub async fn the_process_ends_when_stdin_does(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let mut child = harness.child();
    client.close().await;
    assert_eq!(client.receive().await, None);
    let status = timeout(PATIENCE, child.wait()).await.expect("patience").unwrap();
    assert!(status.success());
}

/// The child's stdin stays open: only the death of its parent can end it (TS#2002: processes stayed).
pub async fn the_process_ends_when_its_parent_is_killed(_: Harness, _: &'static str) {
    let mut parent = this_binary("--parent").spawn().unwrap();
    let mut stdin = parent.stdin.take().unwrap();
    let mut stdout = BufReader::new(parent.stdout.take().unwrap()).lines();
    stdin.write_all(b"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\n").await.unwrap();
    let pong = timeout(PATIENCE, stdout.next_line()).await.expect("patience").unwrap();
    assert_eq!(pong.as_deref(), Some("{\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{}}"));
    // SIGKILL leaves the parent no chance to end its child.
    parent.kill().await.unwrap();
    assert_eq!(timeout(PATIENCE, stdout.next_line()).await.expect("patience").unwrap(), None);
    drop(stdin);
}

/// TS#1564: EPIPE was an unhandled error.
pub async fn the_process_ends_when_stdout_closes(harness: Harness, revision: &'static str) {
    let client = harness.client(revision).await;
    let mut child = harness.child();
    let call = json!({"name": "echo", "arguments": {"text": "x"}});
    let request = format!("{}\n", client.request(&json!(1), "tools/call", call));
    let (reader, mut writer) = client.into_parts();
    drop(reader);
    // The first write to the broken pipe reveals the closed stdout to the server.
    let _ = writer.write_all(request.as_bytes()).await;
    timeout(PATIENCE, child.wait()).await.expect("patience").unwrap();
    drop(writer);
}

pub async fn a_second_signal_ends_the_process_at_once(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let params = json!({"name": "forever", "arguments": {}, "_meta": {"progressToken": 1}});
    client.start("tools/call", params).await;
    client.notified("notifications/progress").await;
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let listen = client.start("subscriptions/listen", filter).await;
    client.notified("notifications/subscriptions/acknowledged").await;
    harness.stop().await;
    // The end of the subscription shows that the first signal has arrived.
    client.reply(&listen).await.unwrap();
    harness.stop().await;
    let mut child = harness.child();
    let status = timeout(PATIENCE, child.wait()).await.expect("patience").unwrap();
    assert!(!status.success());
}

pub async fn printing_does_not_harm_the_stream(_: Harness, revision: &'static str) {
    let mut child = this_binary("--serve").stderr(std::process::Stdio::piped()).spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut stderr = child.stderr.take().unwrap();
    let mut client = Client::open(Box::new(stdout), Box::new(stdin), revision).await;
    assert_eq!(client.text("shout", json!({})).await, "shouted");
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
    client.close().await;
    assert_eq!(client.receive().await, None);
    let mut printed = String::new();
    timeout(PATIENCE, stderr.read_to_string(&mut printed)).await.expect("patience").unwrap();
    assert!(printed.contains("this is not a message"), "{printed}");
}

pub async fn a_runtime_of_one_thread_is_enough(_: Harness, revision: &'static str) {
    let mut child = this_binary("--serve-on-one-thread").spawn().unwrap();
    let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut client = Client::open(Box::new(stdout), Box::new(stdin), revision).await;
    let slow = nap(&mut client).await;
    assert_eq!(client.text("count", json!({"to": 3})).await, "3");
    client.text("hash", json!({"text": "blocking"})).await;
    assert_eq!(only_text(&client.reply(&slow).await.unwrap()), "done");
    client.close().await;
    assert_eq!(client.receive().await, None);
    let status = timeout(PATIENCE, child.wait()).await.expect("patience").unwrap();
    assert!(status.success());
}
