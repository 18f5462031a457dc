//! One authorization: obtains or refreshes tokens with the configured grant.

use std::sync::Arc;

use url::Url;
use wharf_model::{Error, excerpt};

use super::{
    Login, Tokens, auth_server_metadata::AuthServerMetadata, failed,
    resource_metadata::DiscoveredResource,
};
use crate::client::{
    config::{AuthConfig, GrantType},
    dpop::DpopProver,
    token_endpoint::{FormFields, OAuthEndpoint, TokenError},
    token_response::BindingPolicy,
};
use crate::fetch::Fetch;

/// Inputs that all grants share.
pub(super) struct AuthorizationFlow<'a> {
    pub(super) config: &'a AuthConfig,
    pub(super) fetch: &'a Fetch,
    pub(super) server: &'a Url,
    pub(super) discovered: &'a DiscoveredResource,
    pub(super) auth_server: &'a AuthServerMetadata,
    pub(super) scopes: &'a [String],
    pub(super) prover: Option<&'a Arc<DpopProver>>,
}

impl AuthorizationFlow<'_> {
    /// Obtains tokens with the configured grant.
    pub(super) async fn authorize(&self, login: &mut Login) -> Result<Tokens, Error> {
        let granted = match &self.config.grant {
            GrantType::Bearer(_) => return Err(failed("a fixed token cannot be renewed".into())),
            GrantType::Code(user_agent) => self.authorize_with_code(user_agent, login).await,
            GrantType::ClientCredentials => self.authorize_with_client_credentials().await,
            GrantType::Enterprise(enterprise) => self.authorize_with_enterprise(enterprise).await,
            GrantType::Workload(assertion) => self.authorize_with_workload(assertion).await,
        };
        granted.map_err(TokenError::into_error)?.tokens(None, self.binding_policy())
    }

    /// Refreshes the tokens without user interaction.
    pub(super) async fn refresh(&self, login: &Login) -> Result<Tokens, TokenError> {
        let refused = || failed("there is no refresh token".into());
        let before = login.tokens.as_ref().ok_or_else(refused)?;
        let refresh = before.refresh.clone().ok_or_else(refused)?;
        let identity = self.client_identity(login).ok_or_else(refused)?;
        let mut base_form = self.base_form("refresh_token");
        base_form.push(("refresh_token", refresh));
        let granted = self.endpoint()?.request_token(&identity, base_form).await?;
        Ok(granted.tokens(Some(before), self.binding_policy())?)
    }

    /// Policy for binding tokens to the DPoP key.
    fn binding_policy(&self) -> BindingPolicy {
        match self.prover {
            Some(_) if self.config.dpop => BindingPolicy::Required,
            Some(_) => BindingPolicy::Possible,
            None => BindingPolicy::Impossible,
        }
    }

    pub(super) fn endpoint(&self) -> Result<OAuthEndpoint<'_>, Error> {
        let url = self.auth_server.token_endpoint.as_deref().ok_or_else(|| {
            let issuer = excerpt(&self.auth_server.issuer);
            failed(format!("The authorization server {issuer:?} names no token endpoint"))
        })?;
        let prover = self.prover.map(|it| &**it);
        Ok(OAuthEndpoint { fetch: self.fetch, url, issuer: &self.auth_server.issuer, prover })
    }

    /// Parameters of every token request.
    pub(super) fn base_form(&self, grant: &str) -> FormFields {
        vec![("grant_type", grant.to_owned()), ("resource", self.discovered.resource.clone())]
    }

    /// The same with the requested scopes.
    pub(super) fn scoped_form(&self, grant: &str) -> FormFields {
        let mut base_form = self.base_form(grant);
        if !self.scopes.is_empty() {
            base_form.push(("scope", self.scopes.join(" ")));
        }
        base_form
    }
}
