//! Whom to ask, for what, and with which proof.

use std::sync::Arc;

use wharf_model::{Error, excerpt};

use crate::client::{
    Login, challenge::Demand, config::Grant, discovery, discovery::Found, dpop::Prover, failed,
    metadata::Authority, scope, token_manager::Core,
};

impl Core {
    /// The authorization server to ask.
    pub(super) async fn authority(&self, found: &Found) -> Result<Authority, Error> {
        let issuer = self.issuer(found).await?;
        let authority = match found.is_own {
            true => discovery::own_authority(&self.fetch, &self.server).await,
            false => discovery::authority(&self.fetch, &issuer).await,
        }?;
        if self.plan.issuer.is_none() && self.plan.is_for_one_issuer() {
            // From now on, for every server that these credentials are used for.
            let bound = self.plan.bound.get_or_init(|| authority.issuer.clone());
            if *bound != authority.issuer {
                return Err(self.changed(&authority.issuer, bound));
            }
        }
        Ok(authority)
    }

    /// The server wants to see what is for somebody else.
    fn changed(&self, named: &str, ours: &str) -> Error {
        failed(format!(
            "{} names the authorization server {:?}, but this client's credentials are for {ours:?}: \
             nothing was sent there; if they are for both, say so for each with `Auth::issuer` \
             (`wharf auth login --issuer`)",
            discovery::shown(&self.server),
            excerpt(named),
        ))
    }

    /// The issuer, if the application confirms that it may be shown the client's secret, key or assertion. The MCP
    /// server must not decide that alone (CVE-2026-104850).
    async fn confirmed(&self, issuer: String) -> Result<String, Error> {
        discovery::issuer_url(&issuer)?;
        let (server, named) = (discovery::shown(&self.server), excerpt(&issuer).into_owned());
        match &self.plan.confirm {
            Some(confirm) if confirm(issuer.clone()).await => Ok(issuer),
            Some(_) => Err(failed(format!(
                "The client's credentials were not sent to {named:?}, which {server} names as its \
                 authorization server: that was not confirmed",
            ))),
            None => Err(failed(format!(
                "{server} names {named:?} as its authorization server. A client secret, a key or an \
                 assertion is sent only to an authorization server that you name, so nothing was sent: \
                 if yours is for this one, say so with `--issuer {named}` (`Auth::issuer({named:?})`)",
            ))),
        }
    }

    /// Which of the authorization servers that the server names is asked.
    async fn issuer(&self, found: &Found) -> Result<String, Error> {
        let first = || found.issuers.first().cloned().unwrap_or_default();
        let is_named = |issuer: &str| {
            let bare = issuer.strip_suffix('/').unwrap_or(issuer);
            let is_own = found.is_own && found.issuers.iter().any(|it| it == bare);
            is_own || found.issuers.iter().any(|it| it == issuer)
        };
        if let Some(issuer) = self.plan.issuer.as_ref().or(self.plan.bound.get()) {
            return match is_named(issuer) {
                true => Ok(issuer.clone()),
                false => Err(self.changed(&first(), issuer)),
            };
        }
        if self.plan.shows_secrets() {
            return self.confirmed(first()).await;
        }
        let mut known: Vec<String> = self.keys().await?.into_iter().map(|it| it.issuer).collect();
        let now = self.state().login.as_ref().map(|it| it.key.issuer.clone());
        known.sort_by_key(|it| now.as_ref() != Some(it));
        match known.iter().find(|it| is_named(it)) {
            Some(issuer) => Ok(issuer.clone()),
            // What we were given for one authorization server is not for another.
            None => match known.first().filter(|_| self.plan.is_for_one_issuer()) {
                Some(ours) => Err(self.changed(&first(), ours)),
                None => Ok(first()),
            },
        }
    }

    /// What proves that tokens are ours, where that is wanted.
    pub(super) fn prover(
        &self,
        demand: &Demand,
        found: &Found,
        authority: &Authority,
        login: &Login,
    ) -> Result<Option<Arc<Prover>>, Error> {
        let known = authority.dpop_signing_alg_values_supported.as_deref().unwrap_or_default();
        let is_known = known.iter().any(|it| it == "ES256");
        let is_wanted = self.plan.dpop
            || found.needs_proof
            || (demand.dpop && (is_known || !demand.bearer))
            || login.tokens.as_ref().is_some_and(|it| it.bound);
        if !is_wanted {
            return Ok(None);
        }
        let state = self.state();
        let is_same = state.login.as_ref().is_some_and(|it| it.key == login.key);
        match state.prover.clone().filter(|_| is_same) {
            Some(prover) => Ok(Some(prover)),
            None => Prover::new(login.dpop_key.as_deref()).map(|it| Some(Arc::new(it))),
        }
    }

    pub(super) fn scopes(
        &self,
        demand: &Demand,
        found: &Found,
        authority: &Authority,
        login: &Login,
    ) -> Vec<String> {
        scope::choose(&scope::Known {
            wished: self.plan.scopes.as_deref(),
            demanded: demand.scope.as_deref(),
            asked: &login.asked,
            supported: found.scopes.as_deref(),
            issued: authority.scopes_supported.as_deref(),
            for_person: matches!(self.plan.grant, Grant::Code(_)),
        })
    }
}
