//! Tests of authorization through its public API, in one binary.
#![allow(
    unreachable_pub,
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

#[cfg(feature = "client")]
mod client;
mod fetch;
mod jose;
#[cfg(feature = "proxy")]
mod proxy;
#[cfg(feature = "server")]
mod server;
