//! One HTTP endpoint for clients of every revision.
//!
//! [`HttpService`] answers `http::Request`s and knows no sockets: mount it wherever a tower service
//! fits. [`serve`] is our own accept loop for it, with the deadlines that a server on the open
//! network needs.
//!
//! The modern era ends with its response (`endpoint`). What legacy clients need besides, sessions
//! and streams that can be resumed, is in `session` and can be deleted with it.

mod accept;
mod body;
mod cors;
mod door;
mod endpoint;
mod fleet;
mod guard;
mod heads;
mod health;
mod ids;
mod io;
mod options;
mod proxies;
mod read;
mod respond;
mod service;
mod session;
mod sse2024;
mod stream;
mod streams;
pub(crate) mod tasks;
#[cfg(feature = "tls")]
mod tls;
mod turn;
#[cfg(feature = "websocket")]
mod websocket;

pub(crate) use streams::StreamsSeen;
pub(crate) use turn::Turns;

pub use accept::serve;
pub use body::HttpBody;
pub use options::{Http, HttpLimits, Streaming};
pub use proxies::{InvalidNetwork, Network};
pub use service::HttpService;
#[cfg(feature = "tls")]
pub use tls::Tls;
