//! Tests of the crate through its public API: decoding, encoding and round trips.
#![allow(clippy::unwrap_used, reason = "helpers of tests may panic too")]

mod batches;
mod client;
mod client_requests;
mod common;
mod eras;
mod errors;
mod headers;
mod hostile_clients;
mod http;
mod legacy_schema_fields;
mod malformed;
mod negotiation;
mod properties;
mod results;
mod saved_session;
mod session;
mod tasks;
