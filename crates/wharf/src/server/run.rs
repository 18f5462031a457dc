//! Run of a server for the lifetime of its process: transport, admin listener, export, orderly end.

use std::time::Duration;

use tokio::task::JoinSet;
use wharf_model::BoxFuture;

use super::{builder::Server, command_line::Transport, run_log::RunLog};
use crate::{Endpoint, Result};

/// Time in which the process may end by itself after serving.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);

/// Time for the work at the end of a run: longer than the end of a child process takes.
const END_TIMEOUT: Duration = Duration::from_secs(8);

/// Futures of a run that the application added.
#[derive(Default)]
pub(super) struct RunHooks {
    /// Each shuts the server down when it completes.
    pub(super) shutdown_when: Vec<BoxFuture<()>>,
    /// Work after the last call.
    pub(super) at_end: Vec<BoxFuture<()>>,
}

impl Server {
    /// Shuts a [running](Server::run) server down gracefully, as a signal does, when the future completes. The future runs
    /// with the server.
    ///
    /// ```no_run
    /// # async fn example(licence_expired: tokio::sync::oneshot::Receiver<()>) -> wharf::Result<()> {
    /// let server = wharf::Server::new("harbour", "1.0.0");
    /// server.shutdown_when(async { drop(licence_expired.await) }).run().await
    /// # }
    /// ```
    pub fn shutdown_when(mut self, condition: impl Future<Output = ()> + Send + 'static) -> Self {
        self.hooks.shutdown_when.push(Box::pin(condition));
        self
    }

    /// Awaits the future at the end of a [run](Server::run), after the last call, for eight seconds at most: to close
    /// connections. A second signal does not wait for it.
    ///
    /// ```no_run
    /// # async fn example() -> wharf::Result<()> {
    /// let database = wharf::Client::connect("tcp://127.0.0.1:4000").await?;
    /// let server = wharf::Server::new("harbour", "1.0.0");
    /// server.at_end(async move { database.close().await }).run().await
    /// # }
    /// ```
    pub fn at_end(mut self, work: impl Future<Output = ()> + Send + 'static) -> Self {
        self.hooks.at_end.push(Box::pin(work));
        self
    }

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
        let mut this = self.with_health();
        let hooks = std::mem::take(&mut this.hooks);
        #[cfg(feature = "otlp")]
        let (this, otlp) = super::otlp::export(this);
        let endpoint = this.build()?;
        // They are aborted with the run.
        let mut conditions = JoinSet::new();
        for condition in hooks.shutdown_when {
            let stopping = endpoint.clone();
            conditions.spawn(async move {
                condition.await;
                stopping.shutdown();
            });
        }
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
        let ending = hooks.at_end.into_iter().collect::<JoinSet<()>>().join_all();
        let _ = tokio::time::timeout(END_TIMEOUT, ending).await;
        // After the last call has ended.
        #[cfg(feature = "otlp")]
        if let Some(otlp) = otlp {
            otlp.shutdown().await;
        }
        served?;
        std::thread::Builder::new().name("wharf-end".into()).spawn(|| {
            std::thread::sleep(EXIT_TIMEOUT);
            #[cfg(feature = "client")]
            crate::client::kill_children();
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
