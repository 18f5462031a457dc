//! Legacy sessions over HTTP, with a test service and without sockets.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod access;
mod calls;
mod lifetime;
mod limits;
#[path = "../http_cluster/ports.rs"]
#[allow(dead_code, reason = "for several servers; this test has one")]
mod ports;
mod response;
mod resume;
#[allow(dead_code, reason = "part of it is used by several servers")]
mod support;

/// Number of servers that share the sessions.
const NODES: usize = 1;
