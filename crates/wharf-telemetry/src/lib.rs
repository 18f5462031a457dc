//! Telemetry of Wharf: [`Metrics`], an observer that counts calls and events and renders them for Prometheus.
//!
//! Names, attributes and bucket boundaries are those of the OpenTelemetry conventions for MCP; names of our own begin
//! with `wharf_`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod metrics;

pub use crate::metrics::{
    Metrics, MetricsFormat,
    families::{METRIC_FAMILIES, MetricKind},
};
