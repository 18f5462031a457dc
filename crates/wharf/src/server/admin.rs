//! Admin listener of a server: metrics and health.

use std::{net::SocketAddr, sync::Arc};

use tokio::net::TcpListener;
use wharf_telemetry::{Metrics, MetricsFormat};
use wharf_transport::server::http::{HttpService, MetricsPage, serve_admin};

use super::{CommandLine, Endpoint, Server};
use crate::{Result, RunError};

/// Admin listener of a [`Server`]: its address, and the metrics that it serves.
///
/// ```
/// use std::net::SocketAddr;
/// use wharf::{observe::{Metrics, MetricsOptions}, server::AdminOptions};
///
/// let metrics = Metrics::with_options(MetricsOptions::default().low_boundaries(true));
/// let admin = AdminOptions::new(SocketAddr::from(([0, 0, 0, 0], 9464)))
///     .metrics(metrics.clone())
///     .allow_host("harbour.internal");
/// // With `ClientBuilder::observe(metrics)`, the page has the metrics of a client, too.
/// let server = wharf::Server::new("harbour", "1.0.0").admin(admin);
/// # let _ = (server, metrics);
/// ```
#[derive(Clone, Debug)]
pub struct AdminOptions {
    address: SocketAddr,
    metrics: Metrics,
    hosts: Vec<String>,
    /// True if the server runs without this listener when its address cannot be bound.
    optional: bool,
    /// True if the metrics are those of the export over OTLP.
    #[cfg(feature = "otlp")]
    pub(super) exported: bool,
}

impl From<SocketAddr> for AdminOptions {
    fn from(address: SocketAddr) -> Self {
        AdminOptions::new(address)
    }
}

impl AdminOptions {
    /// Creates options for a listener at this address, with metrics of its own, or those of the export over OTLP.
    #[must_use]
    pub fn new(address: SocketAddr) -> Self {
        let exported = exported_metrics();
        AdminOptions {
            address,
            hosts: Vec::new(),
            optional: false,
            #[cfg(feature = "otlp")]
            exported: exported.is_some(),
            metrics: exported.unwrap_or_default(),
        }
    }

    /// Serves these metrics, which then observe the server. `ClientBuilder::observe` adds the calls of a client.
    #[must_use]
    pub fn metrics(self, metrics: Metrics) -> Self {
        AdminOptions {
            metrics,
            #[cfg(feature = "otlp")]
            exported: false,
            ..self
        }
    }

    /// Accepts requests with this name in the `Host` header, beside IP addresses and `localhost`.
    #[must_use]
    pub fn allow_host(mut self, name: impl Into<String>) -> Self {
        self.hosts.push(name.into());
        self
    }

    pub(super) fn observer(&self) -> Metrics {
        self.metrics.clone()
    }
}

impl Server {
    /// Serves [metrics](crate::observe::Metrics) and health at this address while the server [runs](Server::run_over),
    /// over any transport: `/metrics`, `/live` (or `/healthz`) and `/ready` (or `/readyz`). The command line option
    /// `--admin ADDRESS` and the environment variable `WHARF_ADMIN` do the same.
    ///
    /// The listener has no authentication: use a loopback address, or a network that only operators reach. Web pages
    /// cannot read it: a `Host` that is neither an IP address nor `localhost` has to be
    /// [allowed](AdminOptions::allow_host).
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// let address = std::net::SocketAddr::from(([127, 0, 0, 1], 9464));
    /// wharf::Server::new("harbour", "1.0.0").admin(address).run().await
    /// # }
    /// ```
    pub fn admin(mut self, options: impl Into<AdminOptions>) -> Self {
        self.admin = Some(options.into());
        self
    }

    /// Applies the options of the command line, or the environment variable.
    pub(super) fn admin_of(mut self, command_line: &CommandLine) -> Result<Self> {
        if let Some((address, is_given)) = command_line.admin()? {
            let admin = self.admin.get_or_insert_with(|| address.into());
            // Several servers may inherit the same variable.
            (admin.address, admin.optional) = (address, !is_given);
        }
        if let Some(admin) = &mut self.admin {
            admin.hosts.extend_from_slice(command_line.admin_hosts());
        }
        Ok(self)
    }
}

impl Endpoint {
    /// Returns the metrics that the [admin listener](Server::admin) serves, to observe a client with them.
    #[must_use]
    pub fn metrics(&self) -> Option<&Metrics> {
        self.admin.as_ref().map(|admin| &admin.metrics)
    }

    /// Starts the [admin listener](Server::admin), if there is one, and returns its address. [`Server::run`] does it. The
    /// listener ends when the endpoint has [drained](Endpoint::drained), or with its last clone.
    ///
    /// # Errors
    /// If the address cannot be bound.
    pub async fn start_admin(&self) -> Result<Option<SocketAddr>> {
        // The listener is optional only for the command line, where `WHARF_ADMIN` sets its address.
        let Some(listener) = self.bind_admin(|_| ()).await? else { return Ok(None) };
        let address = listener.address;
        listener.serve(&self.http);
        Ok(Some(address))
    }

    /// Binds the address of the admin listener. Connections queue until the listener serves. `warn` is called with the
    /// error if the address of an optional listener cannot be bound.
    pub(super) async fn bind_admin(&self, warn: impl FnOnce(&str)) -> Result<Option<BoundAdmin>> {
        let Some(options) = self.admin.clone() else { return Ok(None) };
        let address = options.address;
        match TcpListener::bind(address).await {
            Ok(listener) => {
                let address = listener.local_addr()?;
                Ok(Some(BoundAdmin { listener, address, options }))
            }
            Err(error) if options.optional => {
                warn(&format!(
                    "cannot listen at {address}, the address in WHARF_ADMIN: {error}: serving no metrics"
                ));
                Ok(None)
            }
            Err(error) => {
                Err(RunError::new(format!("cannot listen for operators at {address}: {error}")))
            }
        }
    }
}

/// Admin listener that does not accept connections yet.
pub(super) struct BoundAdmin {
    listener: TcpListener,
    pub(super) address: SocketAddr,
    options: AdminOptions,
}

impl BoundAdmin {
    pub(super) fn serve(self, http: &HttpService) {
        let AdminOptions { metrics, hosts, .. } = self.options;
        serve_admin(self.listener, http, hosts, Arc::new(RenderedMetrics(metrics)));
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

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use wharf_model::{ObservedEvent, ObservedTransport, Observer as _};

    use super::*;

    fn endpoint(options: AdminOptions) -> Endpoint {
        Server::new("harbour", "1.0.0").admin(options).build().unwrap()
    }

    #[tokio::test]
    async fn an_address_in_use_is_an_error_only_if_the_listener_is_required() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut options = AdminOptions::new(taken.local_addr().unwrap());
        let error = endpoint(options.clone()).start_admin().await.unwrap_err();
        assert!(error.to_string().contains("cannot listen for operators"), "{error}");
        // As with the variable `WHARF_ADMIN`.
        options.optional = true;
        assert_eq!(endpoint(options).start_admin().await.unwrap(), None);
    }

    #[test]
    fn the_command_line_keeps_the_metrics_of_the_program() {
        let metrics = Metrics::new();
        let address = SocketAddr::from(([127, 0, 0, 1], 9464));
        let options = AdminOptions::new(address).metrics(metrics.clone()).allow_host("a");
        let line = ["--admin", "127.0.0.1:9465", "--admin-allow-host", "b"].map(Into::into);
        let line = CommandLine::parse(line).unwrap().unwrap();
        let server = Server::new("harbour", "1.0.0").admin(options).admin_of(&line).unwrap();
        let admin = server.admin.unwrap();
        assert_eq!((admin.address.port(), admin.optional), (9465, false));
        assert_eq!(admin.hosts, ["a", "b"]);
        let event = ObservedEvent::Sent { transport: ObservedTransport::Http, bytes: 7 };
        admin.metrics.event(&event);
        assert!(metrics.render(MetricsFormat::Prometheus).contains("{direction=\"sent\"} 7"));
    }
}
