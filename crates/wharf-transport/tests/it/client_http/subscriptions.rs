//! Subscriptions that outlive their connections.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use serde_json::{Value, json};
use wharf_model::{ErrorKind, Outcome, Reply};
use wharf_transport::client::connect_http;

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest, legacy, modern},
    support::{assert_error, connect, listen, options, soon},
};

fn notification(seen: &SeenRequest, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({"io.modelcontextprotocol/subscriptionId": seen.body["id"]});
    json!({"jsonrpc": "2.0", "method": format!("notifications/{method}"), "params": params})
}

async fn acknowledge(seen: &SeenRequest, wire: &mut ResponseWriter) {
    let agreed = seen.body["params"]["notifications"].clone();
    let message =
        notification(seen, "subscriptions/acknowledged", json!({"notifications": agreed}));
    wire.event(None, &message).await;
}

#[tokio::test(start_paused = true)]
async fn a_modern_subscription_survives_a_reconnect() {
    let times = Arc::new(AtomicUsize::new(0));
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let times = times.clone();
        async move {
            if modern(&seen, &mut wire).await {
                return;
            }
            assert_eq!(seen.head("mcp-method"), Some("subscriptions/listen"));
            match times.fetch_add(1, Ordering::SeqCst) {
                0 => {
                    wire.chunked().await;
                    let agreed = json!({"notifications": seen.body["params"]["notifications"]});
                    let message = notification(&seen, "subscriptions/acknowledged", agreed);
                    wire.chunk(&format!("data: {message}\n\n")).await;
                    let message = notification(&seen, "resources/updated", json!({"uri": "a:b"}));
                    wire.chunk(&format!("data: {message}\n\n: alive\n\ndata: {{")).await;
                }
                1 => drop(wire),
                2 => wire.status(502).await,
                3 => {
                    wire.stream().await;
                    acknowledge(&seen, &mut wire).await;
                    let message = notification(&seen, "tools/list_changed", json!({}));
                    wire.event(None, &message).await;
                    wire.event(None, &seen.reply(json!({"resultType": "complete"}))).await;
                }
                _ => panic!("it was over"),
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    let mut listening = listen(&link, &["a:b"]);
    let end = soon(listening.done()).await;
    assert!(matches!(end, Outcome::Complete(Reply::Listened)), "{end:?}");
    let received: Vec<_> = listening.received.iter().map(|it| format!("{it:?}")).collect();
    assert!(received[0].starts_with("Acknowledged"), "{received:?}");
    let updated = r#"ResourceUpdated { uri: "a:b" }"#;
    // Anything may have changed while the connection was down.
    assert_eq!(received[1..], [updated, "ToolsChanged", updated, "ToolsChanged"]);
    assert_eq!(scripted.count("subscriptions/listen"), 4);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_that_never_started_fails_at_once() {
    for status in [401, 500] {
        let scripted =
            ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| async move {
                if !modern(&seen, &mut wire).await {
                    wire.status(status).await;
                }
            })
            .await;
        let link = connect(&scripted.url()).await;
        let end = soon(listen(&link, &[]).done()).await;
        let Outcome::Failed(error) = end else { panic!("{end:?}") };
        let kind =
            if status == 401 { ErrorKind::Unauthenticated } else { ErrorKind::TransportError };
        assert_error(&error, kind, &[&status.to_string()]);
        assert_eq!(scripted.count("subscriptions/listen"), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_emulated_subscription_follows_its_session() {
    let session = Arc::new(AtomicUsize::new(1));
    let state = session.clone();
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let now = state.load(Ordering::SeqCst).to_string();
        async move {
            match seen.method() {
                "initialize" => wire.hello(&seen, "2025-11-25", Some(&now)).await,
                "server/discover" => wire.status(404).await,
                _ if seen.head("mcp-session-id") != Some(&now) => wire.status(404).await,
                "resources/subscribe" | "tools/call" => wire.json(200, &seen.text("x")).await,
                "GET" => {
                    wire.stream().await;
                    let updated = json!({"jsonrpc": "2.0", "method": "notifications/resources/updated",
                        "params": {"uri": "a:b"}});
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    wire.event(Some(&now), &updated).await;
                    if now == "2" {
                        wire.hold().await;
                    }
                }
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    let link = connect(&scripted.url()).await;
    let mut listening = listen(&link, &["a:b"]);
    soon(listening.receive(2)).await;
    // The server restarts while no call is in flight; the stream detects it.
    session.store(2, Ordering::SeqCst);
    soon(listening.receive(5)).await;
    assert_eq!(scripted.count("resources/subscribe"), 2);
    let received: Vec<_> = listening.received.iter().map(|it| format!("{it:?}")).collect();
    let updated = r#"ResourceUpdated { uri: "a:b" }"#;
    assert_eq!(received[1..5], [updated, "ToolsChanged", updated, updated]);
    link.close().await;
    let end = soon(listening.done()).await;
    assert!(matches!(end, Outcome::Complete(Reply::Listened)), "{end:?}");
}

#[tokio::test(start_paused = true)]
async fn an_emulated_subscription_survives_without_the_get_stream() {
    let streams = Arc::new(AtomicUsize::new(0));
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let streams = streams.clone();
        async move {
            match seen.method() {
                "initialize" => wire.hello(&seen, "2025-11-25", Some("s")).await,
                "server/discover" => wire.status(404).await,
                "resources/subscribe" => wire.json(200, &seen.text("x")).await,
                "GET" => {
                    wire.stream().await;
                    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
                    if streams.fetch_add(1, Ordering::SeqCst) == 0 {
                        wire.event(None, &json!("x".repeat(10_000))).await;
                    }
                    wire.hold().await;
                }
                _ => _ = legacy(&seen, &mut wire).await,
            }
        }
    })
    .await;
    let mut options = options();
    options.limits.message = 5_000;
    let link = connect_http(&scripted.url(), Vec::new(), options).await.unwrap();
    let mut listening = listen(&link, &["a:b"]);
    // Acknowledged once, then notified that anything may have changed.
    soon(listening.receive(2)).await;
    assert_eq!(scripted.count("resources/subscribe"), 2);
}
