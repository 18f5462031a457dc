//! Three complete servers that share stores behind a load balancer without session affinity.

use std::{sync::Arc, time::Duration};

use http::Request;
use http_body_util::BodyExt;
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};
use tower_service::Service as _;
use wharf_model::{Deadlines, Implementation, LogLevel, Timer};
use wharf_server::{Ctx, Registry, Resource, Router, Tool};
use wharf_testbed::cluster_stores::ClusterStores;
use wharf_transport::{
    ServerContext, Shutdown, TokioTimer,
    server::http::{Http, HttpBody, HttpService},
};
use wharf_wire::ServerProtocol;

const REVISION: &str = "2025-11-25";

struct Cluster {
    ports: ClusterStores,
    nodes: Vec<(HttpService, Registry)>,
}

/// A client of the cluster.
struct Client {
    session: String,
}

impl Cluster {
    fn new() -> Self {
        let ports = ClusterStores::new();
        let node = |_| {
            let router = Router::builder()
                .add(Resource::new("x:a", async || "a"))
                .add(Resource::new("x:b", async || "b"))
                .add(Tool::new("log", async |ctx: Ctx| {
                    ctx.log(LogLevel::Info, "info").await;
                    ctx.log(LogLevel::Error, "error").await;
                    "logged"
                }))
                .build()
                .unwrap();
            let timer: Arc<dyn Timer> = Arc::new(TokioTimer);
            router.join_cluster(ports.stores().bus, &timer);
            let host = ServerContext::new(
                Arc::new(ServerProtocol::new(Implementation::new("cluster", "1"))),
                router.clone(),
            )
            .deadlines(Deadlines::NONE);
            let http = Http::new().stores(ports.stores());
            (HttpService::new(Arc::new(host), http, Shutdown::new()), router.registry())
        };
        let nodes = (0..3).map(node).collect();
        Cluster { ports, nodes }
    }

    fn registry(&self, node: usize) -> &Registry {
        &self.nodes[node].1
    }

    async fn client(&self, node: usize) -> Client {
        let params = json!({
            "protocolVersion": REVISION,
            "capabilities": {},
            "clientInfo": {"name": "test", "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let reply = self.send(node, "POST", None, None, hello.to_string()).await;
        let session = reply.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let client = Client { session };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&client, (node + 1) % 3, ready).await.status(), 202);
        client
    }

    async fn post(&self, client: &Client, node: usize, message: Value) -> http::Response<HttpBody> {
        self.send(node, "POST", Some(client), None, message.to_string()).await
    }

    async fn call(&self, client: &Client, node: usize, method: &str, params: Value) {
        let message = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        assert_eq!(self.post(client, node, message).await.status(), 200);
    }

    async fn get(&self, client: &Client, node: usize, last: Option<&str>) -> Stream {
        let reply = self.send(node, "GET", Some(client), last, String::new()).await;
        assert_eq!(reply.status(), 200);
        Stream(reply.into_body())
    }

    async fn send(
        &self,
        node: usize,
        verb: &str,
        client: Option<&Client>,
        last: Option<&str>,
        body: String,
    ) -> http::Response<HttpBody> {
        let mut request = Request::builder()
            .method(verb)
            .uri("/mcp")
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(client) = client {
            request = request.header("mcp-session-id", &client.session);
        }
        if let Some(last) = last {
            request = request.header("last-event-id", last);
        }
        self.nodes[node].0.clone().call(request.body(body).unwrap()).await.unwrap()
    }
}

struct Stream(HttpBody);

impl Stream {
    /// Subjects of all messages that arrive until the stream is silent for a while.
    async fn next_subjects(&mut self) -> Vec<String> {
        let mut heard = Vec::new();
        while let Ok(Some(frame)) = timeout(Duration::from_secs(3), self.0.frame()).await {
            let text = frame.unwrap().into_data().unwrap();
            for line in std::str::from_utf8(&text).unwrap().lines() {
                let Some(data) = line.strip_prefix("data: ").filter(|it| !it.is_empty()) else {
                    continue;
                };
                let message: Value = serde_json::from_str(data).unwrap();
                let about = [&message["params"]["uri"], &message["params"]["data"]];
                let about = about.into_iter().find_map(Value::as_str);
                heard.push(about.or(message["method"].as_str()).unwrap_or("reply").to_owned());
            }
        }
        heard
    }
}

#[tokio::test(start_paused = true)]
async fn a_subscription_made_anywhere_counts_everywhere() {
    let cluster = Cluster::new();
    let (client, other) = (cluster.client(0).await, cluster.client(1).await);
    let (mut own, mut others) =
        (cluster.get(&client, 1, None).await, cluster.get(&other, 1, None).await);
    own.next_subjects().await;
    others.next_subjects().await;
    cluster.call(&client, 0, "resources/subscribe", json!({"uri": "x:a"})).await;
    cluster.call(&client, 2, "resources/subscribe", json!({"uri": "x:b"})).await;
    own.next_subjects().await;
    for node in 0..3 {
        cluster.registry(node).resource_updated("x:a");
        assert_eq!(own.next_subjects().await, ["x:a"], "{node}");
    }
    cluster.call(&client, 2, "resources/unsubscribe", json!({"uri": "x:a"})).await;
    own.next_subjects().await;
    cluster.registry(0).resource_updated("x:a");
    cluster.registry(0).resource_updated("x:b");
    assert_eq!(own.next_subjects().await, ["x:b"]);
    cluster.registry(0).tools_changed();
    assert_eq!(own.next_subjects().await, ["notifications/tools/list_changed"]);
    assert_eq!(others.next_subjects().await, ["notifications/tools/list_changed"]);
}

#[tokio::test(start_paused = true)]
async fn a_subscription_applies_on_nodes_without_the_session() {
    let cluster = Cluster::new();
    let client = cluster.client(0).await;
    cluster.ports.deaf(true);
    cluster.call(&client, 1, "resources/subscribe", json!({"uri": "x:a"})).await;
    // The node with the stream loads the subscriptions.
    let mut own = cluster.get(&client, 0, None).await;
    own.next_subjects().await;
    cluster.registry(0).resource_updated("x:a");
    assert_eq!(own.next_subjects().await, ["x:a"]);
    // The node with the stream sends changes that preceded its update of the subscriptions.
    cluster.call(&client, 1, "resources/subscribe", json!({"uri": "x:b"})).await;
    cluster.registry(0).resource_updated("x:b");
    assert!(own.next_subjects().await.is_empty());
    cluster.ports.deaf(false);
    cluster.call(&client, 1, "logging/setLevel", json!({"level": "error"})).await;
    assert!(own.next_subjects().await.contains(&"x:b".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn changes_without_subscribers_are_sent_to_the_next_subscriber() {
    let cluster = Cluster::new();
    let client = cluster.client(0).await;
    cluster.call(&client, 1, "resources/subscribe", json!({"uri": "x:a"})).await;
    cluster.registry(2).resource_updated("x:a");
    cluster.registry(2).tools_changed();
    sleep(Duration::from_millis(1)).await;
    let mut last = None;
    for node in [1, 0, 2, 2, 1] {
        let mut own = cluster.get(&client, node, last).await;
        let heard = own.next_subjects().await;
        assert!(heard.contains(&"x:a".to_owned()), "{heard:?}");
        assert!(heard.contains(&"notifications/tools/list_changed".to_owned()), "{heard:?}");
        drop(own);
        cluster.registry(node).resource_updated("x:a");
        cluster.registry(node).tools_changed();
        sleep(Duration::from_millis(1)).await;
        last = Some("0-1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_level_set_anywhere_counts_everywhere() {
    let cluster = Cluster::new();
    let client = cluster.client(0).await;
    cluster.call(&client, 1, "logging/setLevel", json!({"level": "error"})).await;
    sleep(Duration::from_millis(1)).await;
    for node in 0..3 {
        let call =
            json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "log"}});
        let reply = cluster.post(&client, node, call).await;
        assert_eq!(Stream(reply.into_body()).next_subjects().await, ["error", "reply"]);
    }
}

#[tokio::test(start_paused = true)]
async fn subscriptions_made_at_once_at_several_servers_are_all_kept() {
    let cluster = Cluster::new();
    let client = cluster.client(0).await;
    let uris: Vec<String> = (0..30).map(|number| format!("y:{number}")).collect();
    let subscribed = uris.iter().enumerate().map(|(number, uri)| {
        cluster.call(&client, number % 3, "resources/subscribe", json!({ "uri": uri }))
    });
    futures_util::future::join_all(subscribed).await;
    let mut own = cluster.get(&client, 2, None).await;
    own.next_subjects().await;
    for uri in &uris {
        cluster.registry(1).resource_updated(&**uri);
    }
    let mut heard = own.next_subjects().await;
    heard.sort_by_key(|uri| uri[2..].parse::<u32>().unwrap());
    assert_eq!(heard, uris);
}
