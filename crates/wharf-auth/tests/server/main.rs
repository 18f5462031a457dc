//! Who may call: every token that is good, and why each of the others is not.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod dpop;
mod functions;
mod introspection;
mod jwt;
mod keys;
mod metadata;
