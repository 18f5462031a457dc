//! Tests of the crate through its public API: decoding, encoding and round trips.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod asks;
mod attack;
mod batches;
mod client;
mod common;
mod eras;
mod errors;
mod headers;
mod http;
mod malformed;
mod openings;
mod properties;
mod results;
mod saved;
mod schema;
mod session;
mod tasks;
