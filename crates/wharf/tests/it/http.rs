//! Responses to single messages over HTTP, without a socket.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use wharf::{
    Endpoint,
    http::{Http, HttpBody, HttpLimits, Streaming},
    prelude::*,
    server::Limits,
};

/// Returns at once.
#[tool]
async fn quick() -> &'static str {
    "done"
}

/// Reports progress before it returns.
#[tool]
async fn chatty(ctx: Ctx) -> &'static str {
    ctx.progress(1.0).await;
    "done"
}

/// Returns after a minute, without progress.
#[tool]
async fn slow() -> &'static str {
    tokio::time::sleep(Duration::from_secs(60)).await;
    "done"
}

/// Fails with the given kind of error.
#[prompt]
async fn fail(kind: String) -> Result<String, Error> {
    let kind = ErrorKind::ALL.iter().find(|it| it.name() == kind).copied();
    Err(Error::new(kind.unwrap_or(ErrorKind::InternalError)))
}

/// Elicits the user's name.
#[tool]
async fn ask(ctx: Ctx) -> Result<String, ToolError> {
    #[derive(Deserialize, JsonSchema)]
    struct Name {
        name: String,
    }
    let answer: Name = ctx.ask("name", "Who are you?").await?;
    Ok(answer.name)
}

fn server(http: Http) -> Endpoint {
    let server = Server::new("test", "1").tool::<quick>().tool::<chatty>().tool::<slow>();
    server.tool::<ask>().prompt::<fail>().http(http).build().unwrap()
}

fn message(method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "progressToken": 7,
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

async fn post(server: &Endpoint, accept: &str, message: Value) -> Response<HttpBody> {
    let params = &message["params"];
    let name = params["name"].as_str().or(params["uri"].as_str());
    let request = Request::post("/mcp")
        .header("host", "localhost")
        .header("accept", accept)
        .header("content-type", "application/json")
        .header("mcp-protocol-version", "2026-07-28")
        .header("mcp-method", message["method"].as_str().unwrap())
        .header("mcp-name", name.unwrap_or("none"))
        .body(Full::<bytes::Bytes>::from(message.to_string()))
        .unwrap();
    server.http().oneshot(request).await.unwrap()
}

async fn send(server: &Endpoint, verb: &str, headers: &[(&str, &str)]) -> Response<HttpBody> {
    let mut request = Request::builder().method(verb).uri("/mcp").header("host", "localhost");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    server.http().oneshot(request.body(Full::<bytes::Bytes>::default()).unwrap()).await.unwrap()
}

fn header<'a>(reply: &'a Response<HttpBody>, name: &str) -> &'a str {
    reply.headers().get(name).map_or("", |value| value.to_str().unwrap())
}

/// Messages of a response, as JSON or as an event stream.
async fn messages(reply: Response<HttpBody>) -> Vec<Value> {
    let events = header(&reply, "content-type") == "text/event-stream";
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    match events {
        false => vec![serde_json::from_str(&text).unwrap()],
        true => {
            let data = text.lines().filter_map(|line| line.strip_prefix("data: "));
            data.map(|data| serde_json::from_str(data).unwrap()).collect()
        }
    }
}

const BOTH: &str = "application/json, text/event-stream";
const JSON: &str = "application/json";
const EVENTS: &str = "text/event-stream";

#[tokio::test]
async fn a_reply_has_the_form_that_the_call_and_the_client_need() {
    use Streaming::{ListenOnly, Never, Smart};
    for (streaming, accept, tool, form, count) in [
        (Smart, BOTH, "quick", JSON, 1),
        (Smart, "*/*", "quick", JSON, 1),
        (Smart, BOTH, "chatty", EVENTS, 2),
        (Smart, JSON, "chatty", JSON, 1),
        (Smart, EVENTS, "quick", EVENTS, 1),
        (Smart, EVENTS, "chatty", EVENTS, 2),
        (ListenOnly, BOTH, "chatty", JSON, 1),
        (ListenOnly, EVENTS, "chatty", EVENTS, 2),
        (Never, BOTH, "chatty", JSON, 1),
    ] {
        let server = server(Http::new().streaming(streaming));
        let reply = post(&server, accept, message("tools/call", json!({"name": tool}))).await;
        let case = format!("{streaming:?} {accept} {tool}");
        assert_eq!(reply.status(), 200, "{case}");
        assert_eq!(header(&reply, "content-type"), form, "{case}");
        if form == EVENTS {
            assert_eq!(header(&reply, "x-accel-buffering"), "no");
        }
        let messages = messages(reply).await;
        assert_eq!(messages.len(), count, "{case}");
        assert_eq!(messages[count - 1]["result"]["content"][0]["text"], "done", "{case}");
    }
    let server = server(Http::new().streaming(Never));
    let quick = message("tools/call", json!({"name": "quick"}));
    assert_eq!(post(&server, EVENTS, quick).await.status(), 406);
}

#[tokio::test(start_paused = true)]
async fn a_long_silence_turns_the_reply_into_a_stream_that_shows_life() {
    let server = server(Http::new());
    let slow = || message("tools/call", json!({"name": "slow"}));
    let reply = post(&server, BOTH, slow()).await;
    assert_eq!(header(&reply, "content-type"), EVENTS);
    let body = reply.into_body().collect().await.unwrap().to_bytes();
    let text = String::from_utf8(body.to_vec()).unwrap();
    let comments = text.lines().filter(|line| line.starts_with(':')).count();
    assert!((2..=4).contains(&comments), "{text}");
    assert!(text.contains(r#""text":"done""#), "{text}");
    // A client that does not accept streams waits for the reply.
    assert_eq!(messages(post(&server, JSON, slow()).await).await.len(), 1);
}

#[tokio::test]
async fn task_status_reaches_the_subscribers_of_the_task() {
    let server = server(Http::new());
    for (kind, status, name, value) in [
        ("rate_limited", 429, "retry-after", "1"),
        ("overloaded", 503, "retry-after", "1"),
        ("unauthenticated", 401, "www-authenticate", "Bearer"),
        ("forbidden", 403, "www-authenticate", "Bearer"),
        ("insufficient_scope", 403, "www-authenticate", r#"Bearer error="insufficient_scope""#),
        ("internal_error", 200, "retry-after", ""),
        ("session_not_found", 200, "retry-after", ""),
        ("request_cancelled", 200, "retry-after", ""),
    ] {
        for accept in [BOTH, JSON, EVENTS] {
            let params = json!({"name": "fail", "arguments": {"kind": kind}});
            let reply = post(&server, accept, message("prompts/get", params)).await;
            assert_eq!(reply.status(), status, "{kind} {accept}");
            assert_eq!(header(&reply, name), value, "{kind} {accept}");
            assert!(messages(reply).await[0]["error"]["code"].is_number(), "{kind} {accept}");
        }
    }
    for accept in [BOTH, JSON, EVENTS] {
        let reply = post(&server, accept, message("tools/call", json!({"name": "ask"}))).await;
        assert_eq!(reply.status(), 400, "{accept}");
        assert_eq!(messages(reply).await[0]["error"]["code"], -32021, "{accept}");
    }
}

#[tokio::test]
async fn a_host_that_cannot_stream_offers_nothing_that_needs_it() {
    let server = server(Http::new().streaming(Streaming::Never));
    let listen = message("subscriptions/listen", json!({"notifications": {}}));
    let reply = post(&server, BOTH, listen).await;
    assert_eq!(reply.status(), 404);
    assert_eq!(messages(reply).await[0]["error"]["code"], -32601);
    let found = messages(post(&server, BOTH, message("server/discover", json!({}))).await).await;
    let capabilities = &found[0]["result"]["capabilities"];
    assert!(capabilities["tools"].is_object() && capabilities["tools"]["listChanged"] != true);
}

#[tokio::test]
async fn help_lists_every_command() {
    let version = ("mcp-protocol-version", "2026-07-28");
    let session = ("mcp-session-id", "0123456789abcdef0123456789abcdef");
    let accept = ("accept", EVENTS);
    let with = server(Http::new());
    let without = server(Http::new().stateless());
    let modern = Server::new("test", "1").only(wharf::Era::Modern).build().unwrap();
    for (server, verb, headers, status, allow) in [
        (&with, "GET", &[accept, session][..], 404, ""),
        (&with, "GET", &[accept], 400, ""),
        (&with, "GET", &[("accept", JSON), session], 406, ""),
        (&with, "GET", &[accept, session, version], 405, "POST"),
        (&with, "DELETE", &[session], 404, ""),
        (&with, "DELETE", &[session, version], 405, "POST"),
        (&with, "PUT", &[], 405, "POST, GET, DELETE"),
        (&with, "OPTIONS", &[("access-control-request-method", "POST")], 405, "POST, GET, DELETE"),
        (&without, "GET", &[accept, session], 405, "POST"),
        (&without, "DELETE", &[session], 405, "POST"),
        (&modern, "GET", &[accept, session], 405, "POST"),
        (&modern, "DELETE", &[session], 405, "POST"),
    ] {
        let reply = send(server, verb, headers).await;
        assert_eq!(reply.status(), status, "{verb} {headers:?}");
        assert_eq!(header(&reply, "allow"), allow, "{verb} {headers:?}");
        assert!(header(&reply, "access-control-allow-origin").is_empty());
    }
}

#[tokio::test]
async fn bodies_that_take_too_much_together_are_refused() {
    let limits = Limits::default().http(HttpLimits::default().bodies(1000));
    let server = Server::new("test", "1").tool::<quick>().limits(limits).build().unwrap();
    let quick = || message("tools/call", json!({"name": "quick"}));
    assert_eq!(post(&server, BOTH, quick()).await.status(), 200);
    let mut long = quick();
    long["params"]["arguments"] = json!({"padding": "x".repeat(1000)});
    let reply = post(&server, BOTH, long).await;
    assert_eq!((reply.status().as_u16(), header(&reply, "retry-after")), (503, "1"));
    // The limit is released after the call.
    assert_eq!(post(&server, BOTH, quick()).await.status(), 200);
}

#[tokio::test]
async fn a_server_whose_store_is_gone_is_alive_and_not_ready() {
    #[derive(Debug)]
    struct Switch(AtomicBool);
    impl wharf::store::Health for Switch {
        fn is_ready(&self) -> bool {
            self.0.load(Ordering::Relaxed)
        }
    }
    let switch = Arc::new(Switch(AtomicBool::new(true)));
    let stores = wharf::store::memory_stores().health(switch.clone());
    let server = Server::new("test", "1").store(stores).http(Http::new().health());
    let server = server.build().unwrap();
    let status = async |path| {
        let request = Request::get(path).header("host", "10.0.0.1");
        let request = request.body(Full::<bytes::Bytes>::default()).unwrap();
        server.http().oneshot(request).await.unwrap().status().as_u16()
    };
    for (on, expected) in [(true, 200), (false, 503), (true, 200)] {
        switch.0.store(on, Ordering::Relaxed);
        assert_eq!((status("/live").await, status("/ready").await), (200, expected));
    }
}
