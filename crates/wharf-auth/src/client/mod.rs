//! How to get in: a client that is refused finds out who lets in, asks there, and comes back.
//!
//! [`Auth`] says how, [`Vault`] keeps what came of it, and [`Visit`] asks the person where somebody
//! has to be asked.

mod agent;
mod auth;
pub mod browser;
mod challenge;
mod choice;
mod code;
mod discovery;
mod endpoint;
mod flow;
mod grants;
mod keep;
mod login;
mod logout;
mod metadata;
mod proof;
mod register;
mod scope;
mod server;
mod vault;
mod visit;

use std::time::SystemTime;

use wharf_model::{Error, ErrorKind};

pub use self::{
    auth::Auth,
    challenge::Challenge,
    grants::{Assertion, Enterprise},
    keep::{FileVault, Keychain},
    login::{Login, LoginKey, Registration, Tokens},
    server::server_key,
    vault::{Held, MemoryVault, Vault},
    visit::{Callback, Destination, Visit, Visitor},
};

/// There is no way in, and why.
fn failed(why: String) -> Error {
    Error::new(ErrorKind::AuthorizationFailed).with_message(why)
}

/// Seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}
