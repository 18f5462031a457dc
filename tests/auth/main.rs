//! Interoperability of the authorization: `oidc` tests Wharf's server and client with a certified authorization server,
//! `authorized` the clients and servers of other SDKs with it, `fastmcp` the client with FastMCP's authorization server.
//! `cargo xtask foreign` installs them all.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod authorized;
mod fastmcp;
mod oidc;
mod support;
