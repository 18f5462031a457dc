//! Framing: messages in a stream of bytes, as lines or as server-sent events.

pub(crate) mod lines;
pub mod sse;
