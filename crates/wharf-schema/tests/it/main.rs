//! Tests of the validator through its public API, in one binary.
#![allow(clippy::unwrap_used, reason = "tests fail by panicking")]

mod differential;
mod formats;
mod official;
mod properties;
mod schema;
mod step_budget;
