//! A server that is scripted by the test, byte by byte.

use std::{
    future::Future,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

/// A received request.
#[derive(Clone, Debug)]
pub(crate) struct SeenRequest {
    pub(crate) verb: String,
    pub(crate) path: String,
    heads: Vec<(String, String)>,
    pub(crate) body: Value,
}

impl SeenRequest {
    pub(crate) fn head(&self, name: &str) -> Option<&str> {
        let found = self.heads.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
        found.map(|(_, value)| &**value)
    }

    /// JSON-RPC method of its message, or the HTTP method if it has none.
    pub(crate) fn method(&self) -> &str {
        self.body["method"].as_str().unwrap_or(if self.body.is_null() {
            &self.verb
        } else {
            "answer"
        })
    }

    /// A reply to its message.
    pub(crate) fn reply(&self, result: Value) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "result": result})
    }

    pub(crate) fn error(&self, code: i64, message: &str) -> Value {
        json!({"jsonrpc": "2.0", "id": self.body["id"], "error": {"code": code, "message": message}})
    }

    /// A tool result with `text`.
    pub(crate) fn text(&self, text: &str) -> Value {
        self.reply(json!({"content": [{"type": "text", "text": text}]}))
    }
}

/// A connection that waits for its response. It is closed on drop.
pub(crate) struct ResponseWriter(TcpStream);

impl ResponseWriter {
    pub(crate) async fn raw(&mut self, text: &str) {
        // The client may have disconnected.
        let _ = self.0.write_all(text.as_bytes()).await;
        let _ = self.0.flush().await;
    }

    pub(crate) async fn answer(&mut self, status: u16, heads: &str, body: &str) {
        let length = body.len();
        self.raw(&format!(
            "HTTP/1.1 {status} X\r\nconnection: close\r\ncontent-length: {length}\r\n{heads}\r\n{body}"
        ))
        .await;
    }

    pub(crate) async fn json(&mut self, status: u16, body: &Value) {
        self.answer(status, "content-type: application/json\r\n", &body.to_string()).await;
    }

    pub(crate) async fn status(&mut self, status: u16) {
        self.answer(status, "", "").await;
    }

    /// Starts an event stream that ends with the connection.
    pub(crate) async fn stream(&mut self) {
        self.raw("HTTP/1.1 200 X\r\nconnection: close\r\ncontent-type: text/event-stream\r\n\r\n")
            .await;
    }

    /// Starts an event stream with chunked encoding.
    pub(crate) async fn chunked(&mut self) {
        self.raw(
            "HTTP/1.1 200 X\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
        )
        .await;
    }

    pub(crate) async fn chunk(&mut self, text: &str) {
        self.raw(&format!("{:x}\r\n{text}\r\n", text.len())).await;
    }

    pub(crate) async fn event(&mut self, id: Option<&str>, message: &Value) {
        let id = id.map_or(String::new(), |id| format!("id: {id}\n"));
        self.raw(&format!("{id}data: {message}\n\n")).await;
    }

    /// Completes when the client has disconnected.
    pub(crate) async fn disconnected(&mut self) {
        let mut rest = [0; 1024];
        while self.0.read(&mut rest).await.is_ok_and(|size| size > 0) {}
    }

    /// Keeps the connection open until the client disconnects.
    pub(crate) async fn hold(mut self) {
        self.disconnected().await;
    }

    /// Sends `text` repeatedly until the client disconnects; returns the number of bytes.
    pub(crate) async fn flood(&mut self, text: &str, most: usize) -> usize {
        let mut sent = 0;
        while sent < most && self.0.write_all(text.as_bytes()).await.is_ok() {
            sent += text.len();
        }
        sent
    }
}

/// A running server.
#[derive(Clone)]
pub(crate) struct ScriptedServer {
    pub(crate) port: u16,
    log: Arc<Mutex<Vec<SeenRequest>>>,
}

impl ScriptedServer {
    /// Answers each request, on its own connection, with `script`.
    pub(crate) async fn new<F, R>(script: F) -> ScriptedServer
    where
        F: Fn(SeenRequest, ResponseWriter) -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send + 'static,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let log: Arc<Mutex<Vec<SeenRequest>>> = Arc::default();
        let scripted = ScriptedServer { port, log: log.clone() };
        let script = Arc::new(script);
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (script, log) = (script.clone(), log.clone());
                tokio::spawn(async move {
                    if let Some((seen, wire)) = read(stream).await {
                        log.lock().unwrap().push(seen.clone());
                        script(seen, wire).await;
                    }
                });
            }
        });
        scripted
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}/mcp", self.port)
    }

    pub(crate) fn log(&self) -> Vec<SeenRequest> {
        self.log.lock().unwrap().clone()
    }

    /// Methods of the received requests.
    pub(crate) fn methods(&self) -> Vec<String> {
        self.log().iter().map(|seen| seen.method().to_owned()).collect()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        self.log().iter().filter(|seen| seen.method() == method).count()
    }

    /// Waits until this many messages of `method` have arrived.
    pub(crate) async fn wait_for(&self, method: &str, count: usize) {
        for _ in 0..10_000 {
            if self.count(method) >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{method} did not come {count} times: {:?}", self.methods());
    }
}

async fn read(mut stream: TcpStream) -> Option<(SeenRequest, ResponseWriter)> {
    let mut bytes = Vec::new();
    let head = loop {
        if let Some(end) = bytes.windows(4).position(|it| it == b"\r\n\r\n") {
            break end;
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    };
    let text = String::from_utf8(bytes[..head].to_vec()).unwrap();
    let mut lines = text.split("\r\n");
    let mut first = lines.next().unwrap().split(' ');
    let (verb, path) = (first.next().unwrap().to_owned(), first.next().unwrap().to_owned());
    let heads: Vec<(String, String)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let mut seen = SeenRequest { verb, path, heads, body: Value::Null };
    let length: usize = seen.head("content-length").map_or(0, |it| it.parse().unwrap());
    while bytes.len() < head + 4 + length {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
    if length > 0 {
        seen.body = serde_json::from_slice(&bytes[head + 4..]).unwrap();
    }
    Some((seen, ResponseWriter(stream)))
}

pub(crate) const SESSION: &str = "a-session";

/// Legacy server's response to all messages but calls: true if it responded.
pub(crate) async fn legacy(seen: &SeenRequest, wire: &mut ResponseWriter) -> bool {
    match seen.method() {
        "server/discover" => wire.json(400, &seen.error(-32601, "Method not found")).await,
        "initialize" => wire.hello(seen, "2025-11-25", Some(SESSION)).await,
        "notifications/initialized" | "notifications/cancelled" | "answer" => {
            wire.status(202).await
        }
        "GET" => wire.status(405).await,
        "DELETE" => wire.status(200).await,
        _ => return false,
    }
    true
}

/// Modern server's response to all messages but calls: true if it responded.
pub(crate) async fn modern(seen: &SeenRequest, wire: &mut ResponseWriter) -> bool {
    if seen.method() != "server/discover" {
        return false;
    }
    let result = json!({
        "resultType": "complete",
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
        "serverInfo": {"name": "script", "version": "1"},
        "ttlMs": 0, "cacheScope": "private",
    });
    wire.json(200, &seen.reply(result)).await;
    true
}

impl ResponseWriter {
    /// Responds to `initialize`.
    pub(crate) async fn hello(
        &mut self,
        seen: &SeenRequest,
        revision: &str,
        session: Option<&str>,
    ) {
        let reply = seen.reply(json!({
            "protocolVersion": revision,
            "capabilities": {"tools": {"listChanged": true}, "resources": {"subscribe": true}},
            "serverInfo": {"name": "script", "version": "1"},
        }));
        let session = session.map_or(String::new(), |it| format!("Mcp-Session-Id: {it}\r\n"));
        let heads = format!("content-type: application/json\r\n{session}");
        self.answer(200, &heads, &reply.to_string()).await;
    }
}

pub(crate) fn progress(token: &Value, progress: u64) -> Value {
    let params = json!({"progressToken": token, "progress": progress});
    json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": params})
}
