//! Tests of the transports through their public API, in one binary.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests fail by panicking")]

#[cfg(all(feature = "client", feature = "http"))]
mod client_http;
#[cfg(feature = "client")]
mod client_lines;
#[cfg(all(feature = "http", unix))]
mod descriptor_shortage;
#[cfg(feature = "http")]
mod http_cluster;
#[cfg(feature = "http")]
mod http_session;
#[cfg(feature = "http")]
mod http_targets;
#[cfg(feature = "http")]
mod http_timeouts;
#[cfg(feature = "http")]
mod http_websocket_sse;
mod jsonl_limits;
mod listeners;
#[cfg(unix)]
mod signals;
#[cfg(all(feature = "client", unix))]
mod stdio_shutdown;
