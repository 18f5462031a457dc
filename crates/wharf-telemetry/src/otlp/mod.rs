//! Export of traces and metrics over OTLP (HTTP, as JSON or Protocol Buffers).
//!
//! It is written here, and not taken from the crates of OpenTelemetry, because that costs users least: **no** further
//! crate over those of a server with HTTP, where `opentelemetry_sdk` adds 10 and `opentelemetry-otlp` 20 (`http-proto`
//! without a client) to 32 (`grpc-tonic`), with their own HTTP client, TLS, task and queue beside ours; connections go
//! through `wharf-connect` like all others of the process, so that proxies, certificates and timeouts are the same. The
//! wire format is stable since OTLP 1.0, and the part that is needed here are three messages (`message.rs` writes both
//! of its forms from one description), while the Rust API of the SDK changed in every minor version. Whoever has an
//! OpenTelemetry SDK uses it: see the feature `otel`, whose only crate is the API.

mod message;
mod metrics;
mod send;
mod settings;
mod spans;
mod worker;

use std::{
    fmt,
    sync::{Arc, Mutex, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{sync::watch, task::JoinHandle, time::timeout};

pub use crate::otlp::settings::OtlpError;
use crate::{
    Metrics, Traces,
    otlp::{settings::OtlpSettings, worker::Worker},
    traces::queue::{SpanQueue, count_dropped},
};

/// Maximum time of the last export at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Export of traces and metrics over OTLP, configured by the variables of OpenTelemetry. Off unless
/// `OTEL_EXPORTER_OTLP_ENDPOINT` or that of a signal is set. [`Server::run`](https://docs.rs/wharf-mcp) does all this by
/// itself; clients add its observers.
///
/// It never blocks a call: the queue is bounded, spans beyond it are dropped and counted
/// (`wharf_spans_dropped_total`).
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::Otlp;
///
/// # async fn example() -> Result<(), wharf::observe::OtlpError> {
/// if let Some(otlp) = Otlp::from_env("harbour", "1.0.0")? {
///     let observers = (otlp.traces(), otlp.metrics());
///     otlp.start();
///     // … the work of the program …
///     otlp.shutdown().await;
///     # drop(observers);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Otlp(Arc<OtlpExport>);

struct OtlpExport {
    settings: OtlpSettings,
    queue: Arc<SpanQueue>,
    metrics: Mutex<Option<Metrics>>,
    stop: watch::Sender<bool>,
    worker: Mutex<Option<JoinHandle<()>>>,
}

impl Otlp {
    /// Reads the variables of the process. All callers share one export; the first one names the service, unless
    /// `OTEL_SERVICE_NAME` does. `None` if nothing is exported.
    ///
    /// # Errors
    /// If a variable has a value that is not supported.
    pub fn from_env(service: &str, version: &str) -> Result<Option<Otlp>, OtlpError> {
        static SHARED: OnceLock<Result<Option<Otlp>, OtlpError>> = OnceLock::new();
        let variable = |name: &str| std::env::var(name).ok();
        SHARED.get_or_init(|| Otlp::from_variables(service, version, variable)).clone()
    }

    /// Creates an export with these variables.
    ///
    /// # Errors
    /// If a variable has a value that is not supported.
    pub fn from_variables(
        service: &str,
        version: &str,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Otlp>, OtlpError> {
        let settings = OtlpSettings::read((service, version), variable)?;
        Ok(settings.map(|settings| {
            let queue = Arc::new(SpanQueue::new(settings.batch.queue, settings.batch.batch));
            let (metrics, worker) = (Mutex::default(), Mutex::default());
            let stop = watch::Sender::new(false);
            Otlp(Arc::new(OtlpExport { settings, queue, metrics, stop, worker }))
        }))
    }

    /// Returns the observer that records traces, unless only metrics are exported.
    #[must_use]
    pub fn traces(&self) -> Option<Traces> {
        let OtlpExport { settings, queue, .. } = &*self.0;
        settings.traces.as_ref().map(|_| Traces::new(settings.sampler, queue.clone()))
    }

    /// Returns the observer whose metrics are exported, unless only traces are.
    #[must_use]
    pub fn metrics(&self) -> Option<Metrics> {
        self.0.settings.metrics.as_ref()?;
        let mut metrics = self.0.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        Some(metrics.get_or_insert_with(Metrics::new).clone())
    }

    /// Exports these metrics, which another part of the program renders, too.
    #[must_use]
    pub fn with_metrics(self, metrics: Metrics) -> Self {
        *self.0.metrics.lock().unwrap_or_else(PoisonError::into_inner) = Some(metrics);
        self
    }

    /// Starts the export on the current tokio runtime; once only.
    pub fn start(&self) {
        let mut worker = self.0.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_none() {
            let stop = self.0.stop.subscribe();
            let (settings, queue) = (self.0.settings.clone(), self.0.queue.clone());
            *worker = Some(tokio::spawn(Worker::new(settings, queue, self.metrics(), stop).run()));
        }
    }

    /// Exports what is left, for at most three seconds, and ends the export.
    pub async fn shutdown(&self) {
        let worker = self.0.worker.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut worker) = worker else { return };
        self.0.stop.send_replace(true);
        if timeout(FLUSH_TIMEOUT, &mut worker).await.is_err() {
            worker.abort();
            let left = std::iter::from_fn(|| Some(self.0.queue.take()).filter(|it| !it.is_empty()));
            count_dropped(left.map(|it| it.len()).sum(), "the process ended before their export");
        }
    }
}

impl fmt::Debug for Otlp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Headers have secrets.
        let url = |it: &settings::OtlpReceiver| it.url.to_string();
        f.debug_struct("Otlp")
            .field("traces", &self.0.settings.traces.as_ref().map(url))
            .field("metrics", &self.0.settings.metrics.as_ref().map(url))
            .finish_non_exhaustive()
    }
}
