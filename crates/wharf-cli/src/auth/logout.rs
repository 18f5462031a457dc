//! `wharf auth logout`.

use serde_json::{Value, json};
use wharf::auth::client::{Auth, LoginKey, TokenStore};

use super::{args::Logout, fetch, server_of, status::logins, token_store};
use crate::auth::interactive::browser;
use crate::error::CliError;
use crate::{context::Context, terminal::clean_line};

impl Logout {
    pub(super) async fn run(&self, context: &Context) -> Result<(), CliError> {
        let token_store = token_store()?;
        let server = self.target.as_deref().map(server_of).transpose()?;
        let mut keys = token_store.list().await?;
        keys.retain(|key| server.as_ref().is_none_or(|server| key.server == *server));
        if let (true, Some(server)) = (keys.is_empty(), &server) {
            return Err(CliError::unauthorized(format!("You are not logged in at {server}"))
                .hint("`wharf auth status` lists your logins.".to_owned()));
        }
        let auth = Auth::code(browser(&context.screen)).token_store(token_store.clone());
        let mut servers: Vec<&str> = keys.iter().map(|key| key.server.as_str()).collect();
        servers.dedup();
        let mut untold = None;
        for server in servers {
            // Logins that cannot be read are removed as well.
            let logins = logins(&token_store, |key| key.server == server).await.unwrap_or_default();
            let auth = auth.clone().fetch(fetch(context, false, &logins)?);
            if let Err(error) = auth.logout(server).await {
                untold = Some(error);
            }
        }
        // Verifies the removal: a login that is still listed was not removed.
        let left = token_store.list().await?;
        let left: Vec<LoginKey> = keys.extract_if(.., |key| left.contains(key)).collect();
        print(context, &keys)?;
        if let Some(key) = left.first() {
            let problem = format!("You are still logged in at {}", clean_line(&key.server));
            let why = untold.map_or(String::new(), |error| clean_line(&error.message).to_string());
            return Err(CliError::unauthorized(problem)
                .hint(format!("The login could not be removed: {why}")));
        }
        // The login is removed locally even if the authorization server fails to revoke it.
        untold.map_or(Ok(()), |error| {
            let hint = "The tokens are removed here, but stay valid until they expire.";
            Err(CliError::from(error).hint(hint.to_owned()))
        })
    }
}

fn print(context: &Context, keys: &[LoginKey]) -> Result<(), CliError> {
    let out = context.out;
    if out.is_json() {
        let each = keys.iter().map(|key| json!({"server": key.server, "issuer": key.issuer}));
        return out.json(&json!({"loggedOut": each.collect::<Vec<Value>>()}));
    }
    if keys.is_empty() {
        context.note("You are not logged in anywhere.");
    }
    let line = |key: &LoginKey| format!("Logged out of {}", clean_line(&key.server));
    out.lines(&keys.iter().map(line).collect::<Vec<_>>())
}
