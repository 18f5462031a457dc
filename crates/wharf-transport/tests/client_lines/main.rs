//! Links over streams of messages: against our own server in every revision, and against peers that
//! follow a script. Time is paused unless a test has another process to wait for.
#![cfg(feature = "client")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod caps;
mod child;
mod listen;
mod peer;
mod probe;
mod questions;
mod revisions;
mod sockets;
#[cfg(all(feature = "tls", feature = "websocket"))]
mod websocket;
