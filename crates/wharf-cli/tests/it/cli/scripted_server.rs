//! Scripted HTTP servers.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use serde_json::Value;

/// Next request of a connection: its body, or `None` at the end of the connection.
pub(crate) fn request(from: &mut BufReader<TcpStream>) -> Option<Value> {
    let (mut length, mut line) = (0, String::new());
    loop {
        line.clear();
        if from.read_line(&mut line).ok()? == 0 {
            return None;
        }
        if line.trim().is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    from.read_exact(&mut body).ok()?;
    serde_json::from_slice(&body).ok()
}

/// Reply of a modern server with a tool that may be called repeatedly.
pub(crate) fn regular_reply(asked: &Value) -> Value {
    let info = serde_json::json!({"name": "fickle", "version": "1"});
    let mut result = match asked["method"].as_str().unwrap_or_default() {
        "server/discover" => serde_json::json!({"supportedVersions": ["2026-07-28"],
            "capabilities": {"tools": {}}, "ttlMs": 0, "cacheScope": "private"}),
        "tools/list" => serde_json::json!({"ttlMs": 0, "cacheScope": "private", "tools": [
            {"name": "look", "inputSchema": {"type": "object"},
             "annotations": {"readOnlyHint": true}}]}),
        _ => serde_json::json!({"content": []}),
    };
    result["resultType"] = "complete".into();
    result["_meta"] = serde_json::json!({"io.modelcontextprotocol/serverInfo": info});
    serde_json::json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})
}

/// Reply of a server to the request with this number; `None` for the regular reply.
pub(crate) type Script = Arc<dyn Fn(&Value, usize) -> Option<String> + Send + Sync>;

/// Position and duration of a server's pauses.
#[derive(Clone, Copy)]
pub(crate) enum Pauses {
    EachReply(Duration),
    EachByte(Duration),
}

pub(crate) fn http_reply(body: &Value) -> String {
    let body = body.to_string();
    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
    format!("{head}Content-Length: {}\r\n\r\n{body}", body.len())
}

/// Starts a server that pauses before its replies, or before each byte of their bodies. Returns its URL.
pub(crate) fn slow_server(script: Script, pauses: Pauses) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    thread::spawn(move || {
        for (connection, stream) in listener.incoming().enumerate() {
            let script = script.clone();
            thread::spawn(move || serve(stream.unwrap(), &script, pauses, connection * 1000));
        }
    });
    url
}

fn serve(stream: TcpStream, script: &Script, pauses: Pauses, mut number: usize) {
    let mut stream = BufReader::new(stream);
    while let Some(asked) = request(&mut stream) {
        number += 1;
        let reply = script(&asked, number).unwrap_or_else(|| http_reply(&regular_reply(&asked)));
        let (pause, at_once) = match pauses {
            Pauses::EachReply(pause) => (pause, 0),
            Pauses::EachByte(pause) => (pause, reply.find("\r\n\r\n").unwrap() + 4),
        };
        let (head, rest) = reply.as_bytes().split_at(at_once);
        let pieces = rest.chunks(if at_once == 0 { rest.len() } else { 1 });
        if stream.get_mut().write_all(head).is_err() {
            return;
        }
        for piece in pieces {
            thread::sleep(pause);
            if stream.get_mut().write_all(piece).is_err() {
                return;
            }
        }
    }
}
