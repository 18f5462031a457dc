//! Server process, and a legacy client for it.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use serde_json::{Value, json};
use tower::ServiceExt;
use wharf::{Endpoint, Principal, http::HttpBody, prelude::*, store};

/// Logs a message and sends a client request.
#[tool]
async fn chat(text: String, ctx: Ctx) -> Result<String, ToolError> {
    #[derive(Deserialize, JsonSchema)]
    struct ClientHandler {
        text: String,
    }
    ctx.log(LogLevel::Error, format!("{text}: secret-progress")).await;
    let answer: ClientHandler = ctx.ask("it", "secret-question").await?;
    Ok(format!("secret-reply to {}", answer.text))
}

/// Works in steps.
#[tool(task)]
async fn works(ctx: Ctx) -> String {
    ctx.step("it", async { "secret-step".to_owned() }).await;
    "secret-result".to_owned()
}

pub struct Node(Endpoint);

/// Client with a session.
pub struct Client {
    session: String,
    /// Server processes that must outlive the client.
    nodes: Option<(Node, Node)>,
}

impl Client {
    pub fn keep(&mut self, nodes: (Node, Node)) {
        self.nodes = Some(nodes);
    }
}

/// Event stream of a response.
pub struct Stream {
    body: HttpBody,
    read: String,
}

impl Node {
    pub async fn on(url: &str, key: Option<&str>) -> Self {
        let stores = store::open(url).await.unwrap();
        let server = wharf::Server::new("test", "1").tool::<chat>().tool::<works>();
        let server = server.add(wharf::Resource::new("x:secret-uri", async || "nothing"));
        let server = server.state_cipher(crate::encrypted_store::keys("ff")).store(stores);
        let server = match key {
            Some(key) => server.store_key(crate::encrypted_store::keys(key)),
            None => server,
        };
        Node(server.build().unwrap())
    }

    pub fn registry(&self) -> wharf::server::Registry {
        self.0.registry()
    }

    pub async fn client(&self, name: &str) -> Client {
        let params = json!({
            "protocolVersion": "2025-11-25",
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": name, "version": "1"},
        });
        let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let hello = self.send("POST", None, Some(&hello)).await;
        let session = hello.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let client = Client { session, nodes: None };
        let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
        assert_eq!(self.post(&client, &ready).await.status(), 202);
        client
    }

    pub async fn post(&self, client: &Client, message: &Value) -> Response<HttpBody> {
        self.send("POST", Some(client), Some(message)).await
    }

    /// Calls and returns the complete reply.
    pub async fn call(&self, client: &Client, id: u64, method: &str, params: Value) -> Value {
        let mut stream = self.start(client, id, method, params).await;
        stream.until(&format!("\"id\":{id}")).await
    }

    pub async fn start(&self, client: &Client, id: u64, method: &str, params: Value) -> Stream {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        let reply = self.post(client, &call).await;
        assert_eq!(reply.status(), 200, "{method}");
        Stream { body: reply.into_body(), read: String::new() }
    }

    /// Opens the session's GET stream.
    pub async fn get(&self, client: &Client) -> Stream {
        let reply = self.send("GET", Some(client), None).await;
        assert_eq!(reply.status(), 200);
        Stream { body: reply.into_body(), read: String::new() }
    }

    async fn send(
        &self,
        verb: &str,
        client: Option<&Client>,
        message: Option<&Value>,
    ) -> Response<HttpBody> {
        let mut request = Request::builder()
            .method(verb)
            .uri("/mcp")
            .extension(Principal::new("alice"))
            .header("host", "localhost")
            .header("accept", "application/json, text/event-stream")
            .header("content-type", "application/json");
        if let Some(client) = client {
            request = request.header("mcp-session-id", &client.session);
        }
        let body = message.map(Value::to_string).unwrap_or_default();
        let request = request.body(Full::<Bytes>::from(body)).unwrap();
        self.0.http().oneshot(request).await.unwrap()
    }
}

impl Stream {
    /// Next message that contains `text`.
    pub async fn until(&mut self, text: &str) -> Value {
        let next = async {
            loop {
                while let Some(end) = self.read.find('\n') {
                    let line: String = self.read.drain(..=end).collect();
                    if let Some(message) = message(&line, text) {
                        return message;
                    }
                }
                match self.body.frame().await {
                    Some(frame) => {
                        let bytes = frame.unwrap().into_data().unwrap();
                        self.read.push_str(std::str::from_utf8(&bytes).unwrap());
                    }
                    // The reply is not a stream.
                    None => {
                        let last = std::mem::take(&mut self.read);
                        return message(&last, text).unwrap_or_else(|| panic!("no {text}: {last}"));
                    }
                }
            }
        };
        let patience = Duration::from_secs(60);
        tokio::time::timeout(patience, next).await.unwrap_or_else(|_| panic!("never: {text}"))
    }
}

fn message(line: &str, text: &str) -> Option<Value> {
    let json = line.strip_prefix("data: ").unwrap_or(line).trim_end();
    json.contains(text).then(|| serde_json::from_str(json).ok()).flatten()
}
