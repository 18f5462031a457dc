//! Tests of metrics through the public API, in one binary.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod deploy;
mod metrics;
#[cfg(feature = "otel")]
mod otel;
#[cfg(feature = "otlp")]
mod otlp_export;
#[cfg(feature = "otlp")]
mod traces;
