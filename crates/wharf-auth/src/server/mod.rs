//! Who may call: authorities for a server, each of which is one line at the server.
//!
//! [`Jwt`] checks tokens by their issuer's keys, [`Introspection`] asks the issuer about each, [`StaticToken`] knows a
//! few by heart, and [`by`] and [`from_async_fn`] leave it to a function. All of them publish the server's metadata
//! (RFC 9728) and answer with complete challenges.

mod authenticate;
mod builder_macros;
mod cache;
mod challenge;
mod credentials;
mod dpop;
mod fair_slots;
mod from_fn;
mod introspection;
mod issuer_requests;
mod jwt;
mod keys;
mod resource_metadata;
mod static_token;
mod verified_token;

#[cfg(feature = "proxy")]
pub(crate) use self::{
    challenge::Challenge,
    credentials::{Presented, Scheme, presented},
};
pub use self::{
    dpop::Dpop,
    introspection::Introspection,
    jwt::{Issued, Jwt},
};
pub use crate::server::{
    from_fn::{FnAuthenticator, RequestHead, by, from_async_fn},
    issuer_requests::Download,
    static_token::StaticToken,
};
