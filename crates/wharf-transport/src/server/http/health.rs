//! Health checks for load balancers: liveness and readiness.

use http::{Method, request::Parts};

use crate::server::http::{
    options::{LIVE, READY},
    response,
    response::HttpResponse,
    service::HttpEndpoint,
};

impl HttpEndpoint {
    /// Answers a health check. None if the path is another one.
    pub(crate) async fn health(&self, parts: &Parts) -> Option<HttpResponse> {
        let path = parts.uri.path();
        let (live, ready) = (path.ends_with(LIVE), path.ends_with(READY));
        // The endpoint itself may have such a path.
        if !live && !ready || path == self.http.path {
            return None;
        }
        if parts.method != Method::GET && parts.method != Method::HEAD {
            return Some(response::not_allowed("GET, HEAD"));
        }
        Some(match live || self.is_ready().await {
            true => response::status(200),
            false => response::unavailable(),
        })
    }

    async fn is_ready(&self) -> bool {
        let stores = self.http.stores.as_ref();
        if self.shutdown.is_stopped() || self.shortage.is_recent() {
            return false;
        }
        if stores.is_some_and(|stores| !stores.health.is_ready()) {
            return false;
        }
        match &self.cluster {
            Some(cluster) => {
                cluster.start();
                cluster.is_ready().await
            }
            None => true,
        }
    }
}
