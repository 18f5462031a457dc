//! Telemetry of Wharf: [`Metrics`], an observer that counts calls and events and renders them for Prometheus; `Logs`, the
//! log of a process on stderr; with the feature `otlp`, `Traces`, an observer that records spans, and `Otlp`, which exports
//! both; with the feature `otel`, `OpenTelemetrySpans`, an observer that makes spans with the SDK of the application.
//!
//! Names, attributes and bucket boundaries are those of the OpenTelemetry conventions for MCP; names of our own begin
//! with `wharf_`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "logs")]
mod logs;
mod metrics;
#[cfg(feature = "otel")]
mod otel;
#[cfg(feature = "otlp")]
mod otlp;
#[cfg(any(feature = "otel", feature = "otlp"))]
mod span;
#[cfg(feature = "otlp")]
mod traces;

#[cfg(feature = "logs")]
pub use crate::logs::{LogConfigError, LogFormat, Logs};
pub use crate::metrics::{
    Metrics, MetricsOptions,
    families::{METRIC_FAMILIES, MetricKind},
    format::MetricsFormat,
};
#[cfg(feature = "otel")]
pub use crate::otel::OpenTelemetrySpans;
#[cfg(feature = "otlp")]
pub(crate) use crate::traces::queue::dropped_spans;
#[cfg(feature = "otlp")]
pub use crate::{
    otlp::{Otlp, OtlpError},
    traces::Traces,
};

/// Nothing drops spans without the feature.
#[cfg(not(feature = "otlp"))]
pub(crate) fn dropped_spans() -> u64 {
    0
}
