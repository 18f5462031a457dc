//! Connections of the HTTP endpoint that carry JSON lines: WebSocket, and legacy HTTP+SSE of
//! 2024-11-05. Time is paused, and clients are in-process unless noted otherwise.

mod legacy_sse;
mod support;
#[cfg(feature = "websocket")]
mod websocket;
