//! Authorization code grant with PKCE: the user agent visits the authorization server and returns with a
//! code.

use std::sync::Arc;

use url::Url;
use wharf_model::{Error, excerpt};

use crate::client::{
    AuthorizationRequest, Login, UserAgent, failed, flow::AuthorizationFlow,
    redirect_params::validated_code, resource_metadata::display_url, scope,
    server_url::is_loopback, token_endpoint::TokenError, token_response::TokenResponse,
};
use crate::jose::{b64, random_token, sha256};

/// Parameters of our authorization request. An authorization endpoint must not contain them.
const REQUEST_PARAMETERS: [&str; 13] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "scope",
    "prompt",
    "dpop_jkt",
    "request",
    "request_uri",
    "response_mode",
];

/// Values of an authorization request that the response must match.
struct PendingAuthorization {
    state: String,
    verifier: String,
    redirect_uri: String,
}

impl AuthorizationFlow<'_> {
    pub(super) async fn authorize_with_code(
        &self,
        visit: &Arc<dyn UserAgent>,
        login: &mut Login,
    ) -> Result<TokenResponse, TokenError> {
        let endpoint_url = self.endpoint_url().await?;
        let last = login.registration.as_ref().and_then(|it| it.redirect_uri.as_deref());
        let session = visit.prepare(last).await?;
        let pending = PendingAuthorization {
            state: random_token(32),
            verifier: random_token(32),
            redirect_uri: session.redirect_uri().to_owned(),
        };
        let identity = self.ensure_registered(login, &pending.redirect_uri).await?;
        let to = AuthorizationRequest {
            url: self.request_url(endpoint_url, &identity.client_id, &pending),
            state: pending.state.clone(),
            issuer: self.auth_server.issuer.clone(),
            server: display_url(self.server),
        };
        let callback = session.visit(to).await?;
        let code = validated_code(&callback, &pending.state, self.auth_server)?;
        let mut form = self.base_form("authorization_code");
        form.push(("code", code));
        form.push(("redirect_uri", pending.redirect_uri));
        form.push(("code_verifier", pending.verifier));
        let granted = self.endpoint()?.request_token(&identity, form).await;
        if matches!(&granted, Err(TokenError::Rejected { error, .. }) if error == "invalid_client")
        {
            // The authorization server has removed our registration; the next attempt registers again.
            self.remove_registration(login).await?;
        }
        granted
    }

    /// Checks the authorization endpoint.
    async fn endpoint_url(&self) -> Result<Url, Error> {
        let issuer = excerpt(&self.auth_server.issuer);
        let Some(endpoint) = &self.auth_server.authorization_endpoint else {
            return Err(failed(format!(
                "the authorization server {issuer:?} has no authorization endpoint"
            )));
        };
        self.auth_server.require_s256()?;
        let bad = |why: &str| {
            failed(format!(
                "the authorization endpoint of {issuer:?} is not opened ({:?}): {why}",
                excerpt(endpoint)
            ))
        };
        let url = Url::parse(endpoint).map_err(|error| bad(&error.to_string()))?;
        // A loopback page is opened only for servers on loopback.
        let is_inside = is_loopback(&url);
        let is_safe = match url.scheme() {
            "https" => !is_inside || is_loopback(self.server),
            "http" => is_inside && is_loopback(self.server),
            _ => false,
        };
        if !is_safe || !url.username().is_empty() || url.password().is_some() {
            return Err(bad("only https:// is allowed"));
        }
        // Duplicate parameters could override ours: some servers use the first one.
        if let Some((name, _)) =
            url.query_pairs().find(|(name, _)| REQUEST_PARAMETERS.contains(&&**name))
        {
            return Err(bad(&format!("it contains the request parameter `{name}`")));
        }
        // A browser can reach private networks, so the same SSRF check applies to it.
        self.fetch.check_reachable(url.as_str()).await.map_err(|error| bad(&error.to_string()))?;
        Ok(url)
    }

    fn request_url(
        &self,
        mut endpoint_url: Url,
        client_id: &str,
        pending: &PendingAuthorization,
    ) -> Url {
        endpoint_url.set_fragment(None);
        let challenge = b64(sha256(pending.verifier.as_bytes()));
        let mut query = endpoint_url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &pending.redirect_uri)
            .append_pair("state", &pending.state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &self.discovered.resource);
        if !self.scopes.is_empty() {
            query.append_pair("scope", &self.scopes.join(" "));
        }
        if scope::requests_offline_access(self.scopes) {
            // OpenID Connect grants offline access only with a consent prompt.
            query.append_pair("prompt", "consent");
        }
        if let Some(prover) = self.prover {
            query.append_pair("dpop_jkt", &prover.thumbprint());
        }
        drop(query);
        endpoint_url
    }
}
