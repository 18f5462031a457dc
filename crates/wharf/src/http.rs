//! HTTP endpoint of a server: its options, its limits, and the tower service.

#[cfg(feature = "tls")]
pub use wharf_transport::server::http::Tls;
pub use wharf_transport::server::http::{
    Http, HttpBody, HttpLimits, HttpService, InvalidNetwork, Network, PublicDocument, Streaming,
};
