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

pub(crate) use crate::auth::select::{is_known, way_to};
pub(crate) use args::{Auth, AuthVerb};

use crate::{commands::Run, error::Fail};
use crate::{context::Context, target, trust};

/// Environment variable that selects the token store: `file` does not use a keychain.
const VAULT: &str = "WHARF_VAULT";

impl Run for Auth {
    async fn run(&self, context: &Context) -> Result<(), Fail> {
        match &self.what {
            AuthVerb::Login(login) => login.run(context).await,
            AuthVerb::Status(status) => status.run(context).await,
            AuthVerb::Logout(logout) => logout.run(context).await,
        }
    }
}

/// Token store.
fn vault() -> Result<FileTokenStore, Fail> {
    let path = FileTokenStore::usual("wharf").ok_or_else(|| {
        Fail::usage("Nobody says where you are at home").hint("Set HOME.".to_owned())
    })?;
    let vault = FileTokenStore::at(path);
    match std::env::var(VAULT).as_deref() {
        Ok("file") => Ok(vault),
        Ok("" | "keychain") | Err(_) => Ok(match Keychain::of_system() {
            Some(keychain) => vault.keychain(keychain),
            None => vault,
        }),
        Ok(_) => Err(Fail::usage(format!("{VAULT} is neither `file` nor `keychain`"))),
    }
}

/// HTTP client for authorization servers. It connects to private networks if that was allowed, now
/// or at a login.
fn fetch(allowed: bool, logins: &[Login]) -> Fetch {
    match allowed || logins.iter().any(|login| login.allow_private) {
        true => Fetch::new().allow_private(),
        false => Fetch::new(),
    }
}

fn wants_keychain() -> bool {
    std::env::var_os(VAULT).is_none_or(|it| it != "file")
}

/// Location of the token store, as JSON.
fn kept_at(vault: &FileTokenStore) -> Value {
    json!({"file": vault.path(), "sealed": vault.is_sealed()})
}

/// URL of the server that `word` names, if it supports a login.
fn url_of(word: &str) -> Result<String, Fail> {
    let resolved = match target::find(word)? {
        Target::Entry(entry) => {
            let resolved = trust::known(*entry)?.resolve();
            resolved.map_err(|error| Fail::usage(error.to_string()))?.0
        }
        target => target,
    };
    match resolved {
        Target::Url(url) => {
            server_key(&url).map(|_| url).map_err(|error| Fail::usage(error.message.into_owned()))
        }
        other => Err(Fail::usage(format!("`{other}` is no server that one logs in at"))
            .hint("Those at http, https, ws and wss URLs are.".to_owned())),
    }
}

/// The same URL, in the form of a login's key.
fn server_of(word: &str) -> Result<String, Fail> {
    server_key(&url_of(word)?).map_err(|error| Fail::usage(error.message.into_owned()))
}
