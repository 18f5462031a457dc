//! Replies and principals of one caller must not reach another.

use std::sync::Arc;

use futures_util::{SinkExt, StreamExt};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_tungstenite::{
    client_async,
    tungstenite::{Message, client::IntoClientRequest},
};

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient, LEGACY, text},
    web,
};

const CALLERS: u64 = 64;
const ROUNDS: u64 = 8;

/// Text that is unique to this caller and round, and a delay that is unique too.
fn nonce(caller: u64, round: u64) -> (String, Value) {
    let nonce = format!("caller {caller}, round {round}");
    let delay = (caller * 7919 + round * 104_729) % 13;
    (nonce.clone(), json!({"milliseconds": delay, "nonce": nonce}))
}

/// Asserts that all messages to a caller contain its own nonce.
fn is_own(messages: &[Value], nonce: &str) {
    let [told, reply] = messages else { panic!("{messages:?}") };
    assert_eq!(told["params"]["message"], nonce);
    assert_eq!(reply["id"], 1);
    assert_eq!(text(reply), nonce);
}

/// CVE-2026-25536 and CVE-2026-111770: responses were matched by id alone, and all clients use the same ids.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_does_not_reach_another_caller() {
    let harness = Arc::new(Harness::start().await);
    let modern = HttpClient::modern(&harness);
    let legacy = HttpClient { revision: LEGACY, ..modern.clone() };
    let mut callers = JoinSet::new();
    // With a connection for each client, and with one HTTP/2 connection for all.
    for caller in [modern, legacy] {
        for pool in [web::http1(), web::http2()] {
            for index in 0..CALLERS {
                let caller = HttpClient { pool: pool.clone(), ..caller.clone() };
                callers.spawn(async move {
                    let caller = caller.opened().await;
                    for round in 0..ROUNDS {
                        let (nonce, arguments) = nonce(index, round);
                        is_own(&caller.messages("nap", arguments).await, &nonce);
                    }
                });
            }
        }
    }
    assert_eq!(callers.join_all().await.len() as u64, 4 * CALLERS);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_does_not_reach_another_websocket() {
    let harness = Arc::new(Harness::start().await);
    let mut callers = JoinSet::new();
    for index in 0..CALLERS {
        let harness = harness.clone();
        callers.spawn(async move {
            let mut request =
                format!("ws://{}/mcp", harness.address).into_client_request().unwrap();
            request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
            let (mut socket, _) = client_async(request, harness.connect().await).await.unwrap();
            let caller = HttpClient::modern(&harness);
            for round in 0..ROUNDS {
                let (nonce, arguments) = nonce(index, round);
                let call = caller.tool("nap", arguments).to_string();
                socket.send(Message::text(call)).await.unwrap();
                let mut messages: Vec<Value> = Vec::new();
                while messages.last().is_none_or(|last| last["method"].is_string()) {
                    let frame = socket.next().await.unwrap().unwrap();
                    messages.push(serde_json::from_str(frame.to_text().unwrap()).unwrap());
                }
                is_own(&messages, &nonce);
            }
        });
    }
    assert_eq!(callers.join_all().await.len() as u64, CALLERS);
}

/// CVE-2026-16498 and CVE-2026-16326: a caller got the credentials of the previous one.
/// CVE-2026-45707: a caller without credentials got those of the process.
#[tokio::test]
async fn principals_do_not_leak_between_callers() {
    let harness = Harness::behind_bearer(|server| server).await;
    let caller = HttpClient::modern(&harness);
    let (mut line, connection) =
        http1::handshake(TokioIo::new(harness.connect().await)).await.unwrap();
    tokio::spawn(connection);
    // All requests on one persistent connection.
    for bearer in [Some("alice"), None, Some("bob"), Some("alice"), None, None, Some("bob")] {
        let caller = HttpClient { bearer, ..caller.clone() };
        line.ready().await.unwrap();
        let response = line.send_request(caller.post(&caller.tool("whoami", json!({})))).await;
        let reply = http_client::reply(response.unwrap()).await;
        assert_eq!(text(&reply), bearer.unwrap_or("nobody"));

        line.ready().await.unwrap();
        let response = line.send_request(caller.post(&caller.tool("own", json!({})))).await;
        let response = response.unwrap();
        match bearer {
            Some(name) => {
                let reply = http_client::reply(response).await;
                assert_eq!(text(&reply), format!("what belongs to {name}"));
            }
            None => {
                let reply = http_client::reply(response).await;
                assert!(reply["error"].is_object(), "{reply}");
            }
        }
    }
}

/// The same within legacy sessions: each call has the principal of its own request.
#[tokio::test]
async fn a_session_does_not_lend_its_principal() {
    let harness = Harness::behind_bearer(|server| server).await;
    let alice = HttpClient::modern(&harness).with_bearer("alice");
    let alice = HttpClient { revision: LEGACY, ..alice }.opened().await;
    assert_eq!(alice.text("whoami", json!({})).await, "alice");
    for bearer in [None, Some("bob")] {
        let thief = HttpClient { bearer, ..alice.clone() };
        let refused = thief.send(&thief.tool("whoami", json!({}))).await;
        assert_eq!(refused.status(), 404);
    }
    let nobody = HttpClient::legacy(&harness).await;
    assert_eq!(nobody.text("whoami", json!({})).await, "nobody");
    // A session that was created anonymously cannot be used with a principal.
    let somebody = nobody.clone().with_bearer("alice");
    assert_eq!(somebody.send(&somebody.tool("whoami", json!({}))).await.status(), 404);
    assert_eq!(alice.text("whoami", json!({})).await, "alice");
}
