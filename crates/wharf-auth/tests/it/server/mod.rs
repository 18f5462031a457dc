//! Token verification of servers: valid tokens, and the reason of each rejection.

mod dpop;
mod functions;
mod introspection;
mod jwt;
mod keys;
mod metadata;
