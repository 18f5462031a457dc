//! Server requests (elicitation, sampling, roots) of one handler in both eras.

use serde_json::{Value, json};

use crate::harness::Harness;

/// Accepts every server request.
fn agree(method: &str, params: &Value) -> Value {
    match method {
        "elicitation/create" if params["url"].is_string() => json!({"action": "accept"}),
        "elicitation/create" => json!({"action": "accept", "content": {"confirmed": true}}),
        "roots/list" => json!({"roots": [{"uri": "file:///a"}, {"uri": "file:///b", "name": "b"}]}),
        "sampling/createMessage" => json!({
            "role": "assistant",
            "content": {"type": "text", "text": params["messages"][0]["content"]["text"]},
            "model": "parrot",
        }),
        _ => panic!("asked {method}"),
    }
}

pub async fn a_form_is_filled_in(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.answer = |method, params| {
        assert_eq!(method, "elicitation/create");
        assert_eq!(params["message"], "Really sail?");
        let schema = &params["requestedSchema"];
        assert_eq!(schema["properties"]["confirmed"]["type"], "boolean");
        assert_eq!(schema["required"], json!(["confirmed"]));
        json!({"action": "accept", "content": {"confirmed": false}})
    };
    let text = client.text("confirm", json!({"what": "sail"})).await;
    assert_eq!(text, "confirmed: false");
}

pub async fn a_decline_and_a_cancel_are_different_answers(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    client.answer = |_, _| json!({"action": "decline"});
    assert_eq!(client.text("confirm", json!({"what": "sail"})).await, "declined");
    client.answer = |_, _| json!({"action": "cancel"});
    assert_eq!(client.text("confirm", json!({"what": "sail"})).await, "cancelled");
}

pub async fn two_questions_go_out_at_once(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.answer = agree;
    let id = client.start("tools/call", json!({"name": "both", "arguments": {}})).await;
    if client.is_modern() {
        let result = client.reply(&id).await.unwrap();
        assert_eq!(result["inputRequests"].as_object().unwrap().len(), 2);
        assert_eq!(client.text("both", json!({})).await, "true 2");
        return;
    }
    let asked = [client.receive().await.unwrap(), client.receive().await.unwrap()];
    assert_ne!(asked[0]["id"], asked[1]["id"]);
    for ask in asked.iter().rev() {
        let result = agree(ask["method"].as_str().unwrap(), &ask["params"]);
        client.send(&json!({"jsonrpc": "2.0", "id": ask["id"], "result": result})).await;
    }
    let result = client.reply(&id).await.unwrap();
    assert_eq!(crate::client::only_text(&result), "true 2");
}

pub async fn an_effect_happens_once_however_often_the_client_is_asked(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    client.answer = agree;
    assert_eq!(client.text("effect", json!({})).await, "1");
    let counts = client.text("counts", json!({})).await;
    assert!(counts.contains("\"effects\":1"), "{counts}");
}

pub async fn the_clients_model_is_asked(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.answer = agree;
    let text = client.text("poem", json!({"topic": "tar"})).await;
    assert_eq!(text, "Write one line about tar.");
}

pub async fn the_clients_roots_are_asked_for(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.answer = agree;
    assert_eq!(client.text("workspace", json!({})).await, "file:///a file:///b");
}

pub async fn a_url_is_opened(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.answer = |method, params| {
        assert_eq!(params["mode"], "url");
        assert_eq!(params["url"], "https://example.com/sign-in");
        agree(method, params)
    };
    assert_eq!(client.text("sign_in", json!({})).await, "signed in");
}

pub async fn resources_and_prompts_ask_too(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    client.answer = agree;
    let read = client.call("resources/read", json!({"uri": "test://secret"})).await;
    assert_eq!(read["contents"][0]["text"], "secret: true");
    let prompt = client.call("prompts/get", json!({"name": "interview"})).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "ready: true");
}

pub async fn undeclared_client_capabilities_are_not_requested(
    harness: Harness,
    revision: &'static str,
) {
    let (reader, writer) = harness.connect(revision).await;
    let mut client = crate::client::Client::new(reader, writer, revision);
    client.capabilities = json!({});
    client.handshake().await;
    for (tool, arguments, capability) in [
        ("confirm", json!({"what": "sail"}), "elicitation"),
        ("poem", json!({"topic": "tar"}), "sampling"),
        ("workspace", json!({}), "roots"),
    ] {
        let call = json!({"name": tool, "arguments": arguments});
        let error = client.fail("tools/call", call).await;
        assert_eq!(error["code"], if client.is_modern() { -32021 } else { -32602 }, "{error}");
        assert!(error["data"]["requiredCapabilities"][capability].is_object(), "{error}");
    }
}

pub async fn a_question_of_a_cancelled_call_is_taken_back(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let id = client.start("tools/call", json!({"name": "workspace", "arguments": {}})).await;
    let ask = client.receive().await.unwrap();
    assert_eq!(ask["method"], "roots/list");
    client.cancel(&id).await;
    let told = client.notified("notifications/cancelled").await;
    assert_eq!(told["requestId"], ask["id"]);
    // The response may already be in flight; it is ignored.
    client.send(&json!({"jsonrpc": "2.0", "id": ask["id"], "result": {"roots": []}})).await;
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
}

pub async fn a_disconnect_ends_open_client_requests(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let id = client.start("tools/call", json!({"name": "workspace", "arguments": {}})).await;
    assert_eq!(client.receive().await.unwrap()["method"], "roots/list");
    client.close().await;
    // The call ends with an error if the client is still connected.
    match client.receive().await {
        None => assert!(!harness.transport.has_two_ends()),
        Some(reply) => {
            assert_eq!(reply["id"], id, "{reply}");
            assert!(reply["error"].is_object() || reply["result"]["isError"] == true, "{reply}");
            assert_eq!(client.receive().await, None);
        }
    }
}
