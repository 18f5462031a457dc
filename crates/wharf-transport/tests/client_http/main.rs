//! Links over HTTP: to our own server in every revision, and to servers that behave as no server
//! should.
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
