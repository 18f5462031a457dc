//! Authorization with everybody else: `oidc` is our server and our client with a certified authorization server,
//! `authorized` the clients and servers of others with it, `fastmcp` our client with FastMCP's own authorization server.
//! `cargo xtask foreign` installs them all.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod authorized;
mod fastmcp;
mod oidc;
mod support;
