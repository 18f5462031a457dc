//! Tests of the model through its public API, in one binary.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod active_call;
mod observe;
mod stores;
