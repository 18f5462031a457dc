//! `wharf auth logout`.

use serde_json::{Value, json};
use wharf::auth::client::{Auth, LoginKey, TokenStore};

use super::{args::Logout, fetch, server_of, status::logins, vault};
use crate::auth::interactive::browser;
use crate::error::Fail;
use crate::{context::Context, terminal::clean_line};

impl Logout {
    pub(super) async fn run(&self, context: &Context) -> Result<(), Fail> {
        let vault = vault()?;
        let server = self.target.as_deref().map(server_of).transpose()?;
        let mut keys = vault.list().await?;
        keys.retain(|key| server.as_ref().is_none_or(|server| key.server == *server));
        if let (true, Some(server)) = (keys.is_empty(), &server) {
            return Err(Fail::unauthorized(format!("You are not logged in at {server}"))
                .hint("`wharf auth status` shows where you are.".to_owned()));
        }
        let auth = Auth::code(browser(&context.screen)).token_store(vault.clone());
        let mut servers: Vec<&str> = keys.iter().map(|key| key.server.as_str()).collect();
        servers.dedup();
        let mut untold = None;
        for server in servers {
            // Logins that cannot be read are removed as well.
            let logins = logins(&vault, |key| key.server == server).await.unwrap_or_default();
            let auth = auth.clone().fetch(fetch(false, &logins));
            if let Err(error) = auth.logout(server).await {
                untold = Some(error);
            }
        }
        // Verifies the removal: a login that is still listed was not removed.
        let left = vault.list().await?;
        let left: Vec<LoginKey> = keys.extract_if(.., |key| left.contains(key)).collect();
        told(context, &keys)?;
        if let Some(key) = left.first() {
            let problem = format!("You are still logged in at {}", clean_line(&key.server));
            let why = untold.map_or(String::new(), |error| clean_line(&error.message).to_string());
            return Err(
                Fail::unauthorized(problem).hint(format!("It could not be forgotten: {why}"))
            );
        }
        // The login is removed locally even if the authorization server fails to revoke it.
        untold.map_or(Ok(()), |error| {
            let hint =
                "What lets you in is forgotten here, but may still be good until it expires.";
            Err(Fail::from(error).hint(hint.to_owned()))
        })
    }
}

fn told(context: &Context, keys: &[LoginKey]) -> Result<(), Fail> {
    let out = context.out;
    if out.is_json() {
        let each = keys.iter().map(|key| json!({"server": key.server, "issuer": key.issuer}));
        return out.json(&json!({"loggedOut": each.collect::<Vec<Value>>()}));
    }
    if keys.is_empty() {
        context.tell("You are logged in nowhere.");
    }
    let line = |key: &LoginKey| format!("Logged out of {}", clean_line(&key.server));
    out.lines(&keys.iter().map(line).collect::<Vec<_>>())
}
