//! Acting for the user at the provider.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::sleep;
use wharf_model::{Error, ErrorKind};

use crate::proxy::{
    idp::IdpError,
    records::{GrantRecord, Identity, UpstreamTokens},
    routes::ProxyState,
    store::VersionedRecord,
};

/// A token that ends within this time is renewed before it is used, in milliseconds.
const RENEW_BEFORE_MS: u64 = 30_000;
/// How long whoever renews may take before somebody else tries, in milliseconds.
const RENEWAL_LEASE_MS: u64 = 30_000;
/// For how long a provider that let the user in is not asked again whether it still does, in milliseconds.
const RECHECK_INTERVAL_MS: u64 = 30_000;
/// How often, and how many times, others look whether it is done.
const POLLING: (Duration, u32) = (Duration::from_millis(250), 140);

/// The user behind a call, at the identity provider: who it is there, and what to act with.
///
/// The token is the provider's, given to this server and to nobody else. It is not the one that the client
/// showed, which is good here and nowhere else.
///
/// ```
/// use wharf_auth::proxy::Upstream;
///
/// # #[allow(dead_code)]
/// async fn repositories(user: &Upstream) -> Result<String, wharf_model::Error> {
///     let token = user.token().await?;
///     let header = format!("Bearer {}", token.secret());
///     // … ask the provider's API with it, as the user.
/// #   drop(header);
///     Ok(user.identity().claim("login").unwrap_or_default().to_owned())
/// }
/// ```
#[derive(Clone)]
pub struct Upstream {
    shared: Arc<ProxyState>,
    grant: Arc<str>,
    who: Arc<Identity>,
}

/// A token for the provider's API. It is not in its `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// The token itself: for the provider, and for nobody else.
    #[must_use]
    pub fn secret(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken(…)")
    }
}

impl Upstream {
    pub(super) fn new(shared: Arc<ProxyState>, name: &str, grant: GrantRecord) -> Self {
        Upstream { shared, grant: name.into(), who: Arc::new(grant.who) }
    }

    /// Who it is, as the provider said when they signed in.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.who
    }

    /// A token with which this server acts for the user at the provider, renewed if it is about to end.
    ///
    /// # Errors
    /// If the user must sign in again, or the provider or the store cannot be reached.
    pub async fn token(&self) -> Result<AccessToken, Error> {
        // Looked up each time: with a new one, some providers end the one before, whoever still has it.
        for _ in 0..POLLING.1 {
            let kept = self.shared.store.get::<GrantRecord>(&self.grant).await?;
            let mut kept = kept.ok_or_else(access_ended)?;
            let now = self.shared.store.now().await?;
            if is_valid(&kept.value.upstream, now) {
                return Ok(AccessToken(kept.value.upstream.access));
            }
            if kept.value.upstream.refresh.is_none() {
                return Err(access_ended());
            }
            // Only one of all processes renews: some providers take a second try for a theft.
            if kept.value.refreshing > now {
                sleep(POLLING.0).await;
                continue;
            }
            kept.value.refreshing = now + RENEWAL_LEASE_MS;
            let old = kept.value.upstream.clone();
            if self.shared.store.swap(kept, None).await? {
                let renewed = self.shared.renew(&self.grant, &old, now).await?;
                return renewed.map(|new| AccessToken(new.access)).map_err(|_| access_ended());
            }
        }
        Err(Error::new(ErrorKind::TemporarilyUnavailable))
    }
}

impl ProxyState {
    /// Renews the tokens of a grant at the provider, for whoever holds the lease.
    async fn renew(
        &self,
        grant: &str,
        old: &UpstreamTokens,
        now: u64,
    ) -> Result<Result<UpstreamTokens, IdpError>, Error> {
        let renewed = self.idp.renew(old, now).await;
        let new = renewed.as_ref().ok().cloned();
        // The client may renew its own tokens meanwhile.
        while let Some(mut kept) = self.store.get::<GrantRecord>(grant).await? {
            kept.value.refreshing = 0;
            if let Some(new) = &new {
                kept.value.upstream = new.clone();
                kept.value.asked = now;
            }
            if self.store.swap(kept, None).await? {
                break;
            }
        }
        if let Err(refused) = &renewed {
            tracing::warn!(why = refused.why, "the identity provider gives no new token");
        }
        Ok(renewed)
    }

    /// Whether the provider still lets the user of a grant in, as far as it can be asked. One that does not answer, or
    /// that is being asked already, says nothing about that. Nor is it asked all the time: a client renews as often as it
    /// likes, and the provider would hold it against this server.
    pub(super) async fn is_still_authorized(
        &self,
        id: &str,
        mut kept: VersionedRecord<GrantRecord>,
        now: u64,
    ) -> Result<bool, Error> {
        let grant = &kept.value;
        let is_settled = grant.asked.saturating_add(RECHECK_INTERVAL_MS) > now;
        if grant.upstream.refresh.is_none() || grant.refreshing > now || is_settled {
            return Ok(true);
        }
        kept.value.refreshing = now + RENEWAL_LEASE_MS;
        let old = kept.value.upstream.clone();
        if !self.store.swap(kept, None).await? {
            return Ok(true);
        }
        let renewed = self.renew(id, &old, now).await?;
        Ok(renewed.err().is_none_or(|refused| !refused.is_final))
    }
}

fn is_valid(tokens: &UpstreamTokens, now: u64) -> bool {
    tokens.until.is_none_or(|until| until > now.saturating_add(RENEW_BEFORE_MS))
}

fn access_ended() -> Error {
    Error::new(ErrorKind::Unauthenticated)
        .with_message("Access at the identity provider has ended: sign in again")
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("who", &self.who).finish_non_exhaustive()
    }
}
