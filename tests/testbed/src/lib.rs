//! Support code of the tests of several crates: clock, log, fake stores and authorization servers, Redis and foreign
//! programs.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::new_without_default,
    clippy::unwrap_used,
    reason = "support code of tests, which fail by panicking"
)]

pub mod cluster_stores;
#[cfg(feature = "auth")]
pub mod fake_idp;
#[cfg(feature = "auth")]
pub mod fake_issuer;
pub mod foreign_programs;
mod log;
pub mod redis_server;
mod timer;

pub use log::LogCatcher;
pub use timer::TokioTimer;
