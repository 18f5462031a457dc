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
    sync::{Arc, OnceLock},
    time::Duration,
};
use wharf_model::Lock;

use tokio::{sync::watch, task::JoinHandle, time::timeout};

pub use crate::otlp::settings::OtlpError;
use crate::{
    Metrics, Traces,
    otlp::{settings::OtlpSettings, worker::Worker},
    traces::queue::SpanQueue,
};

/// Maximum time of the last export at the end of the process.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(3);

/// Export of traces and metrics over OTLP, configured by the variables of OpenTelemetry. Off unless
/// `OTEL_EXPORTER_OTLP_ENDPOINT` or that of a signal is set.
///
/// A server that runs starts and ends it, and servers and clients have its observers by themselves; only a program that
/// is no server needs this type. It never blocks a call: the queue is bounded, and spans beyond it are dropped and
/// counted (`wharf_spans_dropped_total`).
///
/// ```
/// # mod wharf { pub mod observe { pub use wharf_telemetry::*; } }
/// use wharf::observe::Otlp;
///
/// # async fn example() -> Result<(), wharf::observe::OtlpError> {
/// let otlp = Otlp::from_env()?;
/// if let Some(otlp) = &otlp {
///     otlp.start("harbour-client", "1.0.0");
/// }
/// // … the calls of the program …
/// if let Some(otlp) = &otlp {
///     otlp.shutdown().await;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Otlp(Arc<OtlpExport>);

struct OtlpExport {
    settings: OtlpSettings,
    queue: Arc<SpanQueue>,
    metrics: Option<Metrics>,
    stop: watch::Sender<bool>,
    worker: Lock<Option<JoinHandle<()>>>,
}

impl Otlp {
    /// Reads the variables of the process. All callers share one export. `None` if nothing is exported.
    ///
    /// # Errors
    /// If a variable has a value that is not supported.
    pub fn from_env() -> Result<Option<Otlp>, OtlpError> {
        static SHARED: OnceLock<Result<Option<Otlp>, OtlpError>> = OnceLock::new();
        SHARED.get_or_init(|| Otlp::from_variables(|name| std::env::var(name).ok())).clone()
    }

    /// Creates an export with these variables.
    ///
    /// # Errors
    /// If a variable has a value that is not supported.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Otlp>, OtlpError> {
        let settings = OtlpSettings::read(variable)?;
        Ok(settings.map(|settings| {
            let queue = Arc::new(SpanQueue::new(settings.batch.queue, settings.batch.batch));
            let metrics = settings.metrics.as_ref().map(|_| Metrics::new());
            let (stop, worker) = (watch::Sender::new(false), Lock::default());
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
        self.0.metrics.clone()
    }

    /// Starts the export on the current tokio runtime; once only. The resource has this service and version, unless the
    /// variables have others. Calls before the start are not recorded.
    pub fn start(&self, service: &str, version: &str) {
        let mut worker = self.0.worker.lock();
        if worker.is_none() {
            let (mut settings, queue) = (self.0.settings.clone(), self.0.queue.clone());
            settings.describe(service, version);
            queue.open();
            let stop = self.0.stop.subscribe();
            *worker = Some(tokio::spawn(Worker::new(settings, queue, self.metrics(), stop).run()));
        }
    }

    /// Exports what is left, for at most three seconds, and ends the export.
    pub async fn shutdown(&self) {
        let worker = self.0.worker.lock().take();
        let Some(mut worker) = worker else { return };
        self.0.stop.send_replace(true);
        if timeout(FLUSH_TIMEOUT, &mut worker).await.is_err() {
            worker.abort();
            let _ = worker.await;
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
