//! Authorization, both sides: who may call a server, and how a client gets in.

pub mod fetch;
pub mod jose;

#[cfg(feature = "client")]
pub mod client;
#[cfg(feature = "proxy")]
pub mod proxy;
#[cfg(feature = "server")]
pub mod server;

#[cfg(feature = "server")]
pub use server::{Introspection, Jwt, StaticToken};
