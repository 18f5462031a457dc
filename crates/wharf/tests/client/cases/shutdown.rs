//! End of calls and connections.

use std::{collections::BTreeMap, time::Duration};

use tokio::sync::mpsc;
use wharf::{Client, ErrorKind, args};

use crate::harness::{Harness, answers, in_time};

async fn dropped(client: &Client) -> u64 {
    let counts: BTreeMap<String, u64> = in_time(client.call_as("counts", ())).await.unwrap();
    counts["dropped"]
}

pub async fn a_call_that_is_dropped_is_cancelled_there(harness: Harness) {
    let client = harness.client().await;
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let call = client.call("forever", ()).on_progress(move |_| begun.send(()).unwrap_or_default());
    let calling = tokio::spawn(call.into_future());
    in_time(has_begun.recv()).await.unwrap();
    assert_eq!(dropped(&client).await, 0);
    calling.abort();
    let gone = async { while dropped(&client).await == 0 {} };
    in_time(gone).await;
}

pub async fn a_call_that_is_silent_too_long_ends(harness: Harness) {
    let client = harness.connect(harness.builder().handler(answers())).await;
    let call = client.call("forever", ()).timeout(Duration::from_millis(200));
    let error = in_time(call).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::RequestTimeout);
    in_time(async { while dropped(&client).await == 0 {} }).await;
}

pub async fn a_closed_client_returns_an_error(harness: Harness) {
    let client = harness.client().await;
    in_time(client.close()).await;
    let error = in_time(client.call("add", args! { a: 1, b: 2 })).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
}

pub async fn a_crashed_server_is_started_again(harness: Harness) {
    let client = harness.client().await;
    let (begun, mut has_begun) = mpsc::unbounded_channel();
    let call = client.call("forever", ()).on_progress(move |_| begun.send(()).unwrap_or_default());
    let calling = tokio::spawn(call.into_future());
    in_time(has_begun.recv()).await.unwrap();
    kill_children().await;
    // The call may have had its effect, so it is not retried.
    let error = in_time(calling).await.unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
    let sum: i64 = in_time(client.call_as("add", args! { a: 1, b: 2 })).await.unwrap();
    assert_eq!(sum, 3);
}

pub async fn a_server_ends_with_its_client(harness: Harness) {
    let client = harness.client().await;
    assert_eq!(children().await.len(), 1);
    in_time(client.close()).await;
    in_time(async { while !children().await.is_empty() {} }).await;
    let client = harness.client().await;
    drop(client);
    in_time(async { while !children().await.is_empty() {} }).await;
}

/// Child processes of this test. Under nextest, each test has its own process.
async fn children() -> Vec<String> {
    let this = std::process::id().to_string();
    let listed = tokio::process::Command::new("pgrep")
        .args(["-P", &this, "-f", "--", "--serve"])
        .output()
        .await
        .expect("pgrep runs");
    String::from_utf8_lossy(&listed.stdout).lines().map(str::to_owned).collect()
}

async fn kill_children() {
    let children = children().await;
    assert_eq!(children.len(), 1);
    let killed = tokio::process::Command::new("kill").arg("-9").args(children).status().await;
    assert!(killed.expect("kill runs").success());
}
