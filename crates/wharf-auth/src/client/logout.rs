//! Forgetting how to get in.

use wharf_model::Error;

use super::{Login, discovery, discovery::Found, flow::Flow};
use crate::client::{
    config::Plan,
    resource_url::{is_this_machine, server_url},
    token_endpoint::{Denial, Endpoint, refused},
};

pub(super) async fn log_out(plan: &Plan, url: &str) -> Result<usize, Error> {
    let server = server_url(url)?;
    let mut keys = plan.vault.list().await?;
    keys.retain(|key| key.server == server.as_str());
    let mut problem = None;
    for key in &keys {
        // Whoever renews it now would bring it back.
        let held = plan.vault.hold(key).await;
        // What cannot be read any more can be forgotten all the same.
        let login = plan.vault.load(key).await;
        // First, so that nothing is left whatever the authorization server says.
        let forgotten = plan.vault.forget(key).await;
        let kept = held.err();
        let told = match login {
            Ok(Some(login)) => revoke(plan, &server, &login).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        problem = problem.or(forgotten.err()).or(kept).or(told.err());
    }
    problem.map_or(Ok(keys.len()), Err)
}

/// Tells the authorization server that the tokens are no longer used, if it wants to know.
async fn revoke(plan: &Plan, server: &url::Url, login: &Login) -> Result<(), Error> {
    let Some(tokens) = &login.tokens else { return Ok(()) };
    let fetch = match is_this_machine(server) {
        true => plan.fetch.clone(),
        false => plan.fetch.public_only(),
    };
    let authority = match login.metadata {
        Some(_) => discovery::authority(&fetch, &login.key.issuer).await?,
        None => discovery::own_authority(&fetch, server).await?,
    };
    let Some(url) = authority.revocation_endpoint.as_deref() else { return Ok(()) };
    let found = Found {
        resource: login.resource.clone().unwrap_or_default(),
        metadata: None,
        scopes: None,
        issuers: Vec::new(),
        needs_proof: false,
        is_own: false,
    };
    let flow = Flow {
        plan,
        fetch: &fetch,
        server,
        found: &found,
        authority: &authority,
        scopes: &[],
        prover: None,
    };
    // Our own secret is for the issuer that it was given for, whichever other issuers there are logins from.
    let ours = plan.issuer.as_ref().or(plan.bound.get());
    let who = match !plan.shows_secrets() || ours == Some(&login.key.issuer) {
        true => flow.known(login),
        false => login.registration.as_ref().map(|it| flow.registered(it)),
    };
    let Some(who) = who else { return Ok(()) };
    let endpoint = Endpoint { fetch: &fetch, url, issuer: &authority.issuer, prover: None };
    let refresh = tokens.refresh.as_ref().map(|it| (it, "refresh_token"));
    for (token, kind) in refresh.into_iter().chain([(&tokens.access, "access_token")]) {
        let form = vec![("token", token.clone()), ("token_type_hint", kind.to_owned())];
        let answer = endpoint.post(&who, &form).await?;
        if answer.status.is_success() {
            continue;
        }
        match refused(&answer) {
            // Tokens that are checked without asking anybody cannot be taken back: they are short-lived.
            Denial::Refused { error, .. } if error == "unsupported_token_type" => {}
            denial => return Err(denial.into_error()),
        }
    }
    Ok(())
}
