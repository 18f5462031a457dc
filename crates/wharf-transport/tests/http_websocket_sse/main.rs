//! Connections of the HTTP endpoint that carry JSON lines: WebSocket, and legacy HTTP+SSE of
//! 2024-11-05. Time is paused, and clients are in-process unless noted otherwise.
#![cfg(feature = "http")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod legacy_sse;
mod support;
#[cfg(feature = "websocket")]
mod websocket;
