//! OTLP export, parsed by the generated classes of OpenTelemetry (PyPI `opentelemetry-proto`): one trace over a client,
//! a proxy, a server and a task. `cargo xtask foreign` installs the receiver.

use std::{
    io::{BufRead as _, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};
use tokio::net::TcpListener;
use wharf::{
    Client, Endpoint, Server, Tool,
    observe::{CurrentTrace, Otlp, TraceContext},
    tasks::TaskMode,
};
use wharf_testbed::foreign_programs::Installed;

/// Receiver in Python; ends with the test.
struct Receiver {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    port: String,
}

impl Receiver {
    fn start() -> Receiver {
        let installed = Installed::find().unwrap();
        let script = "otlp_receiver.py";
        let mut process = Command::new(installed.runtime(script))
            .arg(installed.scripts.join(script))
            .env("PYTHONDONTWRITEBYTECODE", "1")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let port = lines.next().unwrap().unwrap();
        Receiver { process, lines, port }
    }

    /// Export of one program to this receiver.
    fn export(&self, service: &str, protocol: &str) -> Otlp {
        let variable = |name: &str| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(format!("http://127.0.0.1:{}", self.port)),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some(protocol.to_owned()),
            _ => None,
        };
        let otlp = Otlp::from_variables(variable).unwrap().unwrap();
        otlp.start(service, "1.0.0");
        otlp
    }

    /// All received objects.
    fn end(mut self) -> Vec<Value> {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.lines.map(|line| serde_json::from_str(&line.unwrap()).unwrap()).collect()
    }
}

fn traced(server: Server, otlp: &Otlp) -> Server {
    server.observe(otlp.traces().unwrap()).observe(otlp.metrics().unwrap())
}

async fn serve(server: &Endpoint) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let server = server.clone();
    tokio::spawn(async move { server.serve_http_on(listener).await });
    url
}

async fn client(url: String, otlp: &Otlp, version: &str) -> Client {
    let builder = Client::builder().protocol_version(version.parse().unwrap());
    builder.observe(otlp.traces().unwrap()).connect(url).await.unwrap()
}

fn find<'s>(spans: &'s [Value], service: &str, kind: &str, name: &str) -> &'s Value {
    let is_it =
        |span: &&Value| span["service"] == service && span["kind"] == kind && span["name"] == name;
    let found: Vec<_> = spans.iter().filter(is_it).collect();
    let [span] = found[..] else { panic!("{service} {kind} {name}: {spans:#?}") };
    span
}

async fn one_trace(version: &str) -> Vec<Value> {
    let receiver = Receiver::start();
    let ends = receiver.export("end", "http/protobuf");
    let proxies = receiver.export("proxy", "http/json");
    let clients = receiver.export("client", "http/protobuf");
    let count = Tool::new("count", async || {
        tokio::task::yield_now().await;
        "3"
    });
    let end = traced(Server::new("end", "1.0.0"), &ends);
    let end = end.add(count.task(TaskMode::optional())).build().unwrap();
    let back = client(serve(&end).await, &proxies, version).await;
    let proxy = traced(Server::from(back), &proxies).build().unwrap();
    let front = client(serve(&proxy).await, &clients, version).await;
    // From a list that it forwards, the proxy learns which names are no inventions of its client.
    front.tools().all().await.unwrap();
    let root = TraceContext::root(7, true);
    let called = CurrentTrace::Context(root.clone())
        .scope(async { front.call_task("count", json!({})).await.unwrap().wait().await.unwrap() });
    assert_eq!(called.await.content[0].as_text(), Some("3"));
    for otlp in [ends, proxies, clients] {
        otlp.shutdown().await;
    }
    let received = receiver.end();
    let (spans, metrics): (Vec<_>, Vec<_>) =
        received.into_iter().partition(|it| it.get("span").is_some());
    let name = "tools/call count";
    let hops = [
        find(&spans, "client", "SPAN_KIND_CLIENT", name),
        find(&spans, "proxy", "SPAN_KIND_SERVER", name),
        find(&spans, "proxy", "SPAN_KIND_CLIENT", name),
        find(&spans, "end", "SPAN_KIND_SERVER", name),
        find(&spans, "end", "SPAN_KIND_INTERNAL", "execute_tool count"),
    ];
    let mut parent = json!(format!("{:016x}", root.span_id()));
    for span in hops {
        assert_eq!(span["trace"], json!(format!("{:032x}", root.trace_id())), "{spans:#?}");
        assert_eq!(span["parent"], parent, "{version}: {spans:#?}");
        assert_eq!(span["ends_after_start"], true);
        assert_eq!(span["attributes"]["gen_ai.tool.name"], "count");
        parent = span["span"].clone();
    }
    assert_eq!(hops[3]["attributes"]["mcp.protocol.version"], version);
    assert_eq!(hops[2]["attributes"]["server.address"], "127.0.0.1");
    assert!(hops[2]["attributes"]["server.port"].is_u64());
    metrics
}

#[tokio::test]
async fn one_trace_over_client_proxy_server_and_task() {
    for version in ["2025-11-25", "2026-07-28"] {
        let metrics = one_trace(version).await;
        let duration = |it: &&Value| {
            it["metric"] == "mcp.server.operation.duration"
                && it["attributes"]["gen_ai.tool.name"] == "count"
        };
        let durations: Vec<_> = metrics.iter().filter(duration).collect();
        assert_eq!(durations.len(), 2, "of the proxy and its server: {metrics:#?}");
        for point in durations {
            assert_eq!((&point["unit"], &point["count"]), (&json!("s"), &json!(1)));
            let bounds = json!([
                0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0
            ]);
            assert_eq!(point["bounds"], bounds);
            assert_eq!(point["buckets"].as_array().unwrap().len(), 15);
            assert_eq!(point["attributes"]["mcp.method.name"], "tools/call");
        }
    }
}
