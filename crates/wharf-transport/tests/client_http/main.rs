//! HTTP client transport: with our own server in every revision, and with servers that violate the
//! specification.
#![cfg(all(feature = "client", feature = "http"))]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod credentials;
mod errors;
mod events2024;
mod listens;
mod modern;
mod openings;
mod ours;
mod redirects;
mod resume;
mod script;
mod sessions;
#[cfg(feature = "tls")]
mod tls;
mod toy;
