//! OAuth client: obtains, refreshes and stores the access tokens for MCP servers.
//!
//! [`Auth`] configures the grant, [`TokenStore`] stores the logins, and [`UserAgent`] opens the
//! authorization page where a user must consent.

mod auth_server_metadata;
mod authorization_code;
mod authorization_limit;
pub mod browser;
mod challenge;
mod client_credentials;
mod config;
mod dpop;
mod flow;
mod issuer_selection;
mod login;
mod logout;
mod redirect_params;
mod registration;
mod resource_metadata;
mod scope;
mod server_url;
mod token_endpoint;
mod token_manager;
mod token_response;
mod token_store;
mod user_agent;

use std::time::SystemTime;

use wharf_model::{Error, ErrorKind};

pub use self::{
    challenge::Challenge,
    login::{Login, LoginKey, Registration, Tokens},
};
pub use crate::client::{
    client_credentials::{Assertion, Enterprise},
    config::Auth,
    redirect_params::RedirectParams,
    server_url::server_key,
    token_store::{
        MemoryTokenStore, StoreLock, TokenStore,
        file::{FileTokenStore, Keychain},
    },
    user_agent::{AuthorizationRequest, UserAgent, UserAgentSession},
};

/// Error of a failed authorization.
fn failed(why: String) -> Error {
    Error::new(ErrorKind::AuthorizationFailed).with_message(why)
}

/// Current time, in seconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |it| it.as_secs())
}
