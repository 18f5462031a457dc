//! Resolves the inputs of an authorization: issuer, metadata, scopes and DPoP key.

use std::sync::Arc;

use wharf_model::{Error, excerpt};

use crate::client::{
    Login, auth_server_metadata,
    auth_server_metadata::AuthServerMetadata,
    challenge::AuthRequirement,
    config::GrantType,
    dpop::DpopProver,
    failed, resource_metadata,
    resource_metadata::{DiscoveredMetadata, DiscoveredResource},
    scope,
    token_manager::TokenManagerCore,
};

/// Issuers that the application did not confirm in one renewal: each is asked for once.
#[derive(Default)]
pub(super) struct RefusedIssuers(Vec<String>);

impl TokenManagerCore {
    /// Returns the metadata of the authorization server to use.
    pub(super) async fn auth_server(
        &self,
        discovered: &DiscoveredResource,
        refused: &mut RefusedIssuers,
    ) -> Result<AuthServerMetadata, Error> {
        let issuer = self.select_issuer(discovered, refused).await?;
        let auth_server = match discovered.is_own_issuer {
            true => auth_server_metadata::fetch_own_auth_server(&self.fetch, &self.server).await,
            false => auth_server_metadata::fetch_auth_server(&self.fetch, &issuer).await,
        }?;
        self.bind_issuer(&auth_server)?;
        Ok(auth_server)
    }

    /// Returns the metadata that is stored with the login, if it is for the request.
    ///
    /// The issuer is selected and bound as after a discovery, so stored metadata leads credentials nowhere else.
    pub(super) async fn stored_metadata(
        &self,
        requirement: &AuthRequirement,
        refused: &mut RefusedIssuers,
    ) -> Option<DiscoveredMetadata> {
        let (key, known) = {
            let state = self.state();
            let login = state.login.as_ref()?;
            (login.key.clone(), login.discovered.as_deref()?.clone())
        };
        // A challenge may name other metadata.
        let named = requirement.metadata.as_ref();
        let is_named = named.is_none_or(|it| known.resource.metadata.as_ref() == Some(it));
        if !is_named || known.auth_server.issuer != key.issuer {
            return None;
        }
        let issuer = self.select_issuer(&known.resource, refused).await.ok()?;
        let is_same = issuer == key.issuer || known.resource.is_own_issuer;
        (is_same && self.bind_issuer(&known.auth_server).is_ok()).then_some(known)
    }

    /// Binds credentials that belong to one issuer to it, for all servers they are used for.
    fn bind_issuer(&self, auth_server: &AuthServerMetadata) -> Result<(), Error> {
        if self.config.issuer.is_none() && self.config.is_issuer_specific() {
            let bound = self.config.bound_issuer.get_or_init(|| auth_server.issuer.clone());
            if *bound != auth_server.issuer {
                return Err(self.issuer_mismatch(&auth_server.issuer, bound));
            }
        }
        Ok(())
    }

    /// Error: the resource server names an issuer other than the one the credentials belong to.
    fn issuer_mismatch(&self, named: &str, ours: &str) -> Error {
        failed(format!(
            "{} names the authorization server {:?}, but this client's credentials are for {ours:?}: \
             nothing was sent there; if they are valid for both, name each with `Auth::issuer` \
             (`wharf auth login --issuer`)",
            resource_metadata::display_url(&self.server),
            excerpt(named),
        ))
    }

    /// Confirms with the application that the issuer may receive the client's secret, key or assertion. The
    /// MCP server must not decide that alone (CVE-2026-104850).
    async fn confirm_issuer(
        &self,
        issuer: String,
        RefusedIssuers(refused): &mut RefusedIssuers,
    ) -> Result<String, Error> {
        auth_server_metadata::issuer_url(&issuer)?;
        let (server, named) =
            (resource_metadata::display_url(&self.server), excerpt(&issuer).into_owned());
        match &self.config.confirm {
            Some(confirm) if !refused.contains(&issuer) && confirm(issuer.clone()).await => {
                Ok(issuer)
            }
            Some(_) => {
                refused.push(issuer);
                Err(failed(format!(
                    "The client's credentials were not sent to {named:?}, which {server} names as its \
                     authorization server: that was not confirmed",
                )))
            }
            None => Err(failed(format!(
                "{server} names {named:?} as its authorization server. A client secret, a key or an \
                 assertion is sent only to an authorization server that you name, so nothing was sent: \
                 if yours is for this one, name it with `--issuer {named}` (`Auth::issuer({named:?})`)",
            ))),
        }
    }

    /// Selects one of the authorization servers that the server names.
    async fn select_issuer(
        &self,
        discovered: &DiscoveredResource,
        refused: &mut RefusedIssuers,
    ) -> Result<String, Error> {
        let first = || discovered.issuers.first().cloned().unwrap_or_default();
        let is_named = |issuer: &str| {
            let bare = issuer.strip_suffix('/').unwrap_or(issuer);
            let is_own_issuer =
                discovered.is_own_issuer && discovered.issuers.iter().any(|it| it == bare);
            is_own_issuer || discovered.issuers.iter().any(|it| it == issuer)
        };
        if let Some(issuer) = self.config.issuer.as_ref().or(self.config.bound_issuer.get()) {
            return match is_named(issuer) {
                true => Ok(issuer.clone()),
                false => Err(self.issuer_mismatch(&first(), issuer)),
            };
        }
        if self.config.sends_secrets() {
            return self.confirm_issuer(first(), refused).await;
        }
        let mut known: Vec<String> = self.keys().await?.into_iter().map(|it| it.issuer).collect();
        let now = self.state().login.as_ref().map(|it| it.key.issuer.clone());
        known.sort_by_key(|it| now.as_ref() != Some(it));
        match known.iter().find(|it| is_named(it)) {
            Some(issuer) => Ok(issuer.clone()),
            // Credentials of one authorization server are not valid for another.
            None => match known.first().filter(|_| self.config.is_issuer_specific()) {
                Some(ours) => Err(self.issuer_mismatch(&first(), ours)),
                None => Ok(first()),
            },
        }
    }

    /// Returns the DPoP prover, if tokens shall be bound to a key.
    pub(super) fn prover(
        &self,
        requirement: &AuthRequirement,
        discovered: &DiscoveredResource,
        auth_server: &AuthServerMetadata,
        login: &Login,
    ) -> Result<Option<Arc<DpopProver>>, Error> {
        let known = auth_server.dpop_signing_alg_values_supported.as_deref().unwrap_or_default();
        let is_known = known.iter().any(|it| it == "ES256");
        let is_wanted = self.config.dpop
            || discovered.requires_dpop
            || (requirement.dpop && (is_known || !requirement.bearer))
            || login.tokens.as_ref().is_some_and(|it| it.bound);
        if !is_wanted {
            return Ok(None);
        }
        let state = self.state();
        let is_same = state.login.as_ref().is_some_and(|it| it.key == login.key);
        match state.prover.clone().filter(|_| is_same) {
            Some(prover) => Ok(Some(prover)),
            None => DpopProver::new(login.dpop_key.as_deref()).map(|it| Some(Arc::new(it))),
        }
    }

    pub(super) fn scopes(
        &self,
        requirement: &AuthRequirement,
        discovered: &DiscoveredResource,
        auth_server: &AuthServerMetadata,
        login: &Login,
    ) -> Vec<String> {
        scope::select(&scope::ScopeInputs {
            configured: self.config.scopes.as_deref(),
            required: requirement.scope.as_deref(),
            asked: &login.asked,
            supported: discovered.scopes.as_deref(),
            issuer_supported: auth_server.scopes_supported.as_deref(),
            for_user: matches!(self.config.grant, GrantType::Code(_)),
        })
    }
}
