//! Token verification of servers: valid tokens, and the reason of each rejection.
#![allow(clippy::expect_used, clippy::unwrap_used, reason = "a test fails by panicking")]

mod dpop;
mod functions;
mod introspection;
mod jwt;
mod keys;
mod metadata;
mod test_server;
