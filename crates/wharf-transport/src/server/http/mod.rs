//! One HTTP endpoint for clients of every revision.
//!
//! [`HttpService`] answers `http::Request`s and knows no sockets: mount it wherever a tower service
//! fits. [`serve`] is our own accept loop for it, with the deadlines that a server on the open
//! network needs.
//!
//! The modern era ends with its response (`endpoint`). What legacy clients need besides, sessions
//! and streams that can be resumed, is in `session` and can be deleted with it.

pub(crate) mod auth;
pub(crate) mod call_stream;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod cors;
pub(crate) mod forwarded;
pub(crate) mod health;
pub(crate) mod host_origin;
pub(crate) mod legacy_sse;
pub(crate) mod options;
pub(crate) mod request_body;
pub(crate) mod request_headers;
pub(crate) mod response;
pub(crate) mod response_body;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod stateless;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;

pub(crate) use crate::server::http::connection::http1_state::Http1State;
pub(crate) use crate::server::http::connection::http2_streams::Http2StreamsObserver;

pub use crate::server::http::connection::serve;
#[cfg(feature = "tls")]
pub use crate::server::http::connection::tls::Tls;
pub use crate::server::http::forwarded::{InvalidNetwork, Network};
pub use crate::server::http::options::{Http, HttpLimits, Streaming};
pub use crate::server::http::response_body::HttpBody;
pub use crate::server::http::service::HttpService;
