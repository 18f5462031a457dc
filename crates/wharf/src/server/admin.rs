//! Admin listener of a server: metrics and health.

use std::{net::SocketAddr, sync::Arc};

use tokio::net::TcpListener;
use wharf_telemetry::{Metrics, MetricsFormat};
use wharf_transport::server::http::{MetricsPage, serve_admin};

use super::{Endpoint, Server};
use crate::{Result, RunError};

/// Address of the admin listener, and the metrics that it serves.
#[derive(Clone)]
pub(super) struct AdminOptions {
    address: SocketAddr,
    metrics: Metrics,
}

impl Server {
    /// Serves [metrics](crate::observe::Metrics) and health at this address while the server [runs](Server::run_over),
    /// over any transport: `/metrics`, `/live` (or `/healthz`) and `/ready` (or `/readyz`). The command line option
    /// `--admin ADDRESS` and the environment variable `WHARF_ADMIN` do the same.
    ///
    /// The listener has no authentication: use a loopback address, or a network that only operators reach.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// wharf::Server::new("harbour", "1.0.0").admin(([127, 0, 0, 1], 9464).into()).run().await
    /// # }
    /// ```
    pub fn admin(mut self, address: SocketAddr) -> Self {
        match &mut self.admin {
            Some(admin) => {
                admin.address = address;
                self
            }
            None => {
                let metrics = exported_metrics().unwrap_or_default();
                self.admin = Some(AdminOptions { address, metrics: metrics.clone() });
                self.routing(|router| router.observe(metrics))
            }
        }
    }
}

impl Endpoint {
    /// Starts the [admin listener](Server::admin), if there is one, and returns its address. [`Server::run`] does it.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn start_admin(&self) -> Result<Option<SocketAddr>> {
        let Some(AdminOptions { address, metrics }) = self.admin.clone() else { return Ok(None) };
        let listener = TcpListener::bind(address).await.map_err(|error| {
            RunError::new(format!("cannot listen for operators at {address}: {error}"))
        })?;
        let bound = listener.local_addr()?;
        let page: Arc<dyn MetricsPage> = Arc::new(RenderedMetrics(metrics));
        tokio::spawn(serve_admin(listener, self.http.clone(), page));
        Ok(Some(bound))
    }
}

/// Returns the metrics that are exported over OTLP, if they are, so that both have the same values.
fn exported_metrics() -> Option<Metrics> {
    #[cfg(feature = "otlp")]
    return wharf_telemetry::Otlp::from_env().ok().flatten()?.metrics();
    #[cfg(not(feature = "otlp"))]
    None
}

struct RenderedMetrics(Metrics);

impl MetricsPage for RenderedMetrics {
    fn render(&self, accept: &str) -> (&'static str, String) {
        let format = MetricsFormat::accepted(accept);
        (format.content_type(), self.0.render(format))
    }
}
