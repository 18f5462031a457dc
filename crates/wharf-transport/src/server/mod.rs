//! Server transports: stdio, TCP, Unix sockets, in memory and HTTP.

pub(crate) mod admission;
pub(crate) mod call_driver;
pub(crate) mod context;
#[cfg(feature = "http")]
pub mod http;
pub mod in_memory;
pub(crate) mod jsonl;
pub(crate) mod limits;
pub(crate) mod listener;
pub(crate) mod observed;
pub(crate) mod parent_exit;
pub mod signals;
pub(crate) mod single_message;
pub mod stdio;
pub mod tcp;
#[cfg(unix)]
pub mod unix;
