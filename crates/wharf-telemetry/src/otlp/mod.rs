//! Export of traces and metrics over OTLP (HTTP, as JSON or Protocol Buffers).
//!
//! It is written here, and not taken from the crates of OpenTelemetry, because that costs users least. Measured in 2026-11
//! with `cargo tree -e normal` over a server with HTTP, metrics and TLS (118 crates): this feature adds 9, those of
//! `wharf-connect`, which every client of Wharf has; `opentelemetry_sdk` and `opentelemetry-otlp` 0.33 (`http-proto` with
//! `reqwest` and rustls) add 44, among them a second HTTP client and a second cryptography library, written in C.
//! Two programs that export one span and one histogram over plain HTTP, built in the default release profile without LTO and
//! stripped, on tokio 1.54: with this writer 2.36 MB, 87 crates and at most 79 s of CPU time to build, with those crates
//! (`http-proto`, `reqwest-blocking-client`, no TLS) 3.07 MB, 96 crates and 83 s. Size speaks for the writer, build time for
//! neither: most of its 87 crates are those of Wharf, which a server has anyway.
//! Connections go through `wharf-connect` like all others of the process, so that proxies, certificates and timeouts are
//! the same. The wire format is stable since OTLP 1.0, and the part that is needed here are three messages (`message.rs`
//! writes both of its forms from one description), while the Rust API of the SDK changed in every minor version. Programs
//! with an OpenTelemetry SDK use it: see the feature `otel`, whose only crate is the API.
//!
//! `worker.rs` has one task for each signal; `send.rs` sends and retries, `partial_success.rs` reads what was rejected.

mod message;
mod metrics;
mod partial_success;
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

use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, timeout_at},
};

pub use crate::otlp::settings::OtlpError;
use crate::{
    Metrics, Traces,
    otlp::{
        send::OtlpSender,
        settings::OtlpSettings,
        worker::{MetricExport, SpanExport},
    },
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
    /// Variables of OpenTelemetry that have no effect.
    ignored: Vec<String>,
    queue: Arc<SpanQueue>,
    metrics: Option<Metrics>,
    stop: watch::Sender<bool>,
    running: Lock<RunningExport>,
}

/// Tasks of an export that was started.
#[derive(Default)]
struct RunningExport {
    /// Number of starts without a shutdown: the servers of a process share one export.
    users: usize,
    tasks: Vec<JoinHandle<()>>,
}

impl Otlp {
    /// Reads the variables of the process. All callers share one export. `None` if nothing is exported.
    ///
    /// # Errors
    /// If a variable has a value that is not supported.
    pub fn from_env() -> Result<Option<Otlp>, OtlpError> {
        static SHARED: OnceLock<Result<Option<Otlp>, OtlpError>> = OnceLock::new();
        let read = || {
            let settings = OtlpSettings::read(|name| std::env::var(name).ok())?;
            let names = std::env::vars_os().filter_map(|it| it.0.into_string().ok());
            Ok(settings.map(|settings| Otlp::new(settings, settings::unsupported(names))))
        };
        SHARED.get_or_init(read).clone()
    }

    /// Creates an export with these variables.
    ///
    /// # Errors
    /// If a variable has a value that is not supported.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Otlp>, OtlpError> {
        let settings = OtlpSettings::read(variable)?;
        Ok(settings.map(|settings| Otlp::new(settings, Vec::new())))
    }

    fn new(settings: OtlpSettings, ignored: Vec<String>) -> Otlp {
        let queue = Arc::new(SpanQueue::new(settings.batch.queue, settings.batch.batch));
        let metrics = settings.metrics.as_ref().map(|_| Metrics::new());
        let (stop, running) = (watch::Sender::new(false), Lock::default());
        Otlp(Arc::new(OtlpExport { settings, ignored, queue, metrics, stop, running }))
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

    /// Starts the export on the current tokio runtime, unless it runs already. The resource has the service and version of
    /// the first start, unless the variables have others. Calls before the start are not recorded.
    pub fn start(&self, service: &str, version: &str) {
        let OtlpExport { settings, queue, stop, running, .. } = &*self.0;
        let mut running = running.lock();
        running.users += 1;
        if running.users > 1 {
            return;
        }
        self.log_settings();
        let mut settings = settings.clone();
        settings.describe(service, version);
        stop.send_replace(false);
        if let Some(receiver) = settings.traces.clone().map(OtlpSender::new) {
            queue.open();
            let export = SpanExport::new(settings.clone(), queue.clone(), receiver);
            running.tasks.push(tokio::spawn(export.run(stop.subscribe())));
        }
        if let Some((receiver, metrics)) = settings.metrics.clone().zip(self.metrics()) {
            let export = MetricExport::new(settings, metrics, OtlpSender::new(receiver));
            running.tasks.push(tokio::spawn(export.run(stop.subscribe())));
        }
    }

    /// Logs variables without effect, and a sampler that callers can overrule.
    fn log_settings(&self) {
        let OtlpExport { settings, ignored, .. } = &*self.0;
        if !ignored.is_empty() {
            let (variables, supported) = (ignored.join(", "), settings::supported());
            tracing::warn!(variables, supported, "ignoring variables of OpenTelemetry");
        }
        if settings.traces.is_some() && settings.sampler.lets_callers_exceed_the_ratio() {
            tracing::warn!(
                "callers decide whether their traces are recorded, whatever the ratio: unless all of them are trusted, \
                 set OTEL_TRACES_SAMPLER=traceidratio"
            );
        }
    }

    /// Exports what is left, for at most three seconds, and ends the export. After several starts the last shutdown does
    /// that. Calls that end later are counted as dropped.
    pub async fn shutdown(&self) {
        let tasks = {
            let mut running = self.0.running.lock();
            running.users = running.users.saturating_sub(1);
            if running.users > 0 {
                return;
            }
            std::mem::take(&mut running.tasks)
        };
        self.0.queue.close();
        self.0.stop.send_replace(true);
        // One second more than the limit of the last export, so that the tasks end before they would be aborted.
        let deadline = Instant::now() + FLUSH_TIMEOUT + Duration::from_secs(1);
        for mut task in tasks {
            if timeout_at(deadline, &mut task).await.is_err() {
                task.abort();
                let _ = task.await;
            }
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
