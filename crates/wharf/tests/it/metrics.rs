//! Metrics of a server at its admin listener, scraped by a real Prometheus.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::Duration,
};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};
use wharf::{
    Client, Endpoint, Server, Tool,
    model::RequestExtensions,
    observe::{Metrics, MetricsOptions},
    server::AdminOptions,
};

async fn server() -> (Endpoint, SocketAddr) {
    let options = AdminOptions::new(([127, 0, 0, 1], 0).into()).allow_host("harbour");
    serve(options).await
}

async fn serve(options: AdminOptions) -> (Endpoint, SocketAddr) {
    let server = Server::new("harbour", "1.0.0").add(Tool::new("echo", async || "hello"));
    let endpoint = server.admin(options).build().unwrap();
    let admin = endpoint.start_admin().await.unwrap().unwrap();
    for (id, tool) in ["echo", "echo", "nonsense"].into_iter().enumerate() {
        let call = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"{tool}"}}}}"#
        );
        assert!(endpoint.handle(call, RequestExtensions::new()).await.is_some());
    }
    (endpoint, admin)
}

/// Sends a request and returns the whole response.
async fn get(address: SocketAddr, host: &str, path: &str, accept: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn the_admin_listener_serves_metrics_and_health() {
    let (endpoint, admin) = server().await;
    let host = admin.to_string();
    let metrics = get(admin, &host, "/metrics", "*/*").await;
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    assert!(metrics.contains("content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    let count = "mcp_server_operation_duration_seconds_count{mcp_method_name=\"tools/call\",\
                 gen_ai_operation_name=\"execute_tool\",gen_ai_tool_name=";
    for (tool, number) in [("echo", 2), ("_other", 1)] {
        let line = |it: &&str| it.starts_with(&format!("{count}\"{tool}\""));
        let line = metrics.lines().find(line).unwrap_or_else(|| panic!("{tool}: {metrics}"));
        assert!(line.ends_with(&format!(" {number}")), "{line}");
    }
    let open = get(admin, &host, "/metrics", "application/openmetrics-text; version=1.0.0").await;
    assert!(open.contains("content-type: application/openmetrics-text; version=1.0.0"), "{open}");
    assert!(open.ends_with("# EOF\n"));
    for path in ["/live", "/healthz"] {
        assert!(get(admin, &host, path, "*/*").await.ends_with(r#"{"status":"ok"}"#));
    }
    for path in ["/ready", "/readyz"] {
        let ready = get(admin, &host, path, "*/*").await;
        let body = ready.split_once("\r\n\r\n").unwrap().1;
        let body: serde_json::Value = serde_json::from_str(body).unwrap();
        let checks = serde_json::json!({"running": true, "file_descriptors": true});
        assert_eq!(body, serde_json::json!({"status": "ok", "checks": checks}));
    }
    assert!(get(admin, &host, "/mcp", "*/*").await.starts_with("HTTP/1.1 404"));
    let rebound = get(admin, "evil.example", "/metrics", "*/*").await;
    assert!(rebound.starts_with("HTTP/1.1 403"), "{rebound}");
    let allowed = get(admin, "harbour:9464", "/metrics", "*/*").await;
    assert!(allowed.starts_with("HTTP/1.1 200"), "{allowed}");
    let accepts = "text/plain;q=0.1\r\nAccept: application/openmetrics-text";
    assert!(get(admin, &host, "/metrics", accepts).await.ends_with("# EOF\n"));
    endpoint.shutdown();
    let stopping = get(admin, &host, "/ready", "*/*").await;
    assert!(stopping.starts_with("HTTP/1.1 503"), "{stopping}");
    assert!(stopping.contains(r#""running":false"#), "{stopping}");
}

/// Binds the address once it is free.
async fn bind_again(address: SocketAddr) -> TcpListener {
    for _ in 0..10_000 {
        if let Ok(listener) = TcpListener::bind(address).await {
            return listener;
        }
        tokio::task::yield_now().await;
    }
    panic!("{address} is still in use");
}

#[tokio::test]
async fn the_admin_listener_ends_with_its_server() {
    let (endpoint, admin) = server().await;
    endpoint.shutdown();
    endpoint.drained().await;
    drop(bind_again(admin).await);
    let (endpoint, admin) = server().await;
    // An open connection does not delay the end of the server.
    let _silent = TcpStream::connect(admin).await.unwrap();
    drop(endpoint);
    bind_again(admin).await;
}

#[tokio::test]
async fn silent_connections_do_not_take_the_place_of_a_request() {
    let (_endpoint, admin) = server().await;
    let mut silent = Vec::new();
    for _ in 0..64 {
        silent.push(TcpStream::connect(admin).await.unwrap());
    }
    let live = get(admin, &admin.to_string(), "/live", "*/*").await;
    assert!(live.starts_with("HTTP/1.1 200"), "{live}");
}

#[tokio::test]
async fn one_page_has_the_metrics_of_server_and_client() {
    let metrics = Metrics::with_options(MetricsOptions::default().low_boundaries(true));
    let options = AdminOptions::new(([127, 0, 0, 1], 0).into()).metrics(metrics.clone());
    let (endpoint, admin) = serve(options).await;
    let client = Client::builder().observe(metrics).connect(&endpoint).await.unwrap();
    client.call("echo", ()).await.unwrap();
    drop(client);
    let page = get(admin, &admin.to_string(), "/metrics", "*/*").await;
    let labels = "{mcp_method_name=\"tools/call\",gen_ai_operation_name=\"execute_tool\",\
                  gen_ai_tool_name=\"echo\",network_transport=\"inproc\"";
    for expected in [
        format!("mcp_client_operation_duration_seconds_count{labels}}} 1"),
        format!("mcp_server_operation_duration_seconds_count{labels}}} 1"),
        "mcp_client_session_duration_seconds_count{network_transport=\"inproc\"} 1".into(),
        "le=\"0.0001\"".into(),
    ] {
        assert!(page.contains(&expected), "{expected}: {page}");
    }
}

/// Prometheus that scrapes one target; stopped and removed on drop.
struct Prometheus {
    process: Child,
    directory: PathBuf,
    address: SocketAddr,
}

impl Prometheus {
    /// Starts with the configuration and the rules in `deploy/`.
    async fn start(test: &str, target: SocketAddr) -> Self {
        let directory =
            std::env::temp_dir().join(format!("wharf-prometheus-{test}-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let rules = deploy("prometheus/wharf-alerts.yml");
        fs::write(directory.join("wharf-alerts.yml"), rules).unwrap();
        let configuration = deploy("prometheus/prometheus.yml");
        assert!(configuration.contains("127.0.0.1:9464"), "{configuration}");
        let configuration = configuration
            .replace("127.0.0.1:9464", &target.to_string())
            .replace("interval: 15s", "interval: 1s");
        let file = directory.join("prometheus.yml");
        fs::write(&file, configuration).unwrap();
        // Frees the port before Prometheus starts.
        let address = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", directory.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|why| {
                panic!("cannot start prometheus ({why}): run `cargo xtask prometheus`")
            });
        Prometheus { process, directory, address }
    }

    async fn query(&self, query: &str) -> String {
        self.get(&format!("/api/v1/query?query={}", percent_encoded(query))).await
    }

    async fn query_until(&self, query: &str, text: &str) -> String {
        self.get_until(&format!("/api/v1/query?query={}", percent_encoded(query)), text).await
    }

    /// Requests `path` until the response contains `text`.
    async fn get_until(&self, path: &str, text: &str) -> String {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let answer = self.get(path).await;
            if answer.contains(r#""status":"success""#) && answer.contains(text) {
                return answer;
            }
            assert!(Instant::now() < deadline, "Prometheus does not answer {text}: {answer}");
            sleep(Duration::from_millis(200)).await;
        }
    }

    async fn get(&self, path: &str) -> String {
        let Ok(mut stream) = TcpStream::connect(self.address).await else { return String::new() };
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", self.address);
        let mut response = Vec::new();
        if stream.write_all(request.as_bytes()).await.is_ok() {
            let _ = stream.read_to_end(&mut response).await;
        }
        String::from_utf8_lossy(&response).into_owned()
    }
}

fn deploy(path: &str) -> String {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy");
    fs::read_to_string(folder.join(path)).unwrap()
}

fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

#[tokio::test]
async fn a_real_prometheus_scrapes_the_server() {
    let (_endpoint, admin) = server().await;
    let prometheus = Prometheus::start("scrape", admin).await;
    let query = r#"mcp_server_operation_duration_seconds_count{gen_ai_tool_name="echo"}"#;
    let answer = prometheus.query_until(query, r#","2"]"#).await;
    assert!(answer.contains(r#""mcp_method_name":"tools/call""#), "{answer}");
    assert!(answer.contains(r#""job":"wharf""#), "{answer}");
    // The rules in `deploy/` are evaluated without an error.
    let rules = prometheus.get_until("/api/v1/rules", r#""health":"ok""#).await;
    assert!(rules.contains("WharfDown") && !rules.contains(r#""health":"err""#), "{rules}");
}

#[tokio::test]
async fn prometheus_understands_every_query_of_the_dashboard() {
    let (_endpoint, admin) = server().await;
    let prometheus = Prometheus::start("dashboard", admin).await;
    prometheus.query_until("wharf_build_info", r#","1"]"#).await;
    let dashboard: serde_json::Value =
        serde_json::from_str(&deploy("grafana/wharf-dashboard.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let queries: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(queries.len() > 20, "{queries:?}");
    for query in queries {
        let query = query
            .replace("$__rate_interval", "1m")
            .replace("$job", ".*")
            .replace("$instance", ".*");
        let answer = prometheus.query(&query).await;
        assert!(answer.contains(r#""status":"success""#), "{query}: {answer}");
    }
    // A gauge of the process has a value from the start.
    let memory = prometheus.query(r#"process_resident_memory_bytes{job=~".*"}"#).await;
    assert!(memory.contains("\"value\""), "{memory}");
}
