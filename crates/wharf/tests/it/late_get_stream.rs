//! Legacy sessions that open their GET stream late: a session without a stream has no subscription, only
//! the change version from which it is notified.

use std::{
    cell::Cell,
    sync::{Arc, Mutex},
    thread::{self, JoinHandle},
    time::Duration,
};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use wharf::{
    Endpoint,
    http::HttpBody,
    middleware::{Middleware, Next, RateKey, RateLimit},
    model::{BoxFuture, Method, Outcome},
    prelude::*,
    server::{CallLimits, Limits, Rates},
    store::Rate,
};

const SESSION: &str = "mcp-session-id";

#[tool]
async fn quick() -> &'static str {
    "done"
}

#[resource("test://one")]
async fn one() -> &'static str {
    "one"
}

/// Elicits a sign-in by URL.
#[tool]
async fn sign_in(id: String, ctx: Ctx) -> Result<(), ToolError> {
    ctx.ask_url_as("key", &id, "Sign in.", "https://example.com").await?;
    Ok(())
}

fn server() -> Server {
    Server::new("test", "1").tool::<quick>().tool::<sign_in>().resource::<one>()
}

fn endpoint() -> Endpoint {
    server().build().unwrap()
}

/// Middleware that runs an action in another thread at the start of a subscription.
#[derive(Clone, Default)]
struct DuringSubscription(Arc<Mutex<Interference>>);

#[derive(Default)]
enum Interference {
    #[default]
    None,
    Due(Box<dyn FnOnce() + Send>),
    Begun(JoinHandle<()>),
}

impl Middleware for DuringSubscription {
    fn call(&self, request: wharf::model::Request, next: Next) -> BoxFuture<Outcome> {
        let mut deed = self.0.lock().unwrap();
        if request.method == Method::Listen
            && let Interference::Due(due) = std::mem::take(&mut *deed)
        {
            let begun = thread::spawn(due);
            // The action may have to wait for the subscription, so the loop is bounded.
            for _ in 0..100_000 {
                if begun.is_finished() {
                    break;
                }
                thread::yield_now();
            }
            *deed = Interference::Begun(begun);
        }
        next.run(request)
    }
}

/// Middleware that is slow, as if it looked something up on another server.
struct SlowLayer;

impl Middleware for SlowLayer {
    fn call(&self, request: wharf::model::Request, next: Next) -> BoxFuture<Outcome> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_millis(50)).await;
            next.run(request).await
        })
    }
}

/// Middleware that counts all calls as calls of one caller.
struct SameCallerLayer;

impl Middleware for SameCallerLayer {
    fn call(&self, mut request: wharf::model::Request, next: Next) -> BoxFuture<Outcome> {
        request.scope.insert(RateKey("everybody".into()));
        next.run(request)
    }
}

/// Client; all clients send the same identity.
struct Client {
    endpoint: Endpoint,
    session: Option<String>,
    requests: Cell<u64>,
}

impl Client {
    /// Opens a session and completes the handshake.
    async fn new(endpoint: &Endpoint) -> Client {
        let client = Client::unready(endpoint, "2025-11-25").await;
        client.ready().await;
        client
    }

    async fn unready(endpoint: &Endpoint, revision: &str) -> Client {
        let endpoint = endpoint.clone();
        let mut client = Client { endpoint, session: None, requests: Cell::new(0) };
        let params = json!({
            "protocolVersion": revision,
            "capabilities": {"elicitation": {"url": {}}},
            "clientInfo": {"name": "client", "version": "1"},
        });
        let opened = client.request("initialize", params).await;
        client.session = Some(opened.headers()[SESSION].to_str().unwrap().to_owned());
        client
    }

    async fn ready(&self) {
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(ready).await.status(), 202);
    }

    async fn request(&self, method: &str, params: Value) -> Response<HttpBody> {
        self.requests.update(|it| it + 1);
        let id = self.requests.get();
        let message = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let answer = self.post(message).await;
        assert_eq!(answer.status(), 200);
        answer
    }

    async fn post(&self, message: Value) -> Response<HttpBody> {
        let request = Request::post("/mcp").header("content-type", "application/json");
        self.send(request, message.to_string()).await
    }

    async fn send(&self, request: http::request::Builder, body: String) -> Response<HttpBody> {
        let request = request.header("host", "localhost");
        let mut request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request.header(SESSION, session);
        }
        let request = request.body(Full::<bytes::Bytes>::from(body)).unwrap();
        self.endpoint.http().oneshot(request).await.unwrap()
    }

    async fn stream(&self) -> HttpBody {
        let stream = self.send(Request::get("/mcp"), String::new()).await;
        assert_eq!(stream.status(), 200);
        stream.into_body()
    }
}

/// Methods of all notifications on a stream until it is silent, with their subjects.
async fn received_events(stream: &mut HttpBody) -> Vec<String> {
    let mut heard = Vec::new();
    let silence = Duration::from_secs(1);
    while let Ok(frame) = tokio::time::timeout(silence, stream.frame()).await {
        let data = frame.unwrap().unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&data).unwrap();
        for data in text.lines().filter_map(|line| line.strip_prefix("data: {")) {
            let message: Value = serde_json::from_str(&format!("{{{data}")).unwrap();
            let method = message["method"].as_str().unwrap();
            let method = method.strip_prefix("notifications/").unwrap();
            let about = &message["params"];
            let about = about["uri"].as_str().or(about["elicitationId"].as_str());
            heard.push(about.map_or(method.to_owned(), |about| format!("{method} {about}")));
        }
    }
    heard
}

#[tokio::test(start_paused = true)]
async fn changes_before_the_first_stream_are_sent_once() {
    let endpoint = endpoint();
    let registry = endpoint.registry();
    registry.resources_changed();
    let client = Client::new(&endpoint).await;
    registry.tools_changed();
    registry.tools_changed();
    let mut stream = client.stream().await;
    assert_eq!(received_events(&mut stream).await, ["tools/list_changed"]);
    registry.resources_changed();
    assert_eq!(received_events(&mut stream).await, ["resources/list_changed"]);
    // A change without a reader is delivered to the next reader of the stream.
    drop(stream);
    registry.tools_changed();
    assert_eq!(received_events(&mut client.stream().await).await, ["tools/list_changed"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_may_be_opened_before_the_client_is_ready() {
    let endpoint = endpoint();
    let client = Client::unready(&endpoint, "2025-06-18").await;
    let mut stream = client.stream().await;
    client.ready().await;
    endpoint.registry().tools_changed();
    assert_eq!(received_events(&mut stream).await, ["tools/list_changed"]);
}

#[tokio::test(start_paused = true)]
async fn only_declared_notifications_are_sent() {
    let endpoint = endpoint();
    let client = Client::new(&endpoint).await;
    endpoint.registry().add(Prompt::new("late", async || "late")).unwrap();
    let mut stream = client.stream().await;
    endpoint.registry().prompts_changed();
    assert!(received_events(&mut stream).await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn updates_are_sent_from_the_subscription_on() {
    let endpoint = endpoint();
    let registry = endpoint.registry();
    let client = Client::new(&endpoint).await;
    registry.tools_changed();
    let (followed, left) = ("test://one", "test://two");
    registry.resource_updated(left);
    for uri in [followed, left] {
        client.request("resources/subscribe", json!({"uri": uri})).await;
    }
    registry.resource_updated(followed);
    registry.resource_updated(followed);
    client.request("resources/unsubscribe", json!({"uri": left})).await;
    registry.resource_updated(left);
    let heard = received_events(&mut client.stream().await).await;
    assert_eq!(heard, ["tools/list_changed", "resources/updated test://one"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_in_a_batch_counts_too() {
    let endpoint = endpoint();
    let client = Client::unready(&endpoint, "2025-03-26").await;
    client.ready().await;
    let params = json!({"uri": "test://one"});
    let subscribe = "resources/subscribe";
    let subscribe = json!({"jsonrpc": "2.0", "id": 1, "method": subscribe, "params": params});
    assert_eq!(client.post(json!([subscribe])).await.status(), 200);
    endpoint.registry().resource_updated("test://one");
    assert_eq!(received_events(&mut client.stream().await).await, ["resources/updated test://one"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_after_a_subscription_during_the_stream_open_is_sent() {
    let meanwhile = DuringSubscription::default();
    let endpoint = server().layer(meanwhile.clone()).build().unwrap();
    let client = Client::new(&endpoint).await;
    let (session, requests) = (client.session.clone(), Cell::new(100));
    let subscriber = Client { endpoint: endpoint.clone(), session, requests };
    *meanwhile.0.lock().unwrap() = Interference::Due(Box::new(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let subscribed = subscriber.request("resources/subscribe", json!({"uri": "test://one"}));
        runtime.block_on(subscribed);
        subscriber.endpoint.registry().resource_updated("test://one");
    }));
    let mut stream = client.stream().await;
    let Interference::Begun(subscribed) = std::mem::take(&mut *meanwhile.0.lock().unwrap()) else {
        panic!("no listen began")
    };
    subscribed.join().unwrap();
    assert_eq!(received_events(&mut stream).await, ["resources/updated test://one"]);
}

#[tokio::test(start_paused = true)]
async fn emptied_lists_are_reported_on_the_first_stream() {
    let endpoint = endpoint();
    let registry = endpoint.registry();
    let client = Client::new(&endpoint).await;
    assert!(registry.remove_tool("quick") && registry.remove_tool("sign_in"));
    assert!(registry.remove_resource("test://one"));
    let mut stream = client.stream().await;
    assert_eq!(
        received_events(&mut stream).await,
        ["tools/list_changed", "resources/list_changed"]
    );
    registry.add(Tool::new("late", async || "late")).unwrap();
    assert_eq!(received_events(&mut stream).await, ["tools/list_changed"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_outlives_the_only_resource() {
    let endpoint = endpoint();
    let registry = endpoint.registry();
    let client = Client::new(&endpoint).await;
    assert!(registry.remove_resource("test://one"));
    client.request("resources/subscribe", json!({"uri": "test://one"})).await;
    registry.add(Resource::new("test://one", async || "new")).unwrap();
    registry.resource_updated("test://one");
    let heard = received_events(&mut client.stream().await).await;
    assert_eq!(heard, ["resources/list_changed", "resources/updated test://one"]);
}

#[tokio::test(start_paused = true)]
async fn an_update_after_a_subscription_is_sent_even_if_the_listen_starts_late() {
    let endpoint = server().layer(SlowLayer).build().unwrap();
    let subscribe = ("resources/subscribe", json!({"uri": "test://one"}));
    for has_reader in [false, true] {
        let client = Client::new(&endpoint).await;
        let stream = if has_reader { Some(client.stream().await) } else { None };
        client.request(subscribe.0, subscribe.1.clone()).await;
        endpoint.registry().resource_updated("test://one");
        let mut stream = if let Some(stream) = stream { stream } else { client.stream().await };
        assert_eq!(
            received_events(&mut stream).await,
            ["resources/updated test://one"],
            "{has_reader}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rate_limited_client_still_receives_changes() {
    let twice = Rate { per_second: 0.001, burst: 2.0 };
    let limit = RateLimit::new(Rates::default().calls(twice).tool_calls(twice));
    let endpoint = server().layer(SameCallerLayer).layer(limit).build().unwrap();
    let client = Client::new(&endpoint).await;
    client.request("tools/list", json!({})).await;
    let mut stream = client.stream().await;
    endpoint.registry().tools_changed();
    assert_eq!(received_events(&mut stream).await, ["tools/list_changed"]);
}

#[tokio::test(start_paused = true)]
async fn a_stream_without_subscriptions_is_rejected_and_may_be_opened_later() {
    let limits = Limits::default().calls(CallLimits::default().listens(1));
    let endpoint = server().limits(limits).build().unwrap();
    let (first, second) = (Client::new(&endpoint).await, Client::new(&endpoint).await);
    let stream = first.stream().await;
    endpoint.registry().tools_changed();
    let refused = second.send(Request::get("/mcp"), String::new()).await;
    assert_eq!(refused.status(), 503);
    assert_eq!(refused.headers()["retry-after"], "1");
    let params = json!({"uri": "test://one"});
    let subscribe = "resources/subscribe";
    let subscribe = json!({"jsonrpc": "2.0", "id": 9, "method": subscribe, "params": params});
    assert_eq!(second.post(subscribe).await.status(), 503);
    drop(stream);
    assert_eq!(first.send(Request::delete("/mcp"), String::new()).await.status(), 204);
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(received_events(&mut second.stream().await).await, ["tools/list_changed"]);
}

#[tokio::test(start_paused = true)]
async fn elicitation_completion_reaches_only_its_session() {
    let endpoint = endpoint();
    let (asked, other) = (Client::new(&endpoint).await, Client::new(&endpoint).await);
    for id in ["one", "two"] {
        let arguments = json!({"id": id});
        let call = json!({"name": "sign_in", "arguments": arguments});
        asked.request("tools/call", call).await;
        endpoint.registry().elicitation_complete(id);
        endpoint.registry().elicitation_complete(id);
    }
    assert!(received_events(&mut other.stream().await).await.is_empty());
    let mut stream = asked.stream().await;
    assert_eq!(
        received_events(&mut stream).await,
        ["elicitation/complete one", "elicitation/complete two"]
    );
}

#[tokio::test(start_paused = true)]
async fn elicitations_that_are_done_make_room_for_those_that_are_not() {
    let endpoint = endpoint();
    let (asked, unheard) = (Client::new(&endpoint).await, Client::new(&endpoint).await);
    let sign_in = |id| json!({"name": "sign_in", "arguments": {"id": id}});
    asked.request("tools/call", sign_in("slow".to_owned())).await;
    for number in 0..1100 {
        let id = number.to_string();
        unheard.request("tools/call", sign_in(id.clone())).await;
        endpoint.registry().elicitation_complete(&id);
        let cancelled = json!({"requestId": unheard.requests.get()});
        let method = "notifications/cancelled";
        unheard.post(json!({"jsonrpc": "2.0", "method": method, "params": cancelled})).await;
    }
    endpoint.registry().elicitation_complete("slow");
    assert_eq!(received_events(&mut asked.stream().await).await, ["elicitation/complete slow"]);
}
