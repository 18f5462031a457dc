//! `everything-server` and `everything-client` without the official suite.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod client_and_server;
mod fixtures;
