//! `wharf auth`, and the authorization of every other command.

mod args;
mod interactive;
mod login;
mod logout;
mod relative_time;
mod secret;
mod select;
mod status;

use serde_json::{Value, json};
use wharf::{
    auth::{
        client::{FileTokenStore, Keychain, Login, server_key},
        fetch::Fetch,
    },
    client::Target,
};

pub(crate) use crate::auth::select::{auth_for, has_stored_login};
pub(crate) use args::{Auth, AuthCommand};

use crate::{commands::Run, error::CliError};
use crate::{context::Context, target_argument, trust};

/// Environment variable that selects the token store: `file` does not use a keychain.
const TOKEN_STORE_VARIABLE: &str = "WHARF_TOKEN_STORE";

impl Run for Auth {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        match &self.what {
            AuthCommand::Login(login) => login.run(context).await,
            AuthCommand::Status(status) => status.run(context).await,
            AuthCommand::Logout(logout) => logout.run(context).await,
        }
    }
}

/// Token store.
fn token_store() -> Result<FileTokenStore, CliError> {
    let path = FileTokenStore::usual("wharf").ok_or_else(|| {
        CliError::usage("Cannot store logins: the home directory is unknown")
            .hint("Set HOME.".to_owned())
    })?;
    let token_store = FileTokenStore::at(path);
    match std::env::var(TOKEN_STORE_VARIABLE).as_deref() {
        Ok("file") => Ok(token_store),
        Ok("" | "keychain") | Err(_) => Ok(match Keychain::of_system() {
            Some(keychain) => token_store.keychain(keychain),
            None => token_store,
        }),
        Ok(_) => {
            Err(CliError::usage(format!("{TOKEN_STORE_VARIABLE} is neither `file` nor `keychain`")))
        }
    }
}

/// HTTP client for authorization servers. It connects to private networks if that was allowed, now
/// or at a login.
fn fetch(context: &Context, allowed: bool, logins: &[Login]) -> Result<Fetch, CliError> {
    let fetch = match allowed || logins.iter().any(|login| login.allow_private) {
        true => Fetch::new().allow_private(),
        false => Fetch::new(),
    };
    context.shared.connection.apply_to_fetch(fetch)
}

fn wants_keychain() -> bool {
    std::env::var_os(TOKEN_STORE_VARIABLE).is_none_or(|it| it != "file")
}

/// Location of the token store, as JSON.
fn store_location(token_store: &FileTokenStore) -> Value {
    json!({"file": token_store.path(), "encrypted": token_store.is_encrypted()})
}

/// URL of the server that `word` names, if it supports a login.
fn url_of(word: &str) -> Result<String, CliError> {
    let resolved = match target_argument::find(word)? {
        Target::Entry(entry) => {
            let resolved = trust::known(*entry)?.resolve();
            resolved.map_err(|error| CliError::usage(error.to_string()))?.0
        }
        target => target,
    };
    match resolved {
        Target::Url(url) => server_key(&url)
            .map(|_| url)
            .map_err(|error| CliError::usage(error.message.into_owned())),
        other => Err(CliError::usage(format!("`{other}` is not a server that supports a login"))
            .hint("Only servers at http, https, ws and wss URLs do.".to_owned())),
    }
}

/// The same URL, in the form of a login's key.
fn server_of(word: &str) -> Result<String, CliError> {
    server_key(&url_of(word)?).map_err(|error| CliError::usage(error.message.into_owned()))
}
