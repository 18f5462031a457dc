//! Telemetry of Wharf: [`Metrics`], an observer that counts calls and events and renders them for Prometheus, and `Logs`,
//! the log of a process on stderr.
//!
//! Names, attributes and bucket boundaries are those of the OpenTelemetry conventions for MCP; names of our own begin
//! with `wharf_`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "logs")]
mod logs;
mod metrics;

#[cfg(feature = "logs")]
pub use crate::logs::{LogConfigError, LogFormat, Logs};
pub use crate::metrics::{
    Metrics, MetricsOptions,
    families::{METRIC_FAMILIES, MetricKind},
    format::MetricsFormat,
};
