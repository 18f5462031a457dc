//! Legacy sessions over HTTP, with a test service and without sockets.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod answer;
#[allow(dead_code, reason = "some of it is for several servers")]
mod bed;
mod calls;
mod doors;
mod life;
mod limits;
#[path = "../http_fleet/ports.rs"]
#[allow(dead_code, reason = "for several servers, of which there is one here")]
mod ports;
mod resume;

/// Number of servers that share the sessions.
const NODES: usize = 1;
