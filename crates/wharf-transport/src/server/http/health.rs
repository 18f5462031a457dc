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
        if let Some(cluster) = &self.cluster {
            cluster.start();
        }
        self.checks().await.iter().all(|check| check.1)
    }

    /// Returns the checks of readiness, each with its name and whether it passed.
    pub(crate) async fn checks(&self) -> Vec<(&'static str, bool)> {
        let mut checks = vec![
            ("running", !self.shutdown.is_stopped()),
            ("file_descriptors", !self.context.shortage.is_recent()),
        ];
        if let Some(stores) = &self.http.stores {
            checks.push(("store", stores.health.is_ready()));
        }
        // A store that fails would make the next check wait.
        if let Some(cluster) = &self.cluster
            && checks.iter().all(|check| check.1)
            && cluster.has_started()
        {
            checks.push(("cluster", cluster.is_ready().await));
        }
        checks
    }
}
