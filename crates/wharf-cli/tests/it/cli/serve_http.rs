//! HTTP routes of `wharf serve`.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpStream,
};

use serde_json::json;

use crate::cli::sandbox::{DemoServer, Sandbox};

/// Routes of the MCP Inspector's proxy, and of `wharf serve`.
const ROUTES: [&str; 9] =
    ["/mcp", "/", "/stdio", "/sse", "/message", "/config", "/proxy", "/api/stdio", "/mcp/stdio"];

/// Status of the response to a request with this target and body.
fn status(host: &str, verb: &str, target: &str, body: &str) -> u16 {
    let mut stream = TcpStream::connect(host).unwrap();
    let head = format!(
        "{verb} {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).unwrap();
    String::from_utf8_lossy(&answer[9..]).parse().unwrap()
}

/// Running child processes of a process.
fn children(pid: u32) -> String {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let of = |path| fs::read_to_string(path).unwrap_or_default();
    threads.map(|it| of(it.unwrap().path().join("children"))).collect()
}

/// CVE-2025-49596 (MCP Inspector): its proxy started any command that a request named, without authentication. No
/// request to `wharf serve` starts a process.
#[test]
fn no_route_starts_a_process() {
    let sandbox = Sandbox::new("routes");
    let served = DemoServer::http(&sandbox);
    let host = served.url.strip_prefix("http://").unwrap().strip_suffix("/mcp").unwrap().to_owned();
    let marker = sandbox.dir.join("started");
    let marker = marker.to_str().unwrap();
    let query = format!("transportType=stdio&command=touch&args={marker}&env={{}}");
    // The command would keep running if it were started.
    let waiting = "transportType=stdio&command=sleep&args=60";
    let words = json!({"transportType": "stdio", "command": "touch", "args": [marker]});
    let message = |method: &str| {
        let meta = json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": {},
        });
        let mut params = words.clone();
        (params["name"], params["arguments"]) = (json!("echo"), words.clone());
        params["_meta"] = meta;
        json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
    };
    let bodies = [words.to_string(), message("tools/call"), message("stdio/start")];
    for route in ROUTES {
        for verb in ["GET", "POST", "PUT", "DELETE"] {
            for (query, body) in [(&*query, &bodies[0]), (waiting, &bodies[1]), ("", &bodies[2])] {
                let target = format!("{route}?{query}");
                let status = status(&host, verb, &target, body);
                assert!((400..500).contains(&status), "{verb} {target}: {status}");
            }
        }
    }
    assert_eq!(children(served.pid()), "");
    assert!(!fs::exists(marker).unwrap());
}
