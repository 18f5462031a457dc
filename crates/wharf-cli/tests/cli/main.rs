//! The command line, as people and programs use it.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]
