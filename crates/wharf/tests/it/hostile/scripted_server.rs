//! Scripted servers over HTTP and over lines.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use wharf::{Client, client::ClientBuilder};

/// Timeout after which a test fails. No test measures a time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Received HTTP request.
#[derive(Clone, Debug, Default)]
pub struct ReceivedRequest {
    pub verb: String,
    pub path: String,
    pub head: String,
    pub message: Value,
}

impl ReceivedRequest {
    pub fn method(&self) -> &str {
        self.message["method"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| {
            let (field, value) = line.split_once(':')?;
            field.eq_ignore_ascii_case(name).then_some(value.trim())
        })
    }

    /// Reply to this request with `result`.
    pub fn reply(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.message["id"], "result": result})
    }

    /// Regular reply of a modern server with tools; `None` for an unknown method.
    pub fn default_reply(&self) -> Option<Value> {
        let kept = |mut result: Value| {
            result["resultType"] = "complete".into();
            (result["ttlMs"], result["cacheScope"]) = (0.into(), "public".into());
            self.reply(result)
        };
        match self.method() {
            "server/discover" => Some(kept(json!({
                "supportedVersions": ["2026-07-28"],
                "capabilities": {"tools": {"listChanged": true}, "resources": {}, "prompts": {}},
                "serverInfo": {"name": "played", "version": "1"},
            }))),
            "tools/list" => Some(kept(json!({"tools": [tool("t", json!({"type": "object"}))]}))),
            "tools/call" => Some(self.reply(json!({
                "resultType": "complete", "content": [{"type": "text", "text": "done"}],
            }))),
            _ => None,
        }
    }
}

pub fn tool(name: &str, schema: Value) -> Value {
    json!({"name": name, "inputSchema": schema})
}

/// HTTP response with a JSON body.
pub fn http_json(status: u16, body: &Value) -> Vec<u8> {
    let body = body.to_string();
    let head = format!(
        "HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    (head + &body).into_bytes()
}

/// Response of a scripted server to a request.
pub enum Action {
    Say(Vec<u8>),
    /// Sends the first, then the second repeatedly until the connection closes.
    Repeat(Vec<u8>, Vec<u8>),
    Nothing,
    Close,
}

/// Running scripted server, with the requests it received.
pub struct ScriptedServer {
    pub address: String,
    pub asked: Arc<Mutex<Vec<ReceivedRequest>>>,
}

impl ScriptedServer {
    /// Starts a scripted HTTP server.
    pub async fn http(
        play: impl Fn(&ReceivedRequest) -> Action + Send + Sync + 'static,
    ) -> ScriptedServer {
        ScriptedServer::start(Arc::new(play), |stream, play, asked| async move {
            let mut stream = BufReader::new(stream);
            while let Some(request) = read_http(&mut stream).await {
                asked.lock().unwrap().push(request.clone());
                if !act(stream.get_mut(), play(&request)).await {
                    return;
                }
            }
        })
        .await
    }

    /// Starts a scripted line server.
    pub async fn lines(
        play: impl Fn(&ReceivedRequest) -> Action + Send + Sync + 'static,
    ) -> ScriptedServer {
        ScriptedServer::start(Arc::new(play), |stream, play, asked| async move {
            let mut stream = BufReader::new(stream);
            let mut line = String::new();
            while stream.read_line(&mut line).await.is_ok_and(|size| size > 0) {
                let message = serde_json::from_str(&line).unwrap_or_default();
                let request = ReceivedRequest { message, ..ReceivedRequest::default() };
                asked.lock().unwrap().push(request.clone());
                if !act(stream.get_mut(), play(&request)).await {
                    return;
                }
                line.clear();
            }
        })
        .await
    }

    async fn start<P, F>(
        play: Arc<P>,
        serve: impl Fn(TcpStream, Arc<P>, Arc<Mutex<Vec<ReceivedRequest>>>) -> F + Send + 'static,
    ) -> ScriptedServer
    where
        P: Send + Sync + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, play.clone(), seen.clone()));
            }
        });
        ScriptedServer { address, asked }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub fn lines_url(&self) -> String {
        format!("tcp://{}", self.address)
    }

    /// Methods of the received requests, in order.
    pub fn methods(&self) -> Vec<String> {
        let asked = self.asked.lock().unwrap();
        asked.iter().map(|request| request.method().to_owned()).collect()
    }
}

async fn act(stream: &mut TcpStream, act: Action) -> bool {
    match act {
        Action::Say(bytes) => stream.write_all(&bytes).await.is_ok(),
        Action::Repeat(first, again) => {
            let mut said = stream.write_all(&first).await;
            while said.is_ok() {
                said = stream.write_all(&again).await;
            }
            false
        }
        Action::Nothing => true,
        Action::Close => false,
    }
}

async fn read_http(stream: &mut BufReader<TcpStream>) -> Option<ReceivedRequest> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if stream.read_line(&mut head).await.ok()? == 0 {
            return None;
        }
    }
    let mut request = ReceivedRequest { head, ..ReceivedRequest::default() };
    let length = request.header("content-length").and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    request.message = serde_json::from_slice(&body).unwrap_or_default();
    let mut words = request.head.split(' ').map(str::to_owned);
    let (verb, path) = (words.next()?, words.next()?);
    (request.verb, request.path) = (verb, path);
    Some(request)
}

/// Line with the regular reply; no line for an unknown method.
pub fn default_line_reply(asked: &ReceivedRequest) -> Action {
    match asked.default_reply() {
        Some(reply) => Action::Say(line(&reply)),
        None => Action::Nothing,
    }
}

/// Response with the regular reply; status 202 for an unknown method.
pub fn default_http_reply(asked: &ReceivedRequest) -> Action {
    match asked.default_reply() {
        Some(reply) => Action::Say(http_json(200, &reply)),
        None => Action::Say(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n".to_vec()),
    }
}

pub fn line(message: &Value) -> Vec<u8> {
    format!("{message}\n").into_bytes()
}

pub fn builder() -> ClientBuilder {
    Client::builder().handshake(Duration::from_secs(20)).timeout(Duration::from_secs(20))
}

/// Result of `future`; fails after a timeout.
pub async fn in_time<T>(future: impl IntoFuture<Output = T>) -> T {
    timeout(PATIENCE, future.into_future()).await.expect("no end in sight")
}
