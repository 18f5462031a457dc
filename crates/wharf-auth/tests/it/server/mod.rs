//! Token verification of servers: valid tokens, and the reason of each rejection.

mod dpop;
mod introspection;
mod jwks;
mod jwt;
mod resource_metadata;
mod static_tokens_and_functions;
