//! Streams and connections end when their token expires.

use std::time::{Duration, Instant, SystemTime};

use futures_util::{SinkExt, StreamExt};
use serde_json::{Value, json};
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::{
    WebSocketStream,
    tungstenite::{Message, client::IntoClientRequest, protocol::frame::coding::CloseCode},
};
use wharf::{
    Principal,
    auth::{
        AuthRejection, AuthRequest, Authenticated,
        server::{FnAuthenticator, from_fn},
    },
    http::Http,
    server::{Limits, LineLimits},
};

use crate::advisories::{
    attacked_server::{EventCounter, gated},
    harness::{Harness, PATIENCE},
    http_client::{self, HttpClient, LEGACY},
    web::Events,
};

/// Lifetime of a token.
const LIFE: Duration = Duration::from_millis(1500);

/// Accepts every request with a short-lived token.
fn brief() -> FnAuthenticator {
    from_fn(|request: &AuthRequest<'_>| {
        let lasts = !request.headers.contains_key("x-forever");
        let pass = Authenticated::new(Principal::new("alice"));
        Ok::<Authenticated, AuthRejection>(if lasts {
            pass.until(SystemTime::now() + LIFE)
        } else {
            pass
        })
    })
}

async fn start_with_all_transports() -> Harness {
    Harness::tuned(|server| server.auth(brief()).http(Http::new().sse_2024())).await
}

async fn ends(mut events: Events, begun: Instant) -> Vec<Value> {
    let mut messages = Vec::new();
    while let Some(message) = timeout(PATIENCE, events.message()).await.expect("patience") {
        messages.push(message);
    }
    assert!(begun.elapsed() >= LIFE - Duration::from_millis(100), "{:?}", begun.elapsed());
    messages
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_end_with_their_token() {
    let harness = start_with_all_transports().await;
    let legacy = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) }.opened().await;
    let begun = Instant::now();
    let own = legacy.listen().await;
    assert_eq!(ends(own, begun).await, Vec::<Value>::new());
    // The session continues for requests with a valid token.
    legacy.works().await;
    // In the modern era the stream ends with a result.
    let modern = HttpClient::modern(&harness);
    let begun = Instant::now();
    let listen = json!({"notifications": {"toolsListChanged": true}});
    let listen = modern.send(&modern.message("subscriptions/listen", listen)).await;
    let messages = ends(Events::of(listen), begun).await;
    assert_eq!(messages.last().unwrap()["id"], 1, "{messages:?}");
    assert!(messages.last().unwrap()["result"].is_object(), "{messages:?}");
    // The same over HTTP+SSE of 2024-11-05.
    let mut open = modern.bare("GET");
    *open.uri_mut() = format!("http://{}/sse", harness.address).parse().unwrap();
    let begun = Instant::now();
    let mut stream = Events::of(modern.request(open).await);
    assert!(stream.next().await.is_some());
    ends(stream, begun).await;
}

/// A call in flight completes, because its token was valid at its start.
#[tokio::test(flavor = "multi_thread")]
async fn calls_do_not_end_with_their_token() {
    let harness = start_with_all_transports().await;
    for caller in HttpClient::both(&harness).await {
        let milliseconds = (LIFE + Duration::from_millis(500)).as_millis();
        let arguments = json!({"milliseconds": milliseconds as u64, "nonce": "still here"});
        assert_eq!(caller.text("nap", arguments).await, "still here");
    }
}

/// A call that waits for a task ends, because the task may take for ever. The task continues, and other requests can
/// poll it.
#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_task_ends_with_the_token() {
    let gate = EventCounter::default();
    let later = gated("later", &gate, "through");
    let harness = Harness::tuned(|server| server.add(later).auth(brief())).await;
    let caller = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) }.opened().await;
    let params = json!({"name": "later", "arguments": {}, "task": {"ttl": 60_000}});
    let made = http_client::reply(caller.send(&caller.message("tools/call", params)).await).await;
    let task = made["result"]["task"]["taskId"].clone();
    assert!(task.is_string(), "{made}");
    let ask = caller.message("tasks/result", json!({"taskId": task}));

    let mut plain = caller.post(&ask);
    plain.headers_mut().insert("accept", "application/json".parse().unwrap());
    let refused = caller.request(plain).await;
    assert_eq!(refused.status(), 401);
    assert!(refused.headers().contains_key("www-authenticate"));
    let mut streamed = caller.post(&ask);
    streamed.headers_mut().insert("accept", "text/event-stream".parse().unwrap());
    for refused in [
        http_client::reply(refused).await,
        http_client::reply(caller.request(streamed).await).await,
    ] {
        assert_eq!(refused["id"], 1, "{refused}");
        assert_eq!(refused["error"]["message"], "The credentials have expired", "{refused}");
    }

    gate.add();
    let result = http_client::reply(caller.send(&ask).await).await;
    assert_eq!(http_client::text(&result), "through");
}

type Socket = WebSocketStream<TcpStream>;

async fn socket(harness: &Harness, forever: bool) -> Socket {
    let mut request = format!("ws://{}/mcp", harness.address).into_client_request().unwrap();
    request.headers_mut().insert("sec-websocket-protocol", "mcp".parse().unwrap());
    if forever {
        request.headers_mut().insert("x-forever", "yes".parse().unwrap());
    }
    tokio_tungstenite::client_async(request, harness.connect().await).await.unwrap().0
}

#[tokio::test(flavor = "multi_thread")]
async fn a_websocket_ends_with_its_token() {
    let harness = start_with_all_transports().await;
    let (mut short, mut long) = (socket(&harness, false).await, socket(&harness, true).await);
    let begun = Instant::now();
    let echo = HttpClient::modern(&harness).tool("echo", json!({"text": "on"})).to_string();
    short.send(Message::text(&echo)).await.unwrap();
    let reply = short.next().await.unwrap().unwrap().into_text().unwrap();
    assert_eq!(http_client::text(&serde_json::from_str(&reply).unwrap()), "on");
    let end = loop {
        match timeout(PATIENCE, short.next()).await.expect("patience").unwrap().unwrap() {
            Message::Close(frame) => break frame,
            Message::Ping(_) => {}
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(end.map(|frame| frame.code), Some(CloseCode::from(3000)));
    assert!(begun.elapsed() >= LIFE - Duration::from_millis(100));
    // A connection whose token is still valid is served.
    long.send(Message::text(&echo)).await.unwrap();
    let reply = long.next().await.unwrap().unwrap().into_text().unwrap();
    assert_eq!(http_client::text(&serde_json::from_str(&reply).unwrap()), "on");
}

/// Messages sent after the end of the connection are not processed.
#[tokio::test(flavor = "multi_thread")]
async fn no_messages_are_handled_after_the_end() {
    let harness = start_with_all_transports().await;
    let mut socket = socket(&harness, false).await;
    tokio::time::sleep(LIFE + Duration::from_millis(300)).await;
    let count = HttpClient::modern(&harness).tool("count", json!({"to": 1})).to_string();
    for _ in 0..5 {
        let _ = socket.send(Message::text(&count)).await;
    }
    while let Some(Ok(_)) = timeout(PATIENCE, socket.next()).await.expect("patience") {}
    assert_eq!(harness.counts.begun.get(), 0);
}

/// The connection also ends at expiry if the client keeps it busy.
#[tokio::test(flavor = "multi_thread")]
async fn a_busy_websocket_ends_with_its_token() {
    let short = from_fn(|_: &AuthRequest<'_>| {
        Ok::<Authenticated, AuthRejection>(
            Authenticated::new(Principal::new("alice")).until(SystemTime::now() + LIFE),
        )
    });
    let limits = Limits::default().lines(LineLimits::default().calls(2));
    let harness = Harness::tuned(|server| server.auth(short).limits(limits)).await;
    let mut socket = socket(&harness, false).await;
    let begun = Instant::now();
    let mut nap =
        HttpClient::modern(&harness).tool("nap", json!({"milliseconds": 60_000, "nonce": "x"}));
    for id in 0..6 {
        nap["id"] = id.into();
        let _ = socket.send(Message::text(nap.to_string())).await;
    }
    let mut closed = None;
    while let Some(Ok(message)) = timeout(PATIENCE, socket.next()).await.expect("patience") {
        if let Message::Close(frame) = message {
            closed = frame;
        }
    }
    assert_eq!(closed.map(|frame| frame.code), Some(CloseCode::from(3000)));
    assert!(begun.elapsed() < LIFE + Duration::from_secs(10), "{:?}", begun.elapsed());
}
