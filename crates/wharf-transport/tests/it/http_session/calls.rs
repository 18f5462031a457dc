//! Responses to calls: as JSON, as events, delayed, or none.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;

use super::support::{EVENTS, JSON, NEWEST, SessionServer, cancelled, tool};

fn text(message: &Value) -> &str {
    message["result"]["content"][0]["text"].as_str().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_call_without_notifications_is_answered_with_json() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    assert_eq!(text(&client.tool(1, "now").await.json().await), "now");
    server.gate.add_permits(1);
    assert_eq!(text(&client.tool(2, "gate").await.json().await), "gate");
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.tool(3, "gate").await }
    });
    server.settle().await;
    server.gate.add_permits(1);
    assert_eq!(text(&waiting.await.unwrap().json().await), "gate");
    // There is no stream to resume.
    for stream in 1..4 {
        assert_eq!(client.get(Some(&format!("{stream}-0"))).await.status, 400);
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_with_notifications_is_answered_with_events() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut answer = client.post(tool(1, "count", json!({"to": 2}))).await;
    let primed = answer.next().await.unwrap();
    assert_eq!((&*primed.id, primed.retry, &primed.data), ("1-0", Some(1000), &Value::Null));
    let messages = answer.messages().await;
    let ids: Vec<_> = messages.iter().map(|event| &*event.id).collect();
    assert_eq!(ids, ["1-1", "1-2", "1-3"]);
    assert_eq!(messages[0].data["params"]["progressToken"], "token");
    assert_eq!(messages[2].data["id"], 1);
}

#[tokio::test(start_paused = true)]
async fn streams_are_primed_only_where_clients_expect_it() {
    let server = SessionServer::new();
    for revision in ["2025-03-26", "2025-06-18"] {
        let client = server.client(revision).await;
        let mut answer = client.post(tool(1, "count", json!({"to": 1}))).await;
        let first = answer.next().await.unwrap();
        assert_eq!((&*first.id, first.retry), ("1-1", None));
        let mut own = client.get(None).await;
        server.change(1);
        let first = own.next().await.unwrap();
        assert_eq!((&*first.id, first.retry), ("0-1", None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_long_call_becomes_a_stream_with_keep_alive() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut answer = client.tool(1, "gate").await;
    assert_eq!(answer.next().await.unwrap().id, "1-0");
    assert!(answer.is_silent().await);
    server.gate.add_permits(1);
    assert_eq!(text(&answer.next().await.unwrap().data), "gate");
    assert_eq!(answer.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_only_json_gets_the_reply_alone() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let answer = client.post_as(JSON, tool(1, "count", json!({"to": 3}))).await;
    assert_eq!(text(&answer.json().await), "count");
    let answer = client.post_as(JSON, tool(2, "ask", json!({}))).await.json().await;
    assert_eq!(
        (&answer["result"]["isError"], text(&answer)),
        (&json!(true), "missing_client_capability")
    );
    let answer = client.post_as(JSON, tool(3, "let_go", json!({"to": 1})));
    assert!(timeout(Duration::from_secs(3600), answer).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_client_that_reads_only_events_gets_nothing_else() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for message in [tool(1, "now", json!({})), json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})]
    {
        let events = client.post_as(EVENTS, message).await.messages().await;
        assert_eq!(events.len(), 1);
        assert_eq!(events[0].data["id"], 1);
    }
    let client_without_session = server.client_without_session(NEWEST);
    let answer = client_without_session.post_as(EVENTS, client_without_session.hello("test")).await;
    let opened =
        super::support::SessionClient { session: answer.session.clone(), ..client_without_session };
    assert_eq!(answer.messages().await[0].data["id"], 0);
    assert_eq!(text(&opened.tool(1, "now").await.json().await), "now");
}

#[tokio::test(start_paused = true)]
async fn messages_without_a_reply_are_accepted_with_202() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    for message in [
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "method": "notifications/unknown"}),
        json!({"jsonrpc": "2.0", "id": 77, "result": {}}),
        cancelled(99),
    ] {
        let answer = client.post(message).await;
        assert_eq!((answer.status, answer.whole().await), (202, Vec::new()));
    }
    assert_eq!(server.calls(), server.unread_subscriptions());
}

#[tokio::test(start_paused = true)]
async fn a_server_to_client_request_goes_to_the_stream_of_its_call() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let mut own = client.get(None).await;
    let mut first = client.tool(1, "ask").await;
    let mut second = client.tool(2, "ask").await;
    let asks = [first.message().await.unwrap(), second.message().await.unwrap()];
    assert_eq!((&*asks[0].id, &*asks[1].id), ("1-1", "2-1"));
    assert_ne!(asks[0].data["id"], asks[1].data["id"]);
    assert_eq!(client.answer(&asks[1].data, json!({"roots": [2]})).await, 202);
    assert_eq!(text(&second.message().await.unwrap().data), r#"{"roots":[2]}"#);
    assert_eq!(client.answer(&asks[0].data, json!({"roots": [1]})).await, 202);
    assert_eq!(text(&first.message().await.unwrap().data), r#"{"roots":[1]}"#);
    assert!(own.is_silent().await);
}

#[tokio::test(start_paused = true)]
async fn a_session_cannot_answer_for_another() {
    let server = SessionServer::new();
    let (alice, bob) = (server.client(NEWEST).await, server.client(NEWEST).await);
    let mut answer = alice.tool(1, "ask").await;
    let ask = answer.message().await.unwrap().data;
    assert_eq!(bob.answer(&ask, json!({"roots": ["bob"]})).await, 202);
    assert!(answer.is_silent().await);
    alice.answer(&ask, json!({"roots": []})).await;
    assert_eq!(text(&answer.message().await.unwrap().data), r#"{"roots":[]}"#);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_cancelled_ends_without_a_reply() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    // Before its response begins.
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.tool(1, "gate").await }
    });
    server.settle().await;
    assert_eq!(client.cancel(1).await, 202);
    assert_eq!(waiting.await.unwrap().next().await, None);
    // In the middle of its stream.
    let mut answer = client.post(tool(2, "count_and_wait", json!({"to": 1}))).await;
    assert!(answer.message().await.unwrap().id.ends_with("-1"));
    assert_eq!(client.cancel(2).await, 202);
    assert_eq!(answer.next().await, None);
    // With an open server-to-client request, which is withdrawn.
    let mut answer = client.tool(3, "ask").await;
    let ask = answer.message().await.unwrap().data;
    assert_eq!(client.cancel(3).await, 202);
    let withdrawn = answer.message().await.unwrap().data;
    assert_eq!(withdrawn["method"], "notifications/cancelled");
    assert_eq!(withdrawn["params"]["requestId"], ask["id"]);
    assert_eq!(answer.next().await, None);
    server.settle().await;
    assert_eq!(server.calls(), server.unread_subscriptions());
    assert_eq!(text(&client.tool(1, "now").await.json().await), "now");
}

#[tokio::test(start_paused = true)]
async fn a_client_cannot_cancel_the_call_of_another() {
    let server = SessionServer::new();
    let (alice, bob) = (server.client(NEWEST).await, server.client(NEWEST).await);
    let mut answer = alice.tool(1, "gate").await;
    assert_eq!(bob.cancel(1).await, 202);
    server.gate.add_permits(1);
    assert_eq!(text(&answer.message().await.unwrap().data), "gate");
}

#[tokio::test(start_paused = true)]
async fn an_id_in_flight_is_rejected_until_its_call_ends() {
    let server = SessionServer::new();
    // If several servers share a session, each has its own calls.
    server.only(0);
    let client = server.client(NEWEST).await;
    let answer = client.tool(1, "gate").await;
    let refused = client.tool(1, "now").await;
    assert_eq!(refused.status, 400);
    assert_eq!(refused.json().await["error"]["code"], -32600);
    server.gate.add_permits(1);
    assert_eq!(answer.messages().await.len(), 1);
    assert_eq!(client.tool(1, "now").await.status, 200);
}

#[tokio::test(start_paused = true)]
async fn a_late_rejection_has_a_retry_time() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let refused = tokio::join!(client.tool(1, "busy"), async {
        server.settle().await;
        server.gate.add_permits(1);
    });
    assert_eq!((refused.0.status, refused.0.retry_after.as_deref()), (503, Some("2")));
    assert_eq!(refused.0.json().await["error"]["code"], 1008);
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_only_its_own_call() {
    let server = SessionServer::new();
    let client = server.client(NEWEST).await;
    let answer = client.tool(1, "panic").await.json().await;
    assert_eq!(answer["result"]["isError"], true);
    assert!(!answer.to_string().contains("on purpose"), "{answer}");
    assert_eq!(text(&client.tool(2, "now").await.json().await), "now");
}

#[tokio::test(start_paused = true)]
async fn a_batch_without_notifications_is_answered_with_json() {
    let server = SessionServer::new();
    let client = server.client("2025-03-26").await;
    server.gate.add_permits(1);
    let ping = json!({"jsonrpc": "2.0", "id": "p", "method": "ping"});
    let batch = json!([tool(1, "now", json!({})), tool(2, "gate", json!({})), ping, cancelled(9)]);
    let answer = client.post(batch.clone()).await.json().await;
    let mut ids: Vec<_> =
        answer.as_array().unwrap().iter().map(|it| it["id"].to_string()).collect();
    ids.sort();
    assert_eq!(ids, ["\"p\"", "1", "2"]);
    let accepted = client.post(json!([cancelled(1), cancelled(2)])).await;
    assert_eq!((accepted.status, accepted.whole().await), (202, Vec::new()));
    assert_eq!(server.client(NEWEST).await.post(batch).await.status, 400);
}

#[tokio::test(start_paused = true)]
async fn a_batch_with_notifications_is_answered_with_events_on_one_stream() {
    let server = SessionServer::new();
    let client = server.client("2025-03-26").await;
    let batch = json!([
        tool(1, "count", json!({"to": 2})),
        tool(2, "ask", json!({})),
        tool(3, "now", json!({})),
        tool(4, "gate", json!({})),
    ]);
    let mut answer = client.post(batch).await;
    let mut said = Vec::new();
    for number in 1..=3 {
        let event = answer.message().await.unwrap();
        assert_eq!(event.id, format!("1-{number}"));
        said.push(event.data);
    }
    let ask = said.iter().find(|it| it["method"] == "roots/list").unwrap();
    client.answer(ask, json!({"roots": []})).await;
    client.cancel(4).await;
    let last = answer.message().await.unwrap();
    assert_eq!(last.data.as_array().unwrap().len(), 3);
    assert_eq!(answer.next().await, None);
    let resumed = client.get(Some("1-2")).await.messages().await;
    assert_eq!(resumed.len(), 2);
    assert_eq!(resumed[1], last);
}

#[tokio::test(start_paused = true)]
async fn a_batch_for_a_client_that_reads_one_form_only_comes_in_that_form() {
    let server = SessionServer::new();
    let client = server.client("2025-03-26").await;
    let batch = json!([tool(1, "count", json!({"to": 2})), tool(2, "now", json!({}))]);
    let answer = client.post_as(JSON, batch.clone()).await.json().await;
    assert_eq!(answer.as_array().unwrap().len(), 2);
    let mut messages = client.post_as(EVENTS, batch).await.messages().await;
    assert_eq!(messages.len(), 3);
    assert_eq!(messages.pop().unwrap().data.as_array().unwrap().len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_batch_of_which_every_call_is_cancelled_ends_without_a_reply() {
    let server = SessionServer::new();
    let client = server.client("2025-03-26").await;
    let batch = json!([tool(1, "gate", json!({})), tool(2, "gate", json!({}))]);
    let mut answer = client.post(batch).await;
    client.post(json!([cancelled(1), cancelled(2)])).await;
    assert_eq!(answer.next().await, None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_of_the_same_id_in_many_sessions_never_mix() {
    let server = SessionServer::new();
    let mut clients = tokio::task::JoinSet::new();
    for number in 0..64_u64 {
        let server = server.clone();
        clients.spawn(async move {
            let client = server.client(NEWEST).await;
            for id in 0..20 {
                let nonce = number * 1000 + id;
                let arguments = json!({"nonce": nonce, "wait": (nonce * 7919) % 4});
                let answer = client.post(tool(id, "nonce", arguments)).await.json().await;
                assert_eq!((&answer["id"], text(&answer)), (&json!(id), &*nonce.to_string()));
            }
        });
    }
    while let Some(ended) = clients.join_next().await {
        ended.unwrap();
    }
}
