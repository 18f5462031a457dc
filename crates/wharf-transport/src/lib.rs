//! Byte movers: they carry messages between a client and a [`ServerContext`], and know nothing of either.
//!
//! Most transports here speak the same framing, one JSON-RPC message a line, and are driven by the
//! same code ([`serve_lines`]): a call is polled in place, where its line was read, and only a
//! call that has to wait becomes a task. What differs is where the bytes come from: the process's
//! own stdin and stdout ([`stdio`]), a socket ([`tcp`], [`unix`]) or memory ([`memory`]). HTTP
//! (the feature and module `http`) is one request a message. The other direction, from a client to
//! a server, is the feature and module `client`.
#![forbid(unsafe_code)]

pub mod server;
mod shutdown;
pub(crate) mod task_set;
mod timer;

#[cfg(feature = "client")]
pub mod client;

pub use crate::server::context::{LineLimits, ServerContext};
pub use crate::server::jsonl::serve_lines;
pub use crate::server::single_message::{MessageReplies, ReplyMessage};
pub use shutdown::Shutdown;
pub use timer::{ThreadTimer, TokioTimer};
