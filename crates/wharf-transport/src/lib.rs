//! Byte movers: they carry messages between a client and a [`Host`], and know nothing of either.
//!
//! Most transports here speak the same framing, one JSON-RPC message a line, and are driven by the
//! same code ([`serve_lines`]): a call is polled in place, where its line was read, and only a
//! call that has to wait becomes a task. What differs is where the bytes come from: the process's
//! own stdin and stdout ([`stdio`]), a socket ([`tcp`], [`unix`]) or memory ([`memory`]). HTTP
//! (the feature and module `http`) is one request a message. The other direction, from a client to
//! a server, is the feature and module `client`.
#![forbid(unsafe_code)]

mod asks;
mod batch;
mod call;
mod flight;
mod host;
mod incoming;
mod lines;
mod outgoing;
mod output;
mod parent;
mod places;
mod replies;
mod room;
mod seats;
mod shortage;
mod shutdown;
mod sockets;
mod timer;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "http")]
pub mod http;
pub mod memory;
pub mod signals;
pub mod stdio;
pub mod tcp;
#[cfg(unix)]
pub mod unix;

pub use host::{Host, LineLimits};
pub use lines::serve_lines;
pub use replies::{Replies, Said};
pub use shutdown::Shutdown;
pub use timer::{ThreadTimer, TokioTimer};
