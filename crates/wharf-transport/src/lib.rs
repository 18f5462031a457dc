//! Transports: carry messages between clients and a [`ServerContext`], without interpreting them.
//!
//! Most transports here use the same framing, one JSON-RPC message per line, and the same driver
//! ([`serve_lines`]). A call is polled in place, where its line was read, and only a call that has
//! to wait becomes a task. The transports differ in their byte streams: the process's stdin and
//! stdout ([`server::stdio`]), a socket ([`server::tcp`], [`server::unix`]) or memory
//! ([`server::in_memory`]). HTTP (the feature and
//! module `http`) carries one message per request. The client side is the feature and module
//! `client`.
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(feature = "fuzzing", feature = "server", feature = "websocket"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "server")]
pub mod server;
mod shutdown_signal;
#[cfg(feature = "http")]
pub(crate) mod task_set;
mod timer;

#[cfg(feature = "client")]
pub mod client;

#[cfg(feature = "server")]
pub use crate::server::{
    context::ServerContext,
    jsonl::{limits::LineLimits, serve_lines},
    single_message::{MessageReplies, ReplyMessage},
};
pub use shutdown_signal::Shutdown;
pub use timer::{ThreadTimer, TokioTimer};
