//! The HTTP statuses of the error registry, one row each.

use http::{Request, header};
use serde_json::{Value, json};
use wharf::{
    Era,
    http::{Http, Streaming},
    server::{CallLimits, Limits, Rates},
    store::Rate,
};

use crate::advisories::{
    harness::Harness,
    http_client::{self, HttpClient, LEGACY, MODERN, SESSION},
    web::{AnyBody, whole},
};

/// Name, request, expected status, and expected error code if there is one.
type Row = (&'static str, Request<AnyBody>, u16, Option<i64>);

async fn check(caller: &HttpClient, rows: Vec<Row>) {
    for (what, request, status, code) in rows {
        let response = caller.request(request).await;
        assert_eq!(response.status(), status, "{what}");
        if status == 405 {
            assert!(response.headers().contains_key(header::ALLOW), "{what}");
        }
        let reply = http_client::reply(response).await;
        assert_eq!(reply["error"]["code"].as_i64(), code, "{what}: {reply}");
        if matches!(status, 202 | 204) {
            assert_eq!(reply, Value::Null, "{what}");
        }
    }
}

fn with_body(caller: &HttpClient, message: &Value, body: &str) -> Request<AnyBody> {
    let mut request = caller.post(message);
    *request.body_mut() = whole(body.to_owned());
    request
}

fn with_header(
    mut request: Request<AnyBody>,
    name: &'static str,
    value: &'static str,
) -> Request<AnyBody> {
    request.headers_mut().insert(name, value.parse().unwrap());
    request
}

const REFUSED: Option<i64> = Some(-32600);

#[tokio::test]
async fn no_status_of_the_modern_era_is_wrong() {
    let harness = Harness::start().await;
    let caller = HttpClient::modern(&harness);
    let it = &caller;
    let echo = it.tool("echo", json!({"text": "x"}));
    let message = |method: &str, params: Value| it.post(&it.message(method, params));
    let without = |key: &str| {
        let mut message = echo.clone();
        message["params"]["_meta"].as_object_mut().unwrap().remove(key);
        with_header(it.post(&message), "mcp-protocol-version", MODERN)
    };
    let mut unknown = echo.clone();
    unknown["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2999-01-01".into();
    let notification =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}});
    let answer = json!({"jsonrpc": "2.0", "id": 1, "result": {}});
    let listen = it.message("subscriptions/listen", json!({"notifications": {}}));
    check(
        it,
        vec![
            ("a call", it.post(&echo), 200, None),
            ("a parse error", with_body(it, &echo, "{"), 400, Some(-32700)),
            ("no message", with_body(it, &echo, "5"), 400, REFUSED),
            ("nothing", with_body(it, &echo, ""), 400, Some(-32700)),
            ("a batch", with_body(it, &echo, &format!("[{echo}]")), 400, REFUSED),
            ("an unknown method", message("tools/guess", json!({})), 404, Some(-32601)),
            ("a legacy method", message("ping", json!({})), 404, Some(-32601)),
            ("initialize", message("initialize", json!({})), 404, Some(-32601)),
            ("an unknown tool", it.post(&it.tool("none", json!({}))), 200, Some(-32602)),
            (
                "an unknown prompt",
                message("prompts/get", json!({"name": "none"})),
                200,
                Some(-32602),
            ),
            (
                "an unknown resource",
                message("resources/read", json!({"uri": "test://none"})),
                200,
                Some(-32602),
            ),
            ("a bad cursor", message("tools/list", json!({"cursor": "none"})), 200, Some(-32602)),
            ("a panic", message("prompts/get", json!({"name": "confused"})), 200, Some(-32603)),
            (
                "no version in _meta",
                without("io.modelcontextprotocol/protocolVersion"),
                400,
                Some(-32602),
            ),
            (
                "no capabilities in _meta",
                without("io.modelcontextprotocol/clientCapabilities"),
                400,
                Some(-32602),
            ),
            (
                "another version in the header",
                with_header(it.post(&echo), "mcp-protocol-version", "2999-01-01"),
                400,
                Some(-32020),
            ),
            (
                "another method in the header",
                with_header(it.post(&echo), "mcp-method", "ping"),
                400,
                Some(-32020),
            ),
            (
                "another name in the header",
                with_header(it.post(&echo), "mcp-name", "none"),
                400,
                Some(-32020),
            ),
            (
                "a name that is not Base64",
                with_header(it.post(&echo), "mcp-name", "=?base64?ZWNo?="),
                400,
                Some(-32020),
            ),
            (
                "a name in Base64",
                with_header(it.post(&echo), "mcp-name", "=?base64?ZWNobw==?="),
                200,
                None,
            ),
            ("an unknown version", it.post(&unknown), 400, Some(-32022)),
            (
                "a capability nobody declared",
                it.post(&it.tool("confirm", json!({}))),
                400,
                Some(-32021),
            ),
            ("a notification", it.post(&notification), 202, None),
            ("an answer", it.post(&answer), 400, REFUSED),
            (
                "an Accept of neither",
                with_header(it.post(&echo), "accept", "text/html"),
                406,
                REFUSED,
            ),
            ("an Accept of anything", with_header(it.post(&echo), "accept", "*/*"), 200, None),
            (
                "a listen that cannot be read",
                with_header(it.post(&listen), "accept", "application/json"),
                406,
                REFUSED,
            ),
            (
                "a wrong type",
                with_header(it.post(&echo), "content-type", "text/plain"),
                415,
                REFUSED,
            ),
            ("a verb that is not offered", it.bare("PUT"), 405, REFUSED),
            ("a preflight nobody configured", it.bare("OPTIONS"), 405, REFUSED),
            (
                "a session that means nothing",
                with_header(it.post(&echo), "mcp-session-id", "none"),
                200,
                None,
            ),
            (
                "an event that means nothing",
                with_header(it.post(&echo), "last-event-id", "1-1"),
                200,
                None,
            ),
        ],
    )
    .await;
    let mut elsewhere = it.post(&echo);
    *elsewhere.uri_mut() = format!("http://{}/other", harness.address).parse().unwrap();
    check(it, vec![("another path", elsewhere, 404, REFUSED)]).await;
}

#[tokio::test]
async fn no_status_of_the_legacy_era_is_wrong() {
    let harness = Harness::start().await;
    let caller = HttpClient::legacy(&harness).await;
    let it = &caller;
    let fresh = &HttpClient { session: None, ..caller.clone() };
    let stranger = &HttpClient { session: Some("none".parse().unwrap()), ..caller.clone() };
    let echo = it.tool("echo", json!({"text": "x"}));
    let message = |method: &str, params: Value| it.post(&it.message(method, params));
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/whatever"});
    let answer = json!({"jsonrpc": "2.0", "id": 99, "result": {}});
    let mut silent = it.post(&echo);
    silent.headers_mut().remove("mcp-protocol-version");
    check(
        it,
        vec![
            ("a call", it.post(&echo), 200, None),
            ("a call that does not say its version", silent, 200, None),
            ("a parse error", with_body(it, &echo, "{"), 400, Some(-32700)),
            ("no message", with_body(it, &echo, "5"), 400, REFUSED),
            ("a batch", with_body(it, &echo, &format!("[{echo}]")), 400, REFUSED),
            ("an unknown method", message("tools/guess", json!({})), 200, Some(-32601)),
            ("an unknown tool", it.post(&it.tool("none", json!({}))), 200, Some(-32602)),
            (
                "an unknown resource",
                message("resources/read", json!({"uri": "test://none"})),
                200,
                Some(-32002),
            ),
            ("a panic", message("prompts/get", json!({"name": "confused"})), 200, Some(-32603)),
            ("a second opening", it.post(&it.initialize()), 400, REFUSED),
            ("a notification", it.post(&notification), 202, None),
            ("an answer to nothing", it.post(&answer), 202, None),
            (
                "an unknown version",
                with_header(it.post(&echo), "mcp-protocol-version", "2999-01-01"),
                400,
                Some(-32022),
            ),
            (
                "an Accept of neither",
                with_header(it.post(&echo), "accept", "text/html"),
                406,
                REFUSED,
            ),
            (
                "a stream that cannot be read",
                with_header(it.bare("GET"), "accept", "application/json"),
                406,
                REFUSED,
            ),
            (
                "a wrong type",
                with_header(it.post(&echo), "content-type", "text/plain"),
                415,
                REFUSED,
            ),
            ("a verb that is not offered", it.bare("PUT"), 405, REFUSED),
            ("no session", fresh.post(&echo), 400, REFUSED),
            ("no session for a notification", fresh.post(&notification), 400, REFUSED),
            ("no session for a stream", fresh.bare("GET"), 400, REFUSED),
            ("no session to delete", fresh.bare("DELETE"), 400, REFUSED),
            ("an unknown session", stranger.post(&echo), 404, REFUSED),
            ("an unknown session for a stream", stranger.bare("GET"), 404, REFUSED),
            ("an unknown session to delete", stranger.bare("DELETE"), 404, REFUSED),
            ("the end", it.bare("DELETE"), 204, None),
            ("an ended session", it.post(&echo), 404, REFUSED),
            ("an ended session for a stream", it.bare("GET"), 404, REFUSED),
            ("the end again", it.bare("DELETE"), 404, REFUSED),
        ],
    )
    .await;

    let old = HttpClient { revision: "2025-03-26", ..fresh.clone() }.opened().await;
    let opening = old.initialize().to_string();
    let both =
        format!("[{},{}]", json!({"jsonrpc": "2.0", "id": 2, "method": "ping"}), notification);
    check(
        &old,
        vec![
            ("a batch where there are some", with_body(&old, &echo, &both), 200, None),
            (
                "a batch of notifications",
                with_body(&old, &echo, &format!("[{notification}]")),
                202,
                None,
            ),
            ("an empty batch", with_body(&old, &echo, "[]"), 400, REFUSED),
        ],
    )
    .await;
    let fresh = HttpClient { session: None, ..old };
    let request = with_body(&fresh, &echo, &format!("[{opening}]"));
    check(&fresh, vec![("an opening in a batch", request, 400, REFUSED)]).await;
}

/// A server without sessions, for any reason, supports only POST.
#[tokio::test]
async fn no_stream_is_offered_where_there_is_none() {
    let modern_only = Harness::tuned(|server| server.only(Era::Modern)).await;
    let stateless = Harness::with(Http::new().stateless()).await;
    let plain = Harness::with(Http::new().streaming(Streaming::Never)).await;
    for harness in [&modern_only, &stateless, &plain] {
        let caller = HttpClient::modern(harness);
        for verb in ["GET", "DELETE"] {
            let refused = caller.request(caller.bare(verb)).await;
            assert_eq!(
                (refused.status().as_u16(), &refused.headers()[header::ALLOW]),
                (405, &"POST".parse().unwrap())
            );
        }
        caller.works().await;
    }
    for harness in [&stateless, &plain] {
        let caller = HttpClient { revision: LEGACY, ..HttpClient::modern(harness) };
        let opened = caller.send(&caller.initialize()).await;
        assert_eq!(opened.status(), 200);
        assert!(opened.headers().get(SESSION).is_none());
        caller.works().await;
    }
    let caller = HttpClient::modern(&plain);
    let listen = caller
        .message("subscriptions/listen", json!({"notifications": {"toolsListChanged": true}}));
    check(&caller, vec![("a listen", caller.post(&listen), 404, Some(-32601))]).await;
    // Messages that a call sends before its end are discarded.
    let response = caller.send(&caller.tool("count", json!({"to": 3}))).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    let [reply] = &*http_client::messages(response).await else { panic!("one message") };
    assert_eq!(http_client::text(reply), "3");
    let discovery = caller.send(&caller.message("server/discover", json!({}))).await;
    let capabilities = http_client::reply(discovery).await["result"]["capabilities"].take();
    assert!(capabilities["tools"].is_object());
    assert_ne!(capabilities["tools"]["listChanged"], true, "{capabilities}");
    assert_ne!(capabilities["resources"]["subscribe"], true, "{capabilities}");
}

/// If only subscriptions are streams, every other response is one JSON object.
#[tokio::test]
async fn no_call_but_a_listen_is_a_stream_where_it_must_not_be() {
    let harness = Harness::with(Http::new().streaming(Streaming::ListenOnly)).await;
    let caller = HttpClient::modern(&harness);
    let response = caller.send(&caller.tool("count", json!({"to": 3}))).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "application/json");
    let [reply] = &*http_client::messages(response).await else { panic!("one message") };
    assert_eq!(http_client::text(reply), "3");
    let filter = json!({"notifications": {"toolsListChanged": true}});
    let response = caller.send(&caller.message("subscriptions/listen", filter)).await;
    assert_eq!(response.headers()[header::CONTENT_TYPE], "text/event-stream");
    assert_eq!(response.headers()["x-accel-buffering"], "no");
    harness.stop().await;
    let [_, result] = &*http_client::messages(response).await else { panic!("two messages") };
    assert_eq!(result["result"]["resultType"], "complete");
}

#[tokio::test]
async fn no_refusal_for_a_time_is_without_its_end() {
    let once = Rate { per_second: 0.001, burst: 1.0 };
    let rates = Rates::default().calls(once).tool_calls(once);
    let limits = |calls: CallLimits| Limits::default().calls(calls);
    let limited = limits(CallLimits::default().rates(rates));
    let limited = Harness::behind_bearer(|server| server.limits(limited)).await;
    let busy = limits(CallLimits::default().concurrent(1).queue(0));
    let busy = Harness::tuned(|server| server.limits(busy)).await;
    for (harness, status, code) in [(&limited, 429, 1003), (&busy, 503, 1008)] {
        let caller = HttpClient::modern(harness).with_bearer("alice");
        // Occupies the only available slot.
        let _first = caller.send(&caller.tool("wait", json!({}))).await;
        let refused = caller.send(&caller.tool("echo", json!({"text": "x"}))).await;
        assert_eq!(refused.status(), status);
        let after = refused.headers()[header::RETRY_AFTER].to_str().unwrap();
        assert!(after.parse::<u64>().unwrap() > 0);
        let reply = http_client::reply(refused).await;
        assert_eq!(reply["error"]["code"], code, "{reply}");
        assert!(reply["error"]["data"]["retryAfterMs"].as_u64().unwrap() > 0, "{reply}");
    }
}
