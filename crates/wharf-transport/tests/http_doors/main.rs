//! The doors of the HTTP endpoint that lead to a connection of lines: WebSocket, and HTTP+SSE of
//! 2024-11-05. Time is paused, and clients are within the process unless a test says otherwise.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod bed;
mod sse2024;
#[cfg(feature = "websocket")]
mod websocket;
