//! Logout: removes logins and revokes their tokens (RFC 7009).

use wharf_model::Error;

use super::{
    Login, auth_server_metadata, flow::AuthorizationFlow, resource_metadata::DiscoveredResource,
};
use crate::client::{
    config::AuthConfig,
    server_url::{is_loopback, server_url},
    token_endpoint::{OAuthEndpoint, TokenError, error_from},
};

pub(super) async fn log_out(config: &AuthConfig, url: &str) -> Result<usize, Error> {
    let server = server_url(url)?;
    let mut keys = config.token_store.list().await?;
    keys.retain(|key| key.server == server.as_str());
    let mut problem = None;
    for key in &keys {
        // Locked, because a concurrent renewal would save the login again.
        let lock = config.token_store.lock(key).await;
        // Unreadable logins can be removed too.
        let login = config.token_store.load(key).await;
        // Removed before the revocation, so that nothing remains if that fails.
        let removed = config.token_store.remove(key).await;
        let kept = lock.err();
        let revoked = match login {
            Ok(Some(login)) => revoke(config, &server, &login).await,
            Ok(None) => Ok(()),
            Err(error) => Err(error),
        };
        problem = problem.or(removed.err()).or(kept).or(revoked.err());
    }
    problem.map_or(Ok(keys.len()), Err)
}

/// Revokes the tokens, if the authorization server has a revocation endpoint.
async fn revoke(config: &AuthConfig, server: &url::Url, login: &Login) -> Result<(), Error> {
    let Some(tokens) = &login.tokens else { return Ok(()) };
    let fetch = match is_loopback(server) {
        true => config.fetch.clone(),
        false => config.fetch.public_only(),
    };
    let auth_server = match login.metadata {
        Some(_) => auth_server_metadata::fetch_auth_server(&fetch, &login.key.issuer).await?,
        None => auth_server_metadata::fetch_own_auth_server(&fetch, server).await?,
    };
    let Some(url) = auth_server.revocation_endpoint.as_deref() else { return Ok(()) };
    let discovered = DiscoveredResource {
        resource: login.resource.clone().unwrap_or_default(),
        metadata: None,
        scopes: None,
        issuers: Vec::new(),
        requires_dpop: false,
        is_own_issuer: false,
    };
    let flow = AuthorizationFlow {
        config,
        fetch: &fetch,
        server,
        discovered: &discovered,
        auth_server: &auth_server,
        scopes: &[],
        prover: None,
    };
    // The configured secret is sent only to the issuer it belongs to, even if there are logins of other
    // issuers.
    let ours = config.issuer.as_ref().or(config.bound_issuer.get());
    let identity = match !config.sends_secrets() || ours == Some(&login.key.issuer) {
        true => flow.client_identity(login),
        false => login.registration.as_ref().map(|it| flow.registered_identity(it)),
    };
    let Some(identity) = identity else { return Ok(()) };
    let endpoint = OAuthEndpoint { fetch: &fetch, url, issuer: &auth_server.issuer, prover: None };
    let refresh = tokens.refresh.as_ref().map(|it| (it, "refresh_token"));
    for (token, kind) in refresh.into_iter().chain([(&tokens.access, "access_token")]) {
        let form = vec![("token", token.clone()), ("token_type_hint", kind.to_owned())];
        let answer = endpoint.post(&identity, &form).await?;
        if answer.status.is_success() {
            continue;
        }
        match error_from(&answer) {
            // Self-contained tokens cannot be revoked; they are short-lived.
            TokenError::Rejected { error, .. } if error == "unsupported_token_type" => {}
            denial => return Err(denial.into_error()),
        }
    }
    Ok(())
}
