//! Who may call: authorities for a server, each of which is one line at the server.
//!
//! [`Jwt`] checks tokens by their issuer's keys, [`Introspection`] asks the issuer about each, [`StaticToken`] knows a
//! few by heart, and [`by`] and [`by_async`] leave it to a function. All of them publish the server's metadata
//! (RFC 9728) and answer with complete challenges.

mod cache;
mod challenge;
mod common;
mod credentials;
mod download;
mod dpop;
mod fixed;
mod front;
mod function;
mod gate;
mod grant;
mod introspection;
mod jwt;
mod keys;
mod places;

#[cfg(feature = "proxy")]
pub(crate) use self::{
    challenge::Challenge,
    credentials::{Presented, Scheme, presented},
};
pub use self::{
    download::Download,
    dpop::Dpop,
    fixed::StaticToken,
    function::{By, Head, by, by_async},
    introspection::Introspection,
    jwt::{Issued, Jwt},
};
