//! One way to a token, from what is known to what was granted.

use std::sync::Arc;

use url::Url;
use wharf_model::{Error, excerpt};

use super::{Login, Registration, Tokens, discovery::Found, failed, metadata::Authority, now};
use crate::client::{
    config::{Grant, Plan},
    dpop::Prover,
    registration::register,
    token_endpoint::{Binding, Denial, Endpoint, Form, Identity},
};
use crate::fetch::Fetch;

/// What every grant needs to know.
pub(super) struct Flow<'a> {
    pub(super) plan: &'a Plan,
    pub(super) fetch: &'a Fetch,
    pub(super) server: &'a Url,
    pub(super) found: &'a Found,
    pub(super) authority: &'a Authority,
    pub(super) scopes: &'a [String],
    pub(super) prover: Option<&'a Arc<Prover>>,
}

impl Flow<'_> {
    /// Gets a token, whatever that takes.
    pub(super) async fn authorize(&self, login: &mut Login) -> Result<Tokens, Error> {
        let granted = match &self.plan.grant {
            Grant::Bearer(_) => return Err(failed("A fixed token cannot be replaced".into())),
            Grant::Code(visit) => self.by_code(visit, login).await,
            Grant::ClientCredentials => self.by_client_credentials().await,
            Grant::Enterprise(enterprise) => self.by_enterprise(enterprise).await,
            Grant::Workload(assertion) => self.by_workload(assertion).await,
        };
        granted.map_err(Denial::into_error)?.tokens(None, self.proof())
    }

    /// Gets the next tokens without asking anybody.
    pub(super) async fn refresh(&self, login: &Login) -> Result<Tokens, Denial> {
        let refused = || failed("There is nothing to refresh".into());
        let before = login.tokens.as_ref().ok_or_else(refused)?;
        let refresh = before.refresh.clone().ok_or_else(refused)?;
        let who = self.known(login).ok_or_else(refused)?;
        let mut form = self.form("refresh_token");
        form.push(("refresh_token", refresh));
        let granted = self.endpoint()?.grant(&who, form).await?;
        Ok(granted.tokens(Some(before), self.proof())?)
    }

    /// Who we are, if the authorization server knows us already.
    pub(super) fn known(&self, login: &Login) -> Option<Identity> {
        if let Some(client) = &self.plan.client {
            return Some(client.identity(self.authority));
        }
        login.registration.as_ref().map(|it| self.registered(it))
    }

    /// Whether the authorization server was told of us by ourselves, and can be told again.
    pub(super) fn is_registered(&self, login: &Login) -> bool {
        // What a user said about us has no method.
        let told = login.registration.as_ref().is_some_and(|it| it.method.is_some());
        told && self.plan.client.is_none()
    }

    pub(super) fn registered(&self, it: &Registration) -> Identity {
        let (secret, method) = (it.client_secret.as_deref(), it.method.as_deref());
        Identity::secret(&it.client_id, secret, method, self.authority)
    }

    /// Who we are; the authorization server is told, if it does not know us yet.
    pub(super) async fn introduced(
        &self,
        login: &mut Login,
        redirect_uri: &str,
    ) -> Result<Identity, Error> {
        if let Some(client) = &self.plan.client {
            return Ok(client.identity(self.authority));
        }
        let document = self.plan.document.as_ref();
        let document = document.filter(|_| self.authority.client_id_metadata_document_supported);
        let registration = match (document, &login.registration) {
            (Some(document), _) => Registration {
                client_id: document.clone(),
                client_secret: None,
                method: Some("none".into()),
                redirect_uri: Some(redirect_uri.to_owned()),
                expires_at: None,
            },
            (None, Some(known)) if is_good(known, redirect_uri) => known.clone(),
            (None, _) => {
                register(self.fetch, self.authority, &self.plan.name, redirect_uri).await?
            }
        };
        let who = self.registered(&registration);
        // It is saved with the tokens: a login that fails leaves nothing in the vault.
        login.registration = Some(registration);
        Ok(who)
    }

    /// Removes a registration that the authorization server does not know any more, and leaves the tokens as they are:
    /// another process may have renewed them meanwhile.
    pub(super) async fn forget_registration(&self, login: &mut Login) -> Result<(), Error> {
        let forgotten = login.registration.take();
        let vault = &self.plan.vault;
        let is_kept = |kept: &Login| kept.registration == forgotten;
        if !vault.load(&login.key).await?.is_some_and(|it| is_kept(&it)) {
            return Ok(());
        }
        let _held = vault.hold(&login.key).await?;
        match vault.load(&login.key).await?.filter(is_kept) {
            Some(kept) => vault.save(&Login { registration: None, ..kept }).await,
            None => Ok(()),
        }
    }

    /// What tokens may be, and must be.
    fn proof(&self) -> Binding {
        match self.prover {
            Some(_) if self.plan.dpop => Binding::Wanted,
            Some(_) => Binding::Possible,
            None => Binding::Impossible,
        }
    }

    pub(super) fn endpoint(&self) -> Result<Endpoint<'_>, Error> {
        let url = self.authority.token_endpoint.as_deref().ok_or_else(|| {
            let issuer = excerpt(&self.authority.issuer);
            failed(format!("The authorization server {issuer:?} names no token endpoint"))
        })?;
        let prover = self.prover.map(|it| &**it);
        Ok(Endpoint { fetch: self.fetch, url, issuer: &self.authority.issuer, prover })
    }

    /// What every request for a token says.
    pub(super) fn form(&self, grant: &str) -> Form {
        vec![("grant_type", grant.to_owned()), ("resource", self.found.resource.clone())]
    }

    /// The same, with the scopes that are wanted.
    pub(super) fn scoped_form(&self, grant: &str) -> Form {
        let mut form = self.form(grant);
        if !self.scopes.is_empty() {
            form.push(("scope", self.scopes.join(" ")));
        }
        form
    }
}

/// Whether a registration can be used for people who are sent back to `redirect_uri`.
fn is_good(known: &Registration, redirect_uri: &str) -> bool {
    let is_same = known.redirect_uri.as_deref().is_none_or(|it| it == redirect_uri);
    is_same && known.expires_at.is_none_or(|at| at > now() + 60)
}
