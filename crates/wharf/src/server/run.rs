//! Run of a server for the lifetime of its process: transport, admin listener, export, orderly end.

use std::time::Duration;

use super::{builder::Server, command_line::Transport, run_log::RunLog};
use crate::{Endpoint, Result};

/// Time in which the process may end by itself after serving.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

impl Server {
    /// Adds the health checks: a load balancer can probe every process that has its own HTTP port.
    #[cfg(feature = "http")]
    fn with_health(mut self) -> Self {
        self.http = self.http.health();
        self
    }

    #[cfg(not(feature = "http"))]
    fn with_health(self) -> Self {
        self
    }

    pub(super) async fn run_logged(self, transport: Transport, log: &RunLog) -> Result<()> {
        let about = self.about.clone();
        let this = self.with_health();
        #[cfg(feature = "otlp")]
        let (this, otlp) = super::otlp::export(this);
        let endpoint = this.build()?;
        #[cfg(feature = "otlp")]
        if let Some(otlp) = &otlp {
            otlp.start(&about.name, &about.version);
        }
        let served = endpoint.run_transport(transport, log, &about.name).await;
        if served.is_ok() {
            endpoint.shutdown.log_end();
        }
        // A store that does not respond does not delay the exit.
        let _ = tokio::time::timeout(EXIT_TIMEOUT, endpoint.release_tasks()).await;
        // After the last call has ended.
        #[cfg(feature = "otlp")]
        if let Some(otlp) = otlp {
            otlp.shutdown().await;
        }
        served?;
        std::thread::Builder::new().name("wharf-end".into()).spawn(|| {
            std::thread::sleep(EXIT_TIMEOUT);
            std::process::exit(0);
        })?;
        Ok(())
    }
}

impl Endpoint {
    /// Serves a transport until it ends or a signal arrives, and the admin listener beside it.
    async fn run_transport(&self, transport: Transport, log: &RunLog, name: &str) -> Result<()> {
        #[cfg(feature = "metrics")]
        let admin = self.bind_admin(|text| log.print_status(text)).await?;
        // Called when the transport is ready: from then on the admin listener reports that.
        let on_ready = || {
            #[cfg(feature = "metrics")]
            if let Some(admin) = admin {
                let address = admin.address;
                log.print_status(&format!("{name}: serving metrics at http://{address}/metrics"));
                admin.serve(&self.http);
            }
        };
        // Never aborted: while the process runs, another signal must be able to end it.
        tokio::spawn(self.shutdown_on_signals());
        match transport {
            Transport::Stdio => {
                on_ready();
                self.serve_stdio().await?;
            }
            Transport::Tcp(address) => {
                let listener = Endpoint::listen_tcp(address).await?;
                let address = listener.local_addr()?;
                log.print_status(&format!("{name}: serving lines at tcp://{address}"));
                on_ready();
                self.serve_listener(listener).await;
            }
            #[cfg(feature = "http")]
            Transport::Http(address) => {
                let listener = Endpoint::listen_http(address).await?;
                log.print_status(&format!("{name}: serving at {}", self.http_url(&listener)?));
                on_ready();
                self.serve_http_on(listener).await;
            }
            Transport::Unix(path) => {
                let status = format!("{name}: serving lines at unix:{}", path.display());
                let on_ready = || {
                    log.print_status(&status);
                    on_ready();
                };
                self.serve_unix_then(path, on_ready).await?;
            }
        }
        Ok(())
    }
}
