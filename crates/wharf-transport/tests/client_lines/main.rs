//! Stream client transports: with our own server in every revision, and with scripted peers. Time
//! is paused unless a test waits for another process.
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
