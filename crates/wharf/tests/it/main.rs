//! Tests of the facade through its public API, in one binary. `behaviour` and `client` have harnesses of their own.
#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

#[cfg(all(feature = "auth", feature = "tls", feature = "websocket"))]
mod advisories;
#[cfg(all(feature = "apps", feature = "client", feature = "http"))]
mod apps;
#[cfg(all(feature = "axum", feature = "oauth-proxy"))]
mod axum_nested;
#[cfg(all(feature = "auth", feature = "client", feature = "http", feature = "websocket"))]
mod client_auth;
#[cfg(all(feature = "client", feature = "http"))]
mod client_errors;
#[cfg(all(feature = "axum", feature = "client"))]
mod client_response_retry;
#[cfg(feature = "client")]
mod client_targets;
#[cfg(all(feature = "client", feature = "http", feature = "websocket"))]
mod client_tasks;
#[cfg(feature = "http")]
mod cluster;
mod custom_methods;
#[cfg(all(feature = "client", feature = "http", feature = "websocket"))]
mod custom_notifications;
#[cfg(all(feature = "http", feature = "redis", feature = "sqlite"))]
mod encrypted_store;
#[cfg(feature = "gateway")]
mod gateway;
mod golden;
mod golden_server;
mod handler_errors;
#[cfg(all(feature = "client", feature = "http", feature = "websocket"))]
mod hostile;
#[cfg(feature = "http")]
mod http;
#[cfg(feature = "client")]
mod in_process;
#[cfg(feature = "http")]
mod late_get_stream;
mod macros;
mod masked_errors;
mod method_availability;
#[cfg(all(feature = "client", feature = "metrics"))]
mod metrics;
#[cfg(all(feature = "client", feature = "oauth-proxy"))]
mod oauth_proxy;
#[cfg(feature = "client")]
mod observed_calls;
#[cfg(all(feature = "client", feature = "metrics"))]
mod observed_events;
#[cfg(all(feature = "client", feature = "otlp"))]
mod otlp;
#[cfg(feature = "logs")]
mod run_log;
#[cfg(all(feature = "auth", feature = "axum", feature = "server-card"))]
mod server_card;
mod single_message;
#[cfg(all(feature = "client", feature = "skills"))]
mod skills;
#[cfg(all(feature = "client", feature = "http", feature = "skills", feature = "websocket"))]
mod skills_client;
#[cfg(all(feature = "client", feature = "metrics"))]
mod upstream_program;
