//! Outgoing connections: the MCP client over HTTP and WebSocket, the requests of OAuth and the Redis store
//! all connect here.
//!
//! [`HostConnector`] resolves a name, checks the addresses ([`AddressPolicy`], SSRF protection), connects to
//! the first that responds (happy eyeballs), goes through an HTTP proxy if there is one
//! ([`ProxySettings`]), and encrypts with TLS. All of it has one deadline.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use wharf_connect::{AddressPolicy, HostConnector, Origin};
//!
//! let connector = HostConnector::new().addresses(AddressPolicy::PUBLIC);
//! let origin = Origin::parse("http://mcp.example:8000/mcp")?;
//! let stream = connector.connect(&origin).await?;
//! # let _ = stream;
//! # Ok(())
//! # }
//! ```
#![cfg_attr(docsrs, feature(doc_cfg))]

mod address_class;
mod address_policy;
mod connector;
mod error;
mod happy_eyeballs;
mod origin;
mod proxy;
mod resolve;
#[cfg(feature = "retry-after")]
mod retry_after;
mod single_flight;
mod stream;
#[cfg(feature = "tls")]
mod tls;

pub use self::{
    address_class::{AddressClass, address_class},
    address_policy::AddressPolicy,
    connector::HostConnector,
    error::{ConnectionError, ConnectionErrorKind, TlsProblem},
    origin::Origin,
    proxy::ProxySettings,
    resolve::Resolve,
    single_flight::SingleFlight,
    stream::HostStream,
};
#[cfg(feature = "retry-after")]
pub use retry_after::parse_retry_after;
#[cfg(feature = "tls")]
pub use tls::TlsIdentity;
pub use url::Url;
