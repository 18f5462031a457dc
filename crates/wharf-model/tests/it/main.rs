//! Tests of the model through its public API, in one binary.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod exchange;
mod observe;
mod stores;
