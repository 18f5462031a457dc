//! A method that the protocol does not define.

use serde_json::{Value, json};

use crate::harness::Harness;

pub async fn it_is_called_by_its_name(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let params = json!({"year": 2026, "cursor": 7, "arguments": [1], "_meta": {"trace": "a"}});
    let result = client.call("acme/report", params).await;
    assert_eq!(result["total"], 4052);
    assert_eq!(result["_meta"]["source"], "books");
    let modern = client.is_modern();
    assert_eq!(result["resultType"], if modern { json!("complete") } else { Value::Null });
    assert_eq!(result["ttlMs"], if modern { json!(5000) } else { Value::Null });
    let server = &result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"];
    assert_eq!(*server, if modern { json!("behaviour") } else { Value::Null });
}

pub async fn other_names_are_unknown(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    for name in ["acme/reports", "acme", "custom method", "sampling/createMessage"] {
        let error = client.fail(name, json!({})).await;
        assert_eq!(error["code"], -32601, "{error}");
        assert!(error["message"].as_str().unwrap().contains(name), "{error}");
    }
}

pub async fn wrong_parameters_are_rejected(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let error = client.fail("acme/report", json!({"year": "next"})).await;
    assert_eq!(error["code"], -32602);
    assert!(error["message"].as_str().unwrap().contains("year"), "{error}");
}

pub async fn a_result_that_is_no_object_is_an_internal_error(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    assert_eq!(client.fail("acme/list", json!({})).await["code"], -32603);
    assert_eq!(client.call("acme/report", json!({"year": 1})).await["total"], 2);
}

pub async fn it_reports_progress(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let params = json!({"year": 2, "_meta": {"progressToken": "t"}});
    assert_eq!(client.call("acme/report", params).await["total"], 4);
    let progress = client.notified("notifications/progress").await;
    assert_eq!(progress["progressToken"], "t");
    assert_eq!(progress["progress"].as_f64(), Some(1.0));
}

pub async fn it_asks_the_client(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.answer = |_, _| json!({"action": "accept", "content": {"confirmed": true}});
    let result = client.call("acme/erase", json!({"year": 2026})).await;
    assert_eq!(result["erased"], 2026);
}
