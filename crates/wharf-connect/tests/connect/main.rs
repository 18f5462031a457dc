//! Connections over real TCP and TLS on loopback, direct and through a real proxy.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod addresses;
mod proxy;
mod support;
mod tls;
