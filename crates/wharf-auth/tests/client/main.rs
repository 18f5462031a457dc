//! The OAuth client against fake servers: discovery, login, renewal and attacks.
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod authorization_code;
mod challenges;
mod dpop;
mod fake_servers;
mod grants_without_user;
mod hostile;
mod issuers;
mod renewal_and_logout;
mod resources;
mod stored_metadata;
