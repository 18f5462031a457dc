//! Custom notifications that extensions declare, in both directions: in process, as bytes, over sockets, HTTP and
//! WebSocket, in each era, and through a proxy.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{net::TcpListener, sync::mpsc, time::timeout};
use wharf::{
    Client, Endpoint, Era, ErrorKind, args,
    client::{ClientBuilder, ClientExtension, ClientHandlerBuilder, Target, TraceEvent},
    http::HttpLimits,
    model::SubscriptionFilter,
    prelude::*,
    server::{Limits, LineLimits, ProtocolExtension},
};

const TIDES: &str = "com.example/tides";
/// Timeout after which a test fails. No test measures a time.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Deserialize, JsonSchema)]
struct Seen {
    by: String,
}

#[derive(Clone)]
struct Log(mpsc::UnboundedSender<String>);

async fn now(ctx: Ctx) -> Result<Json<Value>, wharf::Error> {
    ctx.notify("tides/measuring", json!({"buoy": 7, "_meta": {"own": 1}})).await?;
    Ok(Json(json!({"height": 3})))
}

async fn undeclared(ctx: Ctx) -> Result<(), wharf::Error> {
    ctx.notify("tides/undeclared", json!({})).await
}

async fn seen(Args(it): Args<Seen>, State(Log(log)): State<Log>, ctx: Ctx) {
    let unit = ctx.client().capabilities.extensions.get(TIDES).unwrap_or_default();
    log.send(format!("{} {}", it.by, unit["unit"].as_str().unwrap_or("none"))).unwrap();
}

async fn called(State(Log(log)): State<Log>) -> Json<Value> {
    log.send("called".to_owned()).unwrap();
    Json(json!({}))
}

fn tides() -> ProtocolExtension {
    ProtocolExtension::new(TIDES)
        .method("tides/now", now)
        .method("tides/wrong", undeclared)
        .notification("tides/measuring")
        .notification("tides/turned")
        .on_notification("tides/seen", seen)
}

fn server() -> (Endpoint, mpsc::UnboundedReceiver<String>) {
    let (log, heard) = mpsc::unbounded_channel();
    let server = Server::new("harbour", "1.0.0").state(Log(log)).extension(tides());
    (server.build().unwrap(), heard)
}

/// Client that declares the extension, and the notifications that it receives.
fn tidal() -> (ClientHandlerBuilder, mpsc::UnboundedReceiver<Value>) {
    let (log, heard) = mpsc::unbounded_channel();
    let turned = log.clone();
    let tides = ClientExtension::new(TIDES)
        .setting("unit", "foot")
        .on_notification("tides/measuring", move |it: Value| log.send(it).unwrap())
        .on_notification("tides/turned", move |it: Value| turned.send(it).unwrap())
        .method("tides/now")
        .notification("tides/seen")
        .notification("tides/unknown");
    (ClientHandlerBuilder::new().extension(tides), heard)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Route {
    /// In process, without bytes.
    Local,
    Memory(Era),
    Tcp(Era),
    Http(Era),
    WebSocket(Era),
}

const ROUTES: [Route; 9] = [
    Route::Local,
    Route::Memory(Era::Modern),
    Route::Memory(Era::Legacy),
    Route::Tcp(Era::Modern),
    Route::Tcp(Era::Legacy),
    Route::Http(Era::Modern),
    Route::Http(Era::Legacy),
    Route::WebSocket(Era::Modern),
    Route::WebSocket(Era::Legacy),
];

impl Route {
    async fn target(self, endpoint: &Endpoint) -> Target {
        let served = endpoint.clone();
        match self {
            Route::Local | Route::Memory(_) => endpoint.into(),
            Route::Tcp(_) => {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                tokio::spawn(async move { served.serve_listener(listener).await });
                format!("tcp://{address}").into()
            }
            Route::Http(_) | Route::WebSocket(_) => {
                let listener = Endpoint::listen_http("127.0.0.1:0").await.unwrap();
                let address = listener.local_addr().unwrap();
                tokio::spawn(async move { served.serve_http_on(listener).await });
                let scheme = if matches!(self, Route::Http(_)) { "http" } else { "ws" };
                format!("{scheme}://{address}/mcp").into()
            }
        }
    }

    fn builder(self) -> ClientBuilder {
        match self {
            Route::Local => Client::builder(),
            Route::Memory(era) | Route::Tcp(era) | Route::Http(era) | Route::WebSocket(era) => {
                Client::builder().era(era)
            }
        }
    }

    async fn connect(self, endpoint: &Endpoint, handler: ClientHandlerBuilder) -> Client {
        println!("{self:?}");
        let builder = self.builder().handler(handler);
        in_time(builder.connect(self.target(endpoint).await)).await.unwrap()
    }
}

async fn in_time<T>(future: impl IntoFuture<Output = T>) -> T {
    timeout(PATIENCE, future.into_future()).await.expect("patience")
}

#[tokio::test]
async fn a_handler_notifies_the_client_of_its_call() {
    for route in ROUTES {
        let (endpoint, _heard) = server();
        let (handler, mut received) = tidal();
        let client = route.connect(&endpoint, handler).await;
        assert!(client.capabilities().extensions.contains_key(TIDES));
        let tide: Value = in_time(client.request_as("tides/now", ())).await.unwrap();
        assert_eq!(tide["height"], 3);
        assert_eq!(in_time(received.recv()).await.unwrap(), json!({"buoy": 7}));
        let error = in_time(client.request_as::<Value>("tides/wrong", ())).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InternalError);
    }
}

#[tokio::test]
async fn an_extension_works_in_each_older_revision() {
    for (date, route) in ["2024-11-05", "2025-03-26", "2025-06-18"]
        .into_iter()
        .flat_map(|date| [Route::Memory, Route::Http].map(|route| (date, route(Era::Legacy))))
    {
        println!("{date} {route:?}");
        let (endpoint, mut heard) = server();
        let (handler, mut received) = tidal();
        let builder = Client::builder().protocol_version(date.parse().unwrap()).handler(handler);
        let client = in_time(builder.connect(route.target(&endpoint).await)).await.unwrap();
        assert_eq!(client.about().revision, date);
        assert!(client.capabilities().extensions.contains_key(TIDES));
        let tide: Value = in_time(client.request_as("tides/now", ())).await.unwrap();
        assert_eq!(tide["height"], 3);
        assert_eq!(in_time(received.recv()).await.unwrap(), json!({"buoy": 7}));
        in_time(client.notify("tides/seen", args! { by: "bob" })).await.unwrap();
        assert_eq!(in_time(heard.recv()).await.unwrap(), "bob foot");
    }
}

#[tokio::test]
async fn subscribers_are_notified_outside_of_calls() {
    for route in ROUTES {
        let (endpoint, _heard) = server();
        let (handler, mut received) = tidal();
        let client = route.connect(&endpoint, handler).await;
        let mut listen = in_time(client.listen(SubscriptionFilter::default())).await.unwrap();
        let listening = tokio::spawn(async move { while listen.next().await.is_some() {} });
        // A legacy session opens its stream in the background: only later notifications are certain to arrive.
        let first = json!({"height": 0});
        endpoint.registry().notify("tides/turned", &first).unwrap();
        while timeout(Duration::from_millis(50), received.recv()).await.is_err() {
            endpoint.registry().notify("tides/turned", &first).unwrap();
        }
        for height in 1..3 {
            let turned = json!({"height": height});
            endpoint.registry().notify("tides/turned", &turned).unwrap();
            let mut last = first.clone();
            while last == first {
                last = in_time(received.recv()).await.unwrap();
            }
            assert_eq!(last, turned);
        }
        let error = endpoint.registry().notify("tides/undeclared", ()).unwrap_err();
        assert!(error.message.contains("tides/undeclared"), "{error}");
        assert!(endpoint.registry().notify("tides/turned", [1]).is_err());
        listening.abort();
    }
}

#[tokio::test]
async fn a_client_without_the_extension_receives_nothing() {
    for route in ROUTES {
        let (endpoint, _heard) = server();
        let lines = Arc::new(Mutex::new(Vec::new()));
        let log = lines.clone();
        let mut builder = route.builder();
        if route != Route::Local {
            builder = builder.trace(move |event| {
                if let TraceEvent::Received(message) = event {
                    log.lock().unwrap().push(String::from_utf8_lossy(message).into_owned());
                }
            });
        }
        let other = ClientExtension::new("com.example/winds")
            .on_notification("tides/measuring", |_: Value| panic!("of another extension"));
        let builder = builder.handler(ClientHandlerBuilder::new().extension(other));
        let client = in_time(builder.connect(route.target(&endpoint).await)).await.unwrap();
        let listen = in_time(client.listen(SubscriptionFilter::default())).await.unwrap();
        endpoint.registry().notify("tides/turned", json!({"height": 1})).unwrap();
        for _ in 0..2 {
            let _: Value = in_time(client.request_as("tides/now", ())).await.unwrap();
        }
        drop(listen);
        let lines = lines.lock().unwrap();
        assert!(!lines.iter().any(|line| line.contains("tides/measuring")), "{lines:?}");
        assert!(!lines.iter().any(|line| line.contains("tides/turned")), "{lines:?}");
    }
}

#[tokio::test]
async fn a_client_notifies_the_server() {
    for route in ROUTES {
        let (endpoint, mut heard) = server();
        let (handler, _received) = tidal();
        let client = route.connect(&endpoint, handler).await;
        in_time(client.notify("tides/seen", args! { by: "bob" })).await.unwrap();
        // In process, a notification does not carry the identity of its client.
        let unit = if route == Route::Local { "none" } else { "foot" };
        assert_eq!(in_time(heard.recv()).await.unwrap(), format!("bob {unit}"));
        // A notification cannot be called as a method, nor a method sent as a notification.
        let error = in_time(client.request_as::<Value>("tides/seen", args! { by: "bob" })).await;
        assert_eq!(error.unwrap_err().kind(), ErrorKind::MethodNotFound);
        // A notification without a handler is ignored, without an error.
        in_time(client.notify("tides/unknown", args! {})).await.unwrap();
        let error = in_time(client.notify("tides/undeclared", args! {})).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CapabilityNotSupported);
    }
}

/// Reports that the handler that holds it was dropped.
struct Dropped(mpsc::UnboundedSender<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped".to_owned());
    }
}

async fn stuck(State(Log(log)): State<Log>) {
    let _dropped = Dropped(log.clone());
    log.send("started".to_owned()).unwrap();
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn a_handler_of_a_notification_ends_with_the_server() {
    for route in ROUTES.into_iter().filter(|route| *route != Route::Local) {
        let (log, mut heard) = mpsc::unbounded_channel();
        let tides = ProtocolExtension::new(TIDES).on_notification("tides/seen", stuck);
        let limits = Limits::default()
            .lines(LineLimits::default().grace(Duration::ZERO))
            .http(HttpLimits::default().grace(Duration::ZERO));
        let server = Server::new("harbour", "1.0.0").state(Log(log)).extension(tides);
        let endpoint = server.limits(limits).build().unwrap();
        let client = route.connect(&endpoint, tidal().0).await;
        in_time(client.notify("tides/seen", args! { by: "bob" })).await.unwrap();
        assert_eq!(in_time(heard.recv()).await.unwrap(), "started");
        endpoint.shutdown();
        assert_eq!(in_time(heard.recv()).await.unwrap(), "dropped");
    }
}

#[tokio::test]
async fn a_client_sends_nothing_to_a_server_without_the_extension() {
    for route in ROUTES {
        let (log, mut heard) = mpsc::unbounded_channel();
        let other = ProtocolExtension::new("com.example/winds")
            .method("tides/now", called)
            .on_notification("tides/seen", seen);
        let server = Server::new("desert", "1.0.0").state(Log(log)).extension(other);
        let endpoint = server.build().unwrap();
        let client = route.connect(&endpoint, tidal().0).await;
        let error = in_time(client.notify("tides/seen", args! { by: "bob" })).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::CapabilityNotSupported);
        assert!(error.message().contains(TIDES), "{error}");
        for raw in [true, false] {
            let error = match raw {
                true => in_time(client.request("tides/now", ())).await.map(drop).unwrap_err(),
                false => in_time(client.request_as::<Value>("tides/now", ())).await.unwrap_err(),
            };
            assert_eq!(error.kind(), ErrorKind::CapabilityNotSupported);
            assert!(error.message().contains(TIDES), "{error}");
        }
        drop((client, endpoint));
        let heard: Vec<_> = std::iter::from_fn(|| heard.try_recv().ok()).collect();
        assert!(heard.is_empty(), "{heard:?}");
    }
}

#[tokio::test]
async fn a_proxy_forwards_what_its_client_declares() {
    let eras = [Era::Modern, Era::Legacy];
    for (front, back) in eras.iter().flat_map(|front| eras.map(|back| (*front, back))) {
        println!("{front:?} {back:?}");
        let (endpoint, mut heard) = server();
        let upstream = Route::Tcp(back).connect(&endpoint, tidal().0).await;
        let proxy = Server::from(upstream).forward_custom_methods(true).build().unwrap();
        let (handler, mut received) = tidal();
        let client = Route::Http(front).connect(&proxy, handler).await;
        let _: Value = in_time(client.request_as("tides/now", ())).await.unwrap();
        assert_eq!(in_time(received.recv()).await.unwrap(), json!({"buoy": 7}));
        in_time(client.notify("tides/seen", args! { by: "eve" })).await.unwrap();
        assert_eq!(in_time(heard.recv()).await.unwrap(), "eve foot");
        let mut listen = in_time(client.listen(SubscriptionFilter::default())).await.unwrap();
        let listening = tokio::spawn(async move { while listen.next().await.is_some() {} });
        while timeout(Duration::from_millis(50), received.recv()).await.is_err() {
            endpoint.registry().notify("tides/turned", json!({"height": 1})).unwrap();
        }
        listening.abort();
        let without = Route::Http(front).connect(&proxy, ClientHandlerBuilder::new()).await;
        let _: Value = in_time(without.request_as("tides/now", ())).await.unwrap();
    }
}

#[test]
fn names_are_checked_when_the_server_is_built() {
    for (name, problem) in [
        ("notifications/progress", "not one of the protocol"),
        ("tools/call", "not one of the protocol"),
        ("turned", "a namespace"),
        ("tides/ turned", "a namespace"),
        ("tides/turned", "declared twice"),
    ] {
        let tides = tides().notification(name);
        let error = Server::new("harbour", "1").extension(tides).build().unwrap_err().to_string();
        assert!(error.contains(problem) && error.contains(name), "{error}");
    }
    for name in ["notifications/progress", "seen", "tides/now"] {
        let tides = tides().on_notification(name, async || ());
        let error = Server::new("harbour", "1").extension(tides).build().unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
}
