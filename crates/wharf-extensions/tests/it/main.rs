//! Tests of the extensions without a server.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

#[cfg(feature = "skills")]
mod skill_format;
