//! OTLP export of a running server.

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, Sender, channel},
    thread,
};

use serde_json::Value;

use super::sandbox::{CommandOutput, PATIENCE, Sandbox, finished};

const CALLS: &str = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":1,"method":"tools/list"}
"#;

fn serve(sandbox: &Sandbox, endpoint: &str, protocol: &str) -> CommandOutput {
    let mut command = sandbox.command(&["serve"]);
    command.env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint);
    command.env("OTEL_EXPORTER_OTLP_PROTOCOL", protocol);
    let output = finished(command, CALLS);
    assert_eq!((output.code, output.out.lines().count()), (0, 2), "{output:?}");
    output
}

/// Starts a receiver; returns its URL, and the path and body of each request.
fn receiver() -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let endpoint = format!("http://{}", listener.local_addr().expect("an address"));
    let (requests, received) = channel();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let requests = requests.clone();
            thread::spawn(move || answer(stream.expect("a connection"), &requests));
        }
    });
    (endpoint, received)
}

fn answer(stream: TcpStream, requests: &Sender<(String, Value)>) {
    let mut lines = BufReader::new(stream);
    loop {
        let (mut path, mut length) = (String::new(), 0);
        loop {
            let mut line = String::new();
            match lines.read_line(&mut line) {
                Ok(1..) => {}
                _ => return,
            }
            let line = line.trim_end().to_lowercase();
            match line.split_once(' ') {
                Some(("post", rest)) => path = rest.split(' ').next().unwrap_or_default().into(),
                Some(("content-length:", value)) => length = value.parse().expect("a number"),
                None if line.is_empty() => break,
                _ => {}
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).expect("the body");
        let _ = requests.send((path, serde_json::from_slice(&body).expect("JSON")));
        lines.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").expect("open");
    }
}

#[test]
fn a_server_exports_what_it_has_before_it_ends() {
    let sandbox = Sandbox::new("otlp");
    let (endpoint, received) = receiver();
    serve(&sandbox, &endpoint, "http/json");
    let mut exported = [0; 2].map(|_| received.recv_timeout(PATIENCE).expect("an export"));
    exported.sort_by(|one, other| one.0.cmp(&other.0));
    let [(metrics_path, metrics), (traces_path, traces)] = exported;
    assert_eq!((&*metrics_path, &*traces_path), ("/v1/metrics", "/v1/traces"));
    let spans = traces["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans");
    let names: Vec<_> = spans.iter().map(|it| it["name"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["initialize", "tools/list"]);
    assert!(metrics.to_string().contains("mcp.server.operation.duration"), "{metrics}");
    let service = r#"{"key":"service.name","value":{"stringValue":"wharf-demo"}}"#;
    assert!(traces["resourceSpans"][0]["resource"].to_string().contains(service), "{traces}");
}

#[test]
fn an_unsupported_protocol_is_logged_and_the_server_serves() {
    let sandbox = Sandbox::new("otlp-grpc");
    let output = serve(&sandbox, "http://127.0.0.1:9", "grpc");
    let lines = output.err.lines().filter(|line| line.contains("cannot export"));
    let [line] = &lines.collect::<Vec<_>>()[..] else { panic!("one line, not {output:?}") };
    assert!(line.contains("supported are http/protobuf and http/json"), "{line}");
}
