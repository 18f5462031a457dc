//! How to get in.

pub mod browser;
mod keep;
mod login;
mod server;
mod vault;
mod visit;

pub use self::{
    keep::{FileVault, Keychain},
    login::{Login, LoginKey, Registration, Tokens},
    server::server_key,
    vault::{Held, MemoryVault, Vault},
    visit::{Callback, Destination, Visit, Visitor},
};
