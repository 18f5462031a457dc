//! One authorization: obtains or refreshes tokens with the configured grant.

use std::sync::Arc;

use url::Url;
use wharf_model::{Error, excerpt};

use super::{
    Login, Registration, Tokens, auth_server_metadata::AuthServerMetadata,
    discovery::DiscoveredResource, failed, now,
};
use crate::client::{
    config::{AuthConfig, GrantType},
    dpop::DpopProver,
    registration::register,
    token_endpoint::{BindingPolicy, ClientIdentity, FormFields, OAuthEndpoint, TokenError},
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

    /// The client's identity at the authorization server, if it is registered there.
    pub(super) fn client_identity(&self, login: &Login) -> Option<ClientIdentity> {
        if let Some(client) = &self.config.client {
            return Some(client.identity(self.auth_server));
        }
        login.registration.as_ref().map(|it| self.registered_identity(it))
    }

    /// Returns true if the client registered dynamically, and can do so again.
    pub(super) fn is_dynamically_registered(&self, login: &Login) -> bool {
        // A manual registration has no method.
        let told = login.registration.as_ref().is_some_and(|it| it.method.is_some());
        told && self.config.client.is_none()
    }

    pub(super) fn registered_identity(&self, it: &Registration) -> ClientIdentity {
        let (secret, method) = (it.client_secret.as_deref(), it.method.as_deref());
        ClientIdentity::secret(&it.client_id, secret, method, self.auth_server)
    }

    /// Returns the client's identity; registers dynamically if necessary.
    pub(super) async fn ensure_registered(
        &self,
        login: &mut Login,
        redirect_uri: &str,
    ) -> Result<ClientIdentity, Error> {
        if let Some(client) = &self.config.client {
            return Ok(client.identity(self.auth_server));
        }
        let document = self.config.document.as_ref();
        let document = document.filter(|_| self.auth_server.client_id_metadata_document_supported);
        let registration = match (document, &login.registration) {
            (Some(document), _) => Registration {
                client_id: document.clone(),
                client_secret: None,
                method: Some("none".into()),
                redirect_uri: Some(redirect_uri.to_owned()),
                expires_at: None,
            },
            (None, Some(known)) if is_usable(known, redirect_uri) => known.clone(),
            (None, _) => {
                register(self.fetch, self.auth_server, &self.config.name, redirect_uri).await?
            }
        };
        let identity = self.registered_identity(&registration);
        // Saved together with the tokens: a failed login leaves nothing in the store.
        login.registration = Some(registration);
        Ok(identity)
    }

    /// Removes a registration that the authorization server no longer accepts. Keeps the tokens, because
    /// another process may have renewed them.
    pub(super) async fn remove_registration(&self, login: &mut Login) -> Result<(), Error> {
        let removed = login.registration.take();
        let token_store = &self.config.token_store;
        let is_kept = |kept: &Login| kept.registration == removed;
        if !token_store.load(&login.key).await?.is_some_and(|it| is_kept(&it)) {
            return Ok(());
        }
        let _lock = token_store.lock(&login.key).await?;
        match token_store.load(&login.key).await?.filter(is_kept) {
            Some(kept) => token_store.save(&Login { registration: None, ..kept }).await,
            None => Ok(()),
        }
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

/// Returns true if a registration is valid for this redirect URI.
fn is_usable(known: &Registration, redirect_uri: &str) -> bool {
    let is_same = known.redirect_uri.as_deref().is_none_or(|it| it == redirect_uri);
    is_same && known.expires_at.is_none_or(|at| at > now() + 60)
}
