//! Message framing in byte streams: lines and server-sent events (SSE).

pub(crate) mod lines;
pub mod sse;
