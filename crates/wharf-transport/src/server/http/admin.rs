//! Admin listener: metrics and health for operators, apart from the protocol.

use std::{
    convert::Infallible,
    net::IpAddr,
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Method, Request, Response, header, request::Parts};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::{AbortHandle, JoinSet, spawn_blocking},
    time::timeout,
};
use wharf_model::LogThrottle;

use crate::server::http::{
    HttpBody, HttpService,
    response::{self, HttpResponse},
    service::HttpEndpoint,
};

/// Maximum number of connections at a time. A scraper needs one.
const MAX_CONNECTIONS: usize = 16;
/// Maximum duration of a connection, which serves one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum time from the begin of a connection to the end of the request's head.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// Renders the page `/metrics`.
pub trait MetricsPage: Send + Sync + 'static {
    /// Returns content type and text for this `Accept` header. It may block.
    fn render(&self, accept: &str) -> (&'static str, String);
}

/// Serves `/metrics`, `/live` (`/healthz`) and `/ready` (`/readyz`) until `server` has drained or is dropped.
///
/// A web page cannot read them with DNS rebinding, because only IP addresses, `localhost` and the names in `hosts` are
/// accepted as `Host`.
pub fn serve_admin(
    listener: TcpListener,
    server: &HttpService,
    hosts: Vec<String>,
    metrics: Arc<dyn MetricsPage>,
) {
    if let Ok(address) = listener.local_addr()
        && !address.ip().is_loopback()
    {
        tracing::warn!(%address, "serving metrics to other machines, without authentication");
    }
    let endpoint = Arc::downgrade(&server.endpoint);
    let admin = Arc::new(Admin { endpoint, hosts, metrics });
    server.endpoint.tasks.spawn_background(serve(listener, admin));
}

struct Admin {
    /// Weak, because the endpoint owns the listener.
    endpoint: Weak<HttpEndpoint>,
    hosts: Vec<String>,
    metrics: Arc<dyn MetricsPage>,
}

struct OpenConnection {
    task: AbortHandle,
    /// True once its request has arrived.
    busy: Arc<AtomicBool>,
}

async fn serve(listener: TcpListener, admin: Arc<Admin>) {
    let log = LogThrottle::default();
    let mut tasks = JoinSet::new();
    let mut open: Vec<OpenConnection> = Vec::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                if let Some(suppressed) = log.due() {
                    tracing::warn!(%error, suppressed, "cannot accept a connection of the admin listener");
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        while tasks.try_join_next().is_some() {}
        open.retain(|connection| !connection.task.is_finished());
        if open.len() >= MAX_CONNECTIONS {
            // Connections that send nothing give way to new ones; requests do not.
            let silent = open.iter().position(|it| !it.busy.load(Ordering::Relaxed));
            let Some(silent) = silent else { continue };
            open.remove(silent).task.abort();
        }
        let busy = Arc::new(AtomicBool::new(false));
        let task = tasks.spawn(connection(stream, admin.clone(), busy.clone()));
        open.push(OpenConnection { task, busy });
    }
}

async fn connection(stream: TcpStream, admin: Arc<Admin>, busy: Arc<AtomicBool>) {
    let answer = service_fn(|request: Request<Incoming>| {
        busy.store(true, Ordering::Relaxed);
        let admin = admin.clone();
        let (parts, _) = request.into_parts();
        async move { Ok::<_, Infallible>(admin.page(&parts).await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    let _ = timeout(CONNECTION_TIMEOUT, connection).await;
}

impl Admin {
    async fn page(&self, parts: &Parts) -> HttpResponse {
        let host = parts.headers.get(header::HOST).and_then(|it| it.to_str().ok());
        if !is_allowed_host(host.unwrap_or_default(), &self.hosts) {
            let problem = "Call the admin listener by its IP address or as localhost, or allow the name with --admin-allow-host";
            return response::refuse(403, problem);
        }
        let is_known =
            ["/metrics", "/live", "/healthz", "/ready", "/readyz"].contains(&parts.uri.path());
        if is_known && parts.method != Method::GET && parts.method != Method::HEAD {
            return response::not_allowed("GET, HEAD");
        }
        match parts.uri.path() {
            "/metrics" => self.metrics_page(parts).await,
            "/live" | "/healthz" => with_type(200, "application/json", r#"{"status":"ok"}"#.into()),
            "/ready" | "/readyz" => self.readiness().await,
            _ => response::status(404),
        }
    }

    async fn metrics_page(&self, parts: &Parts) -> HttpResponse {
        let accept = parts.headers.get_all(header::ACCEPT).iter().filter_map(|it| it.to_str().ok());
        let accept = accept.collect::<Vec<_>>().join(",");
        let metrics = self.metrics.clone();
        // It reads files of the system.
        match spawn_blocking(move || metrics.render(&accept)).await {
            Ok((content_type, page)) => with_type(200, content_type, page),
            Err(error) => {
                tracing::error!(%error, "cannot render the metrics");
                response::status(500)
            }
        }
    }

    async fn readiness(&self) -> HttpResponse {
        let checks = match self.endpoint.upgrade() {
            Some(endpoint) => endpoint.checks().await,
            None => vec![("running", false)],
        };
        let failing = checks.iter().any(|check| !check.1);
        let (code, status) = if failing { (503, "unavailable") } else { (200, "ok") };
        let checks: serde_json::Map<_, _> =
            checks.iter().map(|(name, ok)| ((*name).to_owned(), (*ok).into())).collect();
        let body = serde_json::json!({ "status": status, "checks": checks });
        with_type(code, "application/json", body.to_string())
    }
}

/// Returns whether a `Host` cannot belong to a foreign web site, or is allowed by the operator.
fn is_allowed_host(host: &str, allowed: &[String]) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost")
        || address.parse::<IpAddr>().is_ok()
        || allowed.iter().any(|it| it.eq_ignore_ascii_case(name))
}

fn with_type(code: u16, content_type: &'static str, body: String) -> HttpResponse {
    let mut reply = Response::new(HttpBody::whole(body.into_bytes()));
    *reply.status_mut() = http::StatusCode::from_u16(code).unwrap_or_default();
    let headers = reply.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    reply
}

#[cfg(test)]
mod tests {
    use super::is_allowed_host;

    #[test]
    fn only_addresses_localhost_and_allowed_names_are_accepted() {
        for host in ["127.0.0.1:9464", "localhost:9464", "LOCALHOST", "[::1]:9464", "10.0.0.7"] {
            assert!(is_allowed_host(host, &[]), "{host}");
        }
        let allowed = ["harbour".to_owned()];
        assert!(is_allowed_host("Harbour:9464", &allowed));
        assert!(!is_allowed_host("harbour.evil.example", &allowed));
        for host in ["", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example"] {
            assert!(!is_allowed_host(host, &[]), "{host}");
        }
    }
}
