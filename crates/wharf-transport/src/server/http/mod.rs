//! Streamable HTTP server: one endpoint for clients of every revision.
//!
//! [`HttpService`] handles `http::Request`s without sockets, so it can be mounted wherever a tower service
//! fits. [`serve`] is an accept loop for it, with the timeouts that a server on the open network needs.
//!
//! Requests of modern revisions end with their response (`stateless`). Sessions and resumable streams of legacy
//! clients are in `session`, which can be removed with them.

pub(crate) mod admin;
pub(crate) mod auth;
pub(crate) mod cluster;
pub(crate) mod connection;
pub(crate) mod cors;
pub(crate) mod documents;
pub(crate) mod forwarded;
pub(crate) mod health;
pub(crate) mod host_origin;
pub(crate) mod legacy_sse;
pub(crate) mod limits;
pub(crate) mod options;
pub(crate) mod request_body;
pub(crate) mod request_checks;
pub(crate) mod request_headers;
pub(crate) mod response;
pub(crate) mod response_body;
pub(crate) mod response_form;
pub(crate) mod service;
pub(crate) mod session;
pub(crate) mod stateless;
pub(crate) mod stateless_stream;
#[cfg(feature = "websocket")]
pub(crate) mod websocket;

pub(crate) use crate::server::http::connection::http1::Http1State;
pub(crate) use crate::server::http::connection::http2::Http2StreamsObserver;

pub use crate::server::http::admin::{MetricsPage, serve_admin};
pub use crate::server::http::connection::serve;
#[cfg(feature = "tls")]
pub use crate::server::http::connection::tls::Tls;
pub use crate::server::http::documents::PublicDocument;
pub use crate::server::http::forwarded::{InvalidNetwork, Network};
pub use crate::server::http::limits::HttpLimits;
pub use crate::server::http::options::{Http, Streaming};
pub use crate::server::http::response_body::HttpBody;
pub use crate::server::http::service::HttpService;
