//! Calls in flight: progress, logs, cancellation, ids, batches, timeouts.

use serde_json::{Value, json};

use crate::{client::only_text, harness::Harness};

pub async fn progress_comes_in_order_before_the_reply(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let params = json!({
        "name": "count",
        "arguments": {"to": 5},
        "_meta": {"progressToken": "t"},
    });
    let id = client.start("tools/call", params).await;
    assert_eq!(only_text(&client.reply(&id).await.unwrap()), "5");
    let progress: Vec<Value> = client
        .notifications
        .iter()
        .filter(|told| told["method"] == "notifications/progress")
        .map(|told| told["params"].clone())
        .collect();
    assert_eq!(progress.len(), 5);
    for (step, told) in (1..).zip(&progress) {
        assert_eq!(told["progressToken"], "t");
        assert_eq!(told["progress"].as_f64(), Some(f64::from(step)));
        assert_eq!(told["total"].as_f64(), Some(5.0));
    }
}

pub async fn progress_is_sent_only_on_request(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.text("count", json!({"to": 5})).await;
    assert!(client.notifications.iter().all(|told| told["method"] != "notifications/progress"));
}

pub async fn logs_come_from_the_level_that_was_asked_for(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    if client.is_modern() {
        client.text("count", json!({"to": 1})).await;
        assert_eq!(client.notifications, [] as [Value; 0]);
        client.log_level = Some("warning");
    } else {
        client.call("logging/setLevel", json!({"level": "warning"})).await;
        let error = client.fail("logging/setLevel", json!({"level": "loud"})).await;
        assert_eq!(error["code"], -32602);
    }
    client.text("count", json!({"to": 2})).await;
    let told: Vec<&Value> = client.notifications.iter().collect();
    assert_eq!(told.len(), 2, "{told:?}");
    for (step, told) in (1..).zip(told) {
        assert_eq!(told["method"], "notifications/message");
        assert_eq!(told["params"]["level"], "warning");
        assert_eq!(told["params"]["logger"], "count");
        assert_eq!(told["params"]["data"], json!({"step": step}));
    }
}

pub async fn a_cancelled_call_is_dropped_without_a_reply(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let params = json!({"name": "forever", "arguments": {}, "_meta": {"progressToken": 1}});
    let id = client.start("tools/call", params).await;
    client.notified("notifications/progress").await;
    client.cancel(&id).await;
    // A reply to the cancelled call would make these assertions fail.
    while client.tool("counts", json!({})).await["content"][0]["text"]
        .as_str()
        .is_some_and(|text| text.contains("\"dropped\":0"))
    {}
    assert!(client.is_quiet().await);
    client.cancel(&json!("nobody knows this")).await;
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
}

pub async fn calls_overtake_each_other(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let nap = json!({"name": "nap", "arguments": {"milliseconds": 200, "nonce": "slow"}});
    let slow = client.start("tools/call", nap).await;
    assert_eq!(client.text("echo", json!({"text": "fast"})).await, "fast");
    assert_eq!(only_text(&client.reply(&slow).await.unwrap()), "slow");
}

pub async fn an_id_under_way_cannot_be_used_again(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let arguments = json!({"milliseconds": 300, "nonce": "mine"});
    let nap = json!({"name": "nap", "arguments": arguments, "_meta": {"progressToken": 1}});
    let id = json!("same");
    let request = client.request(&id, "tools/call", nap);
    client.send(&request).await;
    client.notified("notifications/progress").await;
    let echo =
        client.request(&id, "tools/call", json!({"name": "echo", "arguments": {"text": "x"}}));
    client.send(&echo).await;
    // Modern HTTP requests are independent: the server does not relate their ids.
    match client.is_modern() && harness.transport.is_streamable() {
        true => assert_eq!(only_text(&client.reply(&id).await.unwrap()), "x"),
        false => assert_eq!(client.reply(&id).await.unwrap_err()["code"], -32600),
    }
    assert_eq!(only_text(&client.reply(&id).await.unwrap()), "mine");
    client.send(&echo).await;
    assert_eq!(only_text(&client.reply(&id).await.unwrap()), "x");
}

pub async fn a_batch_is_answered_as_one(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let call = |id: u64, name: &str, arguments: Value| {
        client.request(&json!(id), "tools/call", json!({"name": name, "arguments": arguments}))
    };
    let batch = json!([
        call(101, "add", json!({"a": 1, "b": 2})),
        call(102, "nap", json!({"milliseconds": 20, "nonce": "late"})),
        {"jsonrpc": "2.0", "method": "notifications/whatever"},
        {"jsonrpc": "2.0", "id": 103, "method": "ping"},
        {"not": "a message"},
        call(104, "count", json!({"to": 2})),
        call(105, "chatter", json!({"lines": 3})),
    ]);
    client.send(&batch).await;
    let mut told = 0;
    let reply = loop {
        let message = client.receive().await.unwrap();
        if message.is_array() {
            break message;
        }
        assert_eq!(message["method"], "notifications/message", "{message}");
        told += 1;
    };
    assert_eq!(told, 2 + 3, "what the calls log comes before their replies");
    let replies = reply.as_array().unwrap();
    assert_eq!(replies.len(), 6, "{reply}");
    let find = |id: u64| replies.iter().find(|reply| reply["id"] == id).unwrap();
    assert_eq!(only_text(&find(101)["result"]), "3");
    assert_eq!(only_text(&find(102)["result"]), "late");
    assert_eq!(find(103)["result"], json!({}));
    assert_eq!(only_text(&find(104)["result"]), "2");
    assert!(replies.iter().any(|reply| reply["error"]["code"] == -32600), "{reply}");

    client.send(&json!([{"jsonrpc": "2.0", "method": "notifications/whatever"}])).await;
    client.send(&json!([])).await;
    let refused = client.receive().await.unwrap();
    assert_eq!(refused["error"]["code"], -32600, "{refused}");
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
}

pub async fn a_batch_is_refused_where_there_are_none(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.send(&json!([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])).await;
    assert_eq!(client.receive().await.unwrap()["error"]["code"], -32600);
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
}

/// The clock is paused and advances to the next timer.
pub async fn a_tool_that_shows_no_life_times_out(_: Harness, revision: &'static str) {
    let revision = revision.to_owned();
    let frozen = move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            tokio::time::pause();
            let endpoint = crate::server::server().build().unwrap();
            let (reader, writer) = endpoint.connect_memory();
            let revision = if revision == "2026-07-28" { "2026-07-28" } else { "2025-11-25" };
            let mut client =
                crate::client::Client::open(Box::new(reader), Box::new(writer), revision).await;
            let result = client.tool("forever", json!({})).await;
            assert_eq!(result["isError"], true);
            assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
        });
    };
    tokio::task::spawn_blocking(frozen).await.unwrap();
}
