//! How to get in.

mod login;
mod server;
mod vault;
mod visit;

pub use self::{
    login::{Login, LoginKey, Registration, Tokens},
    server::server_key,
    vault::{MemoryVault, Vault},
    visit::{Callback, Destination, Visit, Visitor},
};
