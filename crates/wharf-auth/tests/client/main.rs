//! The OAuth client against fake servers: discovery, login, renewal and attacks.
#![allow(unreachable_pub, reason = "nothing outside a test reaches into it")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod challenges;
mod hostile;
mod issuers;
mod people;
mod programs;
mod proofs;
mod resources;
mod stage;
mod staying;
