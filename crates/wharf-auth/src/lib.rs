//! OAuth 2.1 authorization for servers (token verification) and for clients (obtaining tokens).
#![forbid(unsafe_code)]
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod fetch;
#[cfg(any(feature = "client", feature = "proxy"))]
mod html_page;
pub mod jose;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "server")]
pub use server::{Introspection, Jwt, StaticToken};
