//! Client that writes raw JSON lines, in any revision.

use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines},
    time::timeout,
};

use crate::harness::{PATIENCE, Reader, Writer};

/// The modern revision; all others begin with a handshake.
pub const MODERN: &str = "2026-07-28";

/// Handler of server requests: maps the method and its parameters to the result.
pub type AnswerFn = fn(&str, &Value) -> Value;

pub struct Client {
    reader: Lines<BufReader<Reader>>,
    writer: Option<Writer>,
    pub revision: &'static str,
    pub capabilities: Value,
    pub log_level: Option<&'static str>,
    pub answer: AnswerFn,
    /// Received messages that are not replies, in order.
    pub notifications: Vec<Value>,
    next_id: u64,
}

impl Client {
    pub fn new(reader: Reader, writer: Writer, revision: &'static str) -> Client {
        let elicitation = match revision {
            "2025-11-25" | MODERN => json!({"form": {}, "url": {}}),
            _ => json!({}),
        };
        Client {
            reader: BufReader::new(reader).lines(),
            writer: Some(writer),
            revision,
            capabilities: json!({
                "roots": {"listChanged": true},
                "sampling": {},
                "elicitation": elicitation,
            }),
            log_level: None,
            answer: |method, params| panic!("asked {method} {params}"),
            notifications: Vec::new(),
            next_id: 0,
        }
    }

    pub async fn open(reader: Reader, writer: Writer, revision: &'static str) -> Client {
        let mut client = Client::new(reader, writer, revision);
        client.handshake().await;
        client
    }

    /// Performs the handshake of the revision.
    pub async fn handshake(&mut self) -> Value {
        if self.is_modern() {
            return Value::Null;
        }
        let params = json!({
            "protocolVersion": self.revision,
            "capabilities": self.capabilities,
            "clientInfo": {"name": "behaviour", "version": "1"},
        });
        let result = self.call("initialize", params).await;
        assert_eq!(result["protocolVersion"], self.revision);
        self.notify("notifications/initialized", json!({})).await;
        result
    }

    pub fn is_modern(&self) -> bool {
        self.revision == MODERN
    }

    /// Calls and expects a result.
    pub async fn call(&mut self, method: &str, params: Value) -> Value {
        self.try_call(method, params).await.unwrap_or_else(|e| panic!("{method} failed: {e}"))
    }

    /// Calls and expects an error.
    pub async fn fail(&mut self, method: &str, params: Value) -> Value {
        match self.try_call(method, params).await {
            Ok(result) => panic!("{method} gave {result}"),
            Err(error) => error,
        }
    }

    /// Calls, answers server requests, and returns the result or the error.
    pub async fn try_call(&mut self, method: &str, params: Value) -> Result<Value, Value> {
        let mut more = Map::new();
        loop {
            let mut params = params.clone();
            params.as_object_mut().expect("an object").append(&mut more);
            let id = self.start(method, params).await;
            let result = self.reply(&id).await?;
            if result["resultType"] != "input_required" {
                return Ok(result);
            }
            let asked = result["inputRequests"].as_object().expect("questions");
            let answers: Map<String, Value> = asked
                .iter()
                .map(|(key, ask)| {
                    let method = ask["method"].as_str().expect("a method");
                    (key.clone(), (self.answer)(method, &ask["params"]))
                })
                .collect();
            more.insert("inputResponses".into(), answers.into());
            more.insert("requestState".into(), result["requestState"].clone());
        }
    }

    /// Calls a tool.
    pub async fn tool(&mut self, name: &str, arguments: Value) -> Value {
        self.call("tools/call", json!({"name": name, "arguments": arguments})).await
    }

    /// Calls a tool and expects a single text.
    pub async fn text(&mut self, name: &str, arguments: Value) -> String {
        let result = self.tool(name, arguments).await;
        assert_ne!(result["isError"], true, "{result}");
        only_text(&result).to_owned()
    }

    /// Sends a request. [`Client::reply`] waits for its reply.
    pub async fn start(&mut self, method: &str, params: Value) -> Value {
        self.next_id += 1;
        let id = json!(self.next_id);
        let request = self.request(&id, method, params);
        self.send(&request).await;
        id
    }

    /// Request in the format of this client's revision.
    pub fn request(&self, id: &Value, method: &str, mut params: Value) -> Value {
        if self.is_modern() {
            let meta = &mut params["_meta"];
            meta["io.modelcontextprotocol/protocolVersion"] = MODERN.into();
            meta["io.modelcontextprotocol/clientCapabilities"] = self.capabilities.clone();
            meta["io.modelcontextprotocol/clientInfo"] =
                json!({"name": "behaviour", "version": "1"});
            if let Some(level) = self.log_level {
                meta["io.modelcontextprotocol/logLevel"] = level.into();
            }
        }
        json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params})
    }

    pub async fn notify(&mut self, method: &str, params: Value) {
        self.send(&json!({"jsonrpc": "2.0", "method": method, "params": params})).await;
    }

    pub async fn cancel(&mut self, id: &Value) {
        self.notify("notifications/cancelled", json!({"requestId": id})).await;
    }

    /// Waits for the reply to `id`. Answers server requests and records notifications that arrive before it.
    pub async fn reply(&mut self, id: &Value) -> Result<Value, Value> {
        loop {
            let message = self.receive().await.unwrap_or_else(|| panic!("no reply to {id}"));
            if message["method"].is_null() {
                assert_eq!(message["id"], *id, "a reply to something else: {message}");
                return match message.get("error") {
                    Some(error) => Err(error.clone()),
                    None => Ok(message["result"].clone()),
                };
            }
            self.handle_incoming(message).await;
        }
    }

    /// Next notification of `method`: a recorded one, or one that is yet to arrive.
    pub async fn notified(&mut self, method: &str) -> Value {
        loop {
            if let Some(at) = self.notifications.iter().position(|told| told["method"] == method) {
                return self.notifications.remove(at)["params"].take();
            }
            let message = self.receive().await.unwrap_or_else(|| panic!("no {method}"));
            assert!(!message["method"].is_null(), "a reply nobody waits for: {message}");
            self.handle_incoming(message).await;
        }
    }

    async fn handle_incoming(&mut self, message: Value) {
        match message.get("id") {
            None => self.notifications.push(message),
            Some(id) => {
                let method = message["method"].as_str().expect("a method");
                let result = (self.answer)(method, &message["params"]);
                self.send(&json!({"jsonrpc": "2.0", "id": id, "result": result})).await;
            }
        }
    }

    pub async fn send(&mut self, message: &Value) {
        self.send_text(&format!("{message}\n")).await;
    }

    pub async fn send_text(&mut self, text: &str) {
        self.send_bytes(text.as_bytes()).await;
    }

    pub async fn send_bytes(&mut self, bytes: &[u8]) {
        let writer = self.writer.as_mut().expect("still open");
        writer.write_all(bytes).await.expect("the server reads");
        writer.flush().await.expect("the server reads");
    }

    /// Next message of any kind; `None` at the end of the stream.
    pub async fn receive(&mut self) -> Option<Value> {
        let line = timeout(PATIENCE, self.reader.next_line()).await.expect("patience");
        let line = line.expect("a readable stream")?;
        Some(serde_json::from_str(&line).unwrap_or_else(|_| panic!("not a message: {line:?}")))
    }

    /// Sends a notification; ignores a closed connection.
    pub async fn notify_if_open(&mut self) {
        let nothing = json!({"jsonrpc": "2.0", "method": "notifications/whatever"});
        if let Some(writer) = &mut self.writer {
            let _ = writer.write_all(format!("{nothing}\n").as_bytes()).await;
            let _ = writer.flush().await;
        }
    }

    /// Returns true if no message arrives for a moment: for tests that something does not happen.
    pub async fn is_quiet(&mut self) -> bool {
        timeout(Duration::from_millis(50), self.reader.next_line()).await.is_err()
    }

    /// Closes the client's end. The server's end can still be read.
    pub async fn close(&mut self) {
        let mut writer = self.writer.take().expect("still open");
        let _ = writer.shutdown().await;
    }

    /// Reader and writer, for a case that reads and writes concurrently.
    pub fn into_parts(self) -> (Lines<BufReader<Reader>>, Writer) {
        (self.reader, self.writer.expect("still open"))
    }
}

/// Text of a result that contains nothing else.
pub fn only_text(result: &Value) -> &str {
    let contents = result["content"].as_array().unwrap_or_else(|| panic!("{result}"));
    assert_eq!(contents.len(), 1, "{result}");
    contents[0]["text"].as_str().unwrap_or_else(|| panic!("{result}"))
}
