//! Tests of the command line and of foreign programs, in one binary.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "tests fail by panicking")]

mod cli;
mod demo;
mod foreign;
#[cfg(unix)]
mod foreign_publishing;
