//! Admin listener: metrics and health for operators, apart from the protocol.

use std::{convert::Infallible, io, net::IpAddr, sync::Arc, time::Duration};

use http::{HeaderValue, Method, Request, Response, header, request::Parts};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{net::TcpListener, sync::Semaphore, time::timeout};

use crate::server::http::{
    HttpBody, HttpService,
    response::{self, HttpResponse},
};

/// Maximum number of connections at a time. A scraper needs one.
const MAX_CONNECTIONS: usize = 16;
/// Maximum duration of a connection, which serves one request.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Renders the page `/metrics`.
pub trait MetricsPage: Send + Sync + 'static {
    /// Returns content type and text for this `Accept` header.
    fn render(&self, accept: &str) -> (&'static str, String);
}

/// Serves `/metrics`, `/live` (`/healthz`) and `/ready` (`/readyz`) until `server` shuts down and `listener` is dropped.
///
/// A web page cannot read them with DNS rebinding, because only IP addresses and `localhost` are accepted as `Host`.
///
/// # Errors
/// If the listener has no address.
pub async fn serve_admin(
    listener: TcpListener,
    server: HttpService,
    metrics: Arc<dyn MetricsPage>,
) -> io::Result<()> {
    let address = listener.local_addr()?;
    if !address.ip().is_loopback() {
        tracing::warn!(%address, "the admin listener is reachable from other machines, without authentication");
    }
    let slots = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(slot) = slots.clone().acquire_owned().await else { return Ok(()) };
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection of the admin listener");
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            }
        };
        let (server, metrics) = (server.clone(), metrics.clone());
        tokio::spawn(async move {
            let _slot = slot;
            let answer = service_fn(|request: Request<Incoming>| {
                let (server, metrics) = (server.clone(), metrics.clone());
                let (parts, _) = request.into_parts();
                async move { Ok::<_, Infallible>(page(&parts, &server, &*metrics).await) }
            });
            let connection = http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer);
            let _ = timeout(CONNECTION_TIMEOUT, connection).await;
        });
    }
}

async fn page(parts: &Parts, server: &HttpService, metrics: &dyn MetricsPage) -> HttpResponse {
    let text = |name| parts.headers.get(name).and_then(|it| it.to_str().ok()).unwrap_or_default();
    if !is_allowed_host(text(header::HOST)) {
        return response::refuse(403, "Call the admin listener by its IP address or as localhost");
    }
    let is_known =
        ["/metrics", "/live", "/healthz", "/ready", "/readyz"].contains(&parts.uri.path());
    if is_known && parts.method != Method::GET && parts.method != Method::HEAD {
        return response::not_allowed("GET, HEAD");
    }
    match parts.uri.path() {
        "/metrics" => {
            let (content_type, page) = metrics.render(text(header::ACCEPT));
            with_type(200, content_type, page)
        }
        "/live" | "/healthz" => with_type(200, "application/json", r#"{"status":"ok"}"#.into()),
        "/ready" | "/readyz" => {
            let checks = server.endpoint.checks().await;
            let failing = checks.iter().any(|check| !check.1);
            let (code, status) = if failing { (503, "unavailable") } else { (200, "ok") };
            let checks: serde_json::Map<_, _> =
                checks.iter().map(|(name, ok)| ((*name).to_owned(), (*ok).into())).collect();
            let body = serde_json::json!({ "status": status, "checks": checks });
            with_type(code, "application/json", body.to_string())
        }
        _ => response::status(404),
    }
}

/// Returns whether a name in `Host` cannot belong to a foreign web site.
fn is_allowed_host(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|it| it.is_ascii_digit()) => name,
        _ => host,
    };
    let address = name.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok()
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
    fn only_addresses_and_localhost_are_accepted() {
        for host in ["127.0.0.1:9464", "localhost:9464", "LOCALHOST", "[::1]:9464", "10.0.0.7"] {
            assert!(is_allowed_host(host), "{host}");
        }
        for host in ["", "evil.example:9464", "localhost.evil.example", "127.0.0.1.evil.example"] {
            assert!(!is_allowed_host(host), "{host}");
        }
    }
}
