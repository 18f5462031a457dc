//! Authenticators for servers.
//!
//! [`Jwt`] verifies tokens with the issuer's keys, [`Introspection`] asks the issuer about each token,
//! [`StaticToken`] compares with configured tokens, and [`from_fn`] and [`from_async_fn`] call a function.
//! All of them publish the protected resource metadata (RFC 9728) and send complete challenges.

mod authenticate;
mod builder_macros;
mod challenge;
mod claim_checks;
mod credentials;
mod dpop;
mod fair_slots;
mod from_fn;
mod introspection;
mod issuer_requests;
mod jwks;
mod jwt;
mod principal_from_claims;
mod resource_metadata;
mod static_token;
mod token_cache;
mod verified_token;

#[cfg(feature = "proxy")]
pub(crate) use self::{
    challenge::ChallengeBuilder,
    credentials::{AuthScheme, PresentedToken, presented_token},
};
pub use self::{
    dpop::Dpop,
    introspection::Introspection,
    jwt::{Jwt, JwtIssuer},
};
pub use crate::server::{
    from_fn::{FnAuthenticator, RequestHead, from_async_fn, from_fn},
    issuer_requests::Download,
    static_token::StaticToken,
};
