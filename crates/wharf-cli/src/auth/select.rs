//! How a verb gets in where a server wants to know who calls.

use std::sync::{Arc, atomic::AtomicBool};

use wharf::auth::client::{Auth, FileTokenStore, Login, server_key};

use crate::auth::{
    fetch,
    interactive::{Consent, Person, browser, with_paste},
    login::AS_PROGRAM,
    status::logins,
    vault,
};
use crate::{context::Context, error::Fail, terminal::somebody_there};

/// How to get in at the server at `url`; none if there is nothing to get into, or the user shows
/// something of their own.
pub(crate) async fn way_to(
    url: &str,
    headers: &[(String, String)],
    context: &Context,
    name: &str,
) -> Result<Option<Auth>, Fail> {
    let shown = headers.iter().any(|(name, _)| name.eq_ignore_ascii_case("authorization"));
    let Ok(server) = server_key(url) else { return Ok(None) };
    if shown {
        return Ok(None);
    }
    let vault = vault()?;
    let logins = logins(&vault, |key| key.server == server).await?;
    let fetch = fetch(context.shared.allow_private, &logins);
    if let Some(auth) = logins.iter().find_map(as_program) {
        return Ok(Some(auth.token_store(vault).fetch(fetch)));
    }
    // Whoever reads JSON, or what comes through a pipe, did not agree to a browser.
    let asks = somebody_there() && context.out.is_terminal() && !context.out.is_json();
    let browser = browser(&context.screen);
    let auth = if asks {
        let (questions, server) = (context.questions.clone(), name.to_owned());
        let browser = with_paste(browser, &questions, false);
        let again = Arc::new(AtomicBool::new(!logins.is_empty()));
        Auth::code(Person::new(browser, Consent::Asked { questions, server, again }))
    } else {
        Auth::code(browser).unattended()
    };
    Ok(Some(auth.name("Wharf").token_store(vault).fetch(fetch)))
}

/// How a program gets in anew that has a secret of its own, which it said when it logged in.
fn as_program(login: &Login) -> Option<Auth> {
    let known =
        login.registration.as_ref().filter(|_| login.grant.as_deref() == Some(AS_PROGRAM))?;
    let auth = Auth::client_credentials(&known.client_id, known.client_secret.as_deref()?);
    Some(auth.issuer(&login.key.issuer))
}

/// Whether there is a login at the server at `url`.
pub(crate) async fn is_known(url: &str) -> bool {
    let (Ok(server), Ok(vault)) = (server_key(url), vault()) else { return false };
    has_login(&vault, &server).await
}

async fn has_login(vault: &FileTokenStore, server: &str) -> bool {
    logins(vault, |key| key.server == server).await.is_ok_and(|logins| !logins.is_empty())
}
