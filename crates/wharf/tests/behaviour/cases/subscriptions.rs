//! Subscriptions to change notifications.

use serde_json::{Value, json};

use crate::{client::Client, harness::Harness};

const SUBSCRIPTION: &str = "io.modelcontextprotocol/subscriptionId";

/// Opens a modern subscription and waits for its acknowledgement.
async fn listen(client: &mut Client, filter: Value) -> Value {
    let id = client.start("subscriptions/listen", json!({"notifications": filter})).await;
    let told = client.notified("notifications/subscriptions/acknowledged").await;
    assert_eq!(told["_meta"][SUBSCRIPTION], id);
    assert_eq!(told["notifications"], filter);
    id
}

pub async fn a_changed_list_is_notified(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let id = match client.is_modern() {
        true => listen(&mut client, json!({"toolsListChanged": true})).await,
        false => Value::Null,
    };
    client.text("set_bonus", json!({"on": true})).await;
    let told = client.notified("notifications/tools/list_changed").await;
    assert_eq!(told["_meta"][SUBSCRIPTION], id);
    assert_eq!(client.text("bonus", json!({})).await, "bonus");
    client.text("set_bonus", json!({"on": false})).await;
    client.notified("notifications/tools/list_changed").await;
    client.fail("tools/call", json!({"name": "bonus"})).await;
}

pub async fn resource_updates_reach_their_subscribers(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let uri = "test://readme";
    if client.is_modern() {
        listen(&mut client, json!({"resourceSubscriptions": [uri]})).await;
    } else {
        client.call("resources/subscribe", json!({"uri": uri})).await;
    }
    client.text("touch", json!({"uri": "test://logo"})).await;
    client.text("touch", json!({"uri": uri})).await;
    let told = client.notified("notifications/resources/updated").await;
    assert_eq!(told["uri"], uri);
    if !client.is_modern() {
        client.call("resources/unsubscribe", json!({"uri": uri})).await;
        client.text("touch", json!({"uri": uri})).await;
        assert!(client.is_quiet().await);
    }
    assert_eq!(client.notifications, [] as [Value; 0]);
}

pub async fn a_listen_can_be_cancelled(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let first = listen(&mut client, json!({"toolsListChanged": true})).await;
    let second = listen(&mut client, json!({"toolsListChanged": true})).await;
    client.cancel(&first).await;
    client.text("set_bonus", json!({"on": true})).await;
    let told = client.notified("notifications/tools/list_changed").await;
    assert_eq!(told["_meta"][SUBSCRIPTION], second);
    assert!(client.is_quiet().await);
}

/// Expects the result of the subscription, the final notification if it has no stream of its own, and nothing else.
async fn ended(harness: &Harness, client: &mut Client, id: &Value) {
    let result = client.reply(id).await.unwrap();
    assert_eq!(result["resultType"], "complete");
    if !harness.transport.is_streamable() {
        let told = client.notified("notifications/cancelled").await;
        assert_eq!(told["requestId"], *id);
    }
    harness.is_over(client).await;
}

pub async fn a_listen_ends_with_its_result_when_the_server_stops(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let id = listen(&mut client, json!({"toolsListChanged": true})).await;
    harness.stop().await;
    ended(&harness, &mut client, &id).await;
}

pub async fn a_listen_ends_with_its_result_when_the_client_closes(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let id = listen(&mut client, json!({"toolsListChanged": true})).await;
    client.close().await;
    ended(&harness, &mut client, &id).await;
}
