//! Selects the authorization of a command for a server.

use wharf::auth::client::{Auth, FileTokenStore, Login, server_key};

use crate::auth::{
    fetch, interactive::browser_login, login::AS_PROGRAM, status::logins, token_store,
};
use crate::{context::Context, error::CliError};

/// Authorization for the server at `url`; `None` if the URL supports no login, or the user sends an
/// `Authorization` header.
pub(crate) async fn auth_for(
    url: &str,
    headers: &[(String, String)],
    context: &Context,
    name: &str,
) -> Result<Option<Auth>, CliError> {
    let shown = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let Ok(server) = server_key(url) else { return Ok(None) };
    if shown {
        return Ok(None);
    }
    let token_store = token_store()?;
    let logins = logins(&token_store, |key| key.server == server).await?;
    let fetch = fetch(context, context.shared.allow_private, &logins)?;
    if let Some(auth) = logins.iter().find_map(as_program) {
        return Ok(Some(auth.token_store(token_store).fetch(fetch)));
    }
    let auth = browser_login(context, name, !logins.is_empty());
    Ok(Some(auth.name("Wharf").token_store(token_store).fetch(fetch)))
}

/// Authorization of a program with its own secret, which was given at login.
fn as_program(login: &Login) -> Option<Auth> {
    let known =
        login.registration.as_ref().filter(|_| login.grant.as_deref() == Some(AS_PROGRAM))?;
    let auth = Auth::client_credentials(&known.client_id, known.client_secret.as_deref()?);
    Some(auth.issuer(&login.key.issuer))
}

/// True if a login for the server at `url` is stored.
pub(crate) async fn has_stored_login(url: &str) -> bool {
    let (Ok(server), Ok(token_store)) = (server_key(url), token_store()) else { return false };
    has_login(&token_store, &server).await
}

async fn has_login(token_store: &FileTokenStore, server: &str) -> bool {
    logins(token_store, |key| key.server == server).await.is_ok_and(|logins| !logins.is_empty())
}
