//! Session creation, successful or not, must not leak sessions.

use std::time::Duration;

use http::{HeaderMap, Request, Response, header};
use serde_json::{Value, json};
use tokio::time::advance;
use tower_service::Service;
use wharf::{
    http::{HttpBody, HttpLimits, HttpService},
    server::Limits,
};

use crate::advisories::{
    attacked_server::{HandlerCounts, server},
    harness::Harness,
    http_client::{self, HttpClient, LEGACY, SESSION},
    raw_http, web,
};

/// Limit of sessions. If a failed `initialize` left a session behind, the limit would soon be reached.
const PLACES: usize = 10;

fn few_sessions() -> Limits {
    Limits::default().http(HttpLimits::default().sessions(PLACES))
}

/// CVE-2026-63128: the session was created before the `initialize` request was rejected.
#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_opening_takes_no_place() {
    const MANY: usize = 2_000;
    let harness = Harness::tuned(|server| server.limits(few_sessions())).await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let with = |change: fn(&mut Value)| {
        let mut message = fresh.initialize();
        change(&mut message);
        fresh.post(&message)
    };
    let headed = |name: &'static str, value: &'static str| {
        let mut request = fresh.post(&fresh.initialize());
        request.headers_mut().insert(name, value.parse().unwrap());
        request
    };
    for round in 0..MANY {
        let bad = match round % 9 {
            0 => with(|it| drop(it["params"].take())),
            1 => with(|it| it["params"]["protocolVersion"] = 5.into()),
            2 => with(|it| drop(it.as_object_mut().unwrap().remove("id"))),
            3 => with(|it| it["id"] = json!(1.5)),
            4 => with(|it| *it = json!([it.take()])),
            5 => headed("content-type", "text/plain"),
            6 => headed("accept", "text/html"),
            7 => headed("origin", "http://evil.example"),
            _ => headed("mcp-protocol-version", "1999-01-01"),
        };
        let response = fresh.request(bad).await;
        assert!(response.headers().get(SESSION).is_none(), "{round}: {response:?}");
        assert!(!response.status().is_server_error(), "{round}: {response:?}");
        http_client::body(response).await;
    }
    for _ in 0..PLACES {
        fresh.clone().opened().await.works().await;
    }
}

/// The client disconnects before it receives its session id.
#[tokio::test(flavor = "multi_thread")]
async fn an_abandoned_opening_takes_no_place_for_long() {
    let harness = Harness::tuned(|server| server.limits(few_sessions())).await;
    let caller = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let opening = raw_http::post(&harness, &[], &caller.initialize().to_string());
    // An incomplete `initialize` request creates no session.
    for end in (0..opening.len()).rev() {
        use tokio::io::AsyncWriteExt;
        let mut stream = harness.connect().await;
        stream.write_all(&opening.as_bytes()[..end]).await.unwrap();
    }
    for _ in 0..PLACES {
        caller.clone().opened().await.works().await;
    }
}

/// CVE-2026-59951: DELETE ended the session but did not free its slot.
#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_keeps_no_place() {
    let harness = Harness::tuned(|server| server.limits(few_sessions())).await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    for _ in 0..100 * PLACES {
        let caller = fresh.clone().opened().await;
        assert_eq!(caller.request(caller.bare("DELETE")).await.status(), 204);
        assert_eq!(caller.request(caller.bare("DELETE")).await.status(), 404);
    }
}

/// Goal 2 of the security notes: a flood of `initialize` requests is answered and harms no session in use, not even of
/// the same caller. Sessions in the handshake evict only each other.
#[tokio::test(flavor = "multi_thread")]
async fn a_flood_of_openings_does_not_touch_the_sessions_there_are() {
    let harness = Harness::behind_bearer(|server| server.limits(few_sessions())).await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let mut callers = Vec::new();
    for number in 0..PLACES {
        let name = if number < PLACES / 2 { "alice" } else { "mallory" };
        callers.push(fresh.clone().with_bearer(name).opened().await);
    }
    let mallory = fresh.clone().with_bearer("mallory");
    for _ in 0..100 {
        let opened = mallory.send(&mallory.initialize()).await;
        assert_eq!(opened.status(), 200);
        http_client::body(opened).await;
    }
    let mut lost = Vec::new();
    for (number, caller) in callers.iter().enumerate() {
        let echo = caller.tool("echo", json!({"text": "on"}));
        if caller.send(&echo).await.status() != 200 {
            lost.push(number);
        }
    }
    assert_eq!(lost, [0; 0]);
    fresh.with_bearer("bob").opened().await.works().await;
}

/// If all sessions are in use, a new one is rejected with a retry delay.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_session_is_rejected_when_all_sessions_are_in_use() {
    let harness = Harness::tuned(|server| server.limits(few_sessions())).await;
    let fresh = HttpClient { revision: LEGACY, ..HttpClient::modern(&harness) };
    let mut callers = Vec::new();
    for _ in 0..PLACES {
        let caller = fresh.clone().opened().await;
        let stream = caller.listen().await;
        callers.push((caller, stream));
    }
    for _ in 0..100 {
        let refused = fresh.send(&fresh.initialize()).await;
        assert_eq!(refused.status(), 503);
        assert!(refused.headers().get(SESSION).is_none());
        let after = refused.headers()[header::RETRY_AFTER].to_str().unwrap();
        assert!(after.parse::<u64>().unwrap() > 0);
        let refusal = http_client::reply(refused).await;
        assert_eq!(
            (refusal["id"].as_u64(), refusal["error"]["code"].as_i64()),
            (Some(1), Some(1008))
        );
        assert!(refusal["error"]["message"].as_str().unwrap().contains("full"), "{refusal}");
    }
    for (caller, _) in &callers {
        caller.works().await;
    }
    HttpClient::modern(&harness).works().await;
    let (left, _) = callers.pop().unwrap();
    assert_eq!(left.request(left.bare("DELETE")).await.status(), 204);
    fresh.opened().await.works().await;
}

/// Goal 1 of the security notes, at small scale: after the first round, no round takes more memory.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn ended_sessions_release_all_memory() {
    const MARGIN: usize = 4 << 20;
    let process = crate::advisories::server_process::ServerProcess::start().await;
    let mut peaks = Vec::new();
    let files = process.files();
    for _ in 0..3 {
        let fresh = process.caller(LEGACY);
        let mut callers = Vec::new();
        for _ in 0..200 {
            let caller = fresh.clone().opened().await;
            let stream = caller.listen().await;
            // A call leaves a stream that could be resumed.
            caller.messages("repeat", json!({"text": "x".repeat(4096)})).await;
            callers.push((caller, stream));
        }
        for (caller, mut stream) in callers {
            assert_eq!(caller.request(caller.bare("DELETE")).await.status(), 204);
            while stream.next().await.is_some() {}
        }
        peaks.push(process.peak());
    }
    assert!(peaks[2] <= peaks[0] + MARGIN, "{peaks:?}");
    // The connections are closed too, once the server has detected the disconnects.
    let gone = async {
        while process.files() > files {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(crate::advisories::harness::PATIENCE, gone).await.expect("patience");
}

/// HTTP endpoint without a socket, so that the clock can be paused.
struct InProcessServer(HttpService);

impl InProcessServer {
    fn new() -> InProcessServer {
        InProcessServer(
            server(&HandlerCounts::default()).limits(few_sessions()).build().unwrap().http(),
        )
    }

    async fn post(&mut self, session: Option<&str>, message: &Value) -> Response<HttpBody> {
        let mut request = web::post("http://localhost/mcp", LEGACY, message.to_string());
        request.headers_mut().extend(session.map(|it| (SESSION, it.parse().unwrap())));
        self.send(request).await
    }

    async fn send(&mut self, request: Request<web::AnyBody>) -> Response<HttpBody> {
        let Ok(response) = self.0.call(request).await;
        response
    }

    /// Creates a session; completes its handshake if `used`.
    async fn open(&mut self, used: bool) -> Option<String> {
        let opening = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}});
        let opening = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": opening});
        let response = self.post(None, &opening).await;
        let id = id_of(response.headers())?;
        if used {
            let initialized = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
            assert_eq!(self.post(Some(&id), &initialized).await.status(), 202);
        }
        Some(id)
    }

    async fn ping(&mut self, id: &str) -> u16 {
        let ping = json!({"jsonrpc": "2.0", "id": 1, "method": "ping"});
        self.post(Some(id), &ping).await.status().as_u16()
    }
}

fn id_of(headers: &HeaderMap) -> Option<String> {
    Some(headers.get(SESSION)?.to_str().unwrap().to_owned())
}

/// CVE-2026-67430: sessions never expired.
#[tokio::test(start_paused = true)]
async fn an_idle_session_keeps_no_place() {
    let mut still = InProcessServer::new();
    let mut ids = Vec::new();
    for _ in 0..PLACES {
        ids.push(still.open(true).await.unwrap());
    }
    // The default expiry is half an hour. The first session is in use.
    for _ in 0..4 {
        advance(Duration::from_secs(10 * 60)).await;
        assert_eq!(still.ping(&ids[0]).await, 200);
    }
    for id in &ids[1..] {
        assert_eq!(still.ping(id).await, 404);
    }
    for _ in 1..PLACES {
        assert!(still.open(true).await.is_some());
    }
    assert_eq!(still.ping(&ids[0]).await, 200);
}

/// Sessions of clients that never return are evicted for new ones; sessions in use are not.
#[tokio::test(start_paused = true)]
async fn an_unused_session_does_not_keep_others_out() {
    let mut still = InProcessServer::new();
    let used = still.open(true).await.unwrap();
    for _ in 0..3 * PLACES {
        still.open(false).await.unwrap();
    }
    for _ in 1..PLACES {
        advance(Duration::from_secs(1)).await;
        assert!(still.open(true).await.is_some());
    }
    assert_eq!(still.ping(&used).await, 200);
}
