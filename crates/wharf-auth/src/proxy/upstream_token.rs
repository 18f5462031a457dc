//! Access to the identity provider on behalf of the user.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::sleep;
use wharf_model::{Error, ErrorKind};

use crate::proxy::{
    idp::IdpError,
    records::{GrantRecord, Identity, UpstreamTokens},
    routes::ProxyState,
    store::VersionedRecord,
};

/// Time before expiry when a token is renewed, in milliseconds.
const RENEW_BEFORE_MS: u64 = 30_000;
/// Lease of a renewal, after which another process may try, in milliseconds.
const RENEWAL_LEASE_MS: u64 = 30_000;
/// Time after a renewal in which the provider is not asked again if the user still has access, in
/// milliseconds.
const RECHECK_INTERVAL_MS: u64 = 30_000;
/// Interval and number of polls for a renewal by another process.
const POLLING: (Duration, u32) = (Duration::from_millis(250), 140);

/// The user behind a call at the identity provider: identity and token.
///
/// The token was issued by the provider to this server only. It is not the token that the client sent,
/// which is valid only here.
///
/// ```
/// use wharf_auth::proxy::Upstream;
///
/// # #[allow(dead_code)]
/// async fn repositories(user: &Upstream) -> Result<String, wharf_model::Error> {
///     let token = user.token().await?;
///     let header = format!("Bearer {}", token.secret());
///     // … call the provider's API with it, as the user.
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

/// A token for the provider's API. Omitted from `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// The token itself. Send it to the provider only.
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

    /// Identity of the user at sign-in.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.who
    }

    /// Returns a valid token for the provider, renewed if it is about to expire.
    ///
    /// # Errors
    /// If the user must sign in again, or the provider or the store cannot be reached.
    pub async fn token(&self) -> Result<AccessToken, Error> {
        // Loaded each time: some providers revoke the previous token on renewal.
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
            // Only one process renews: some providers treat a second attempt as theft.
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
    /// Renews the upstream tokens of a grant. The caller holds the lease.
    async fn renew(
        &self,
        grant: &str,
        old: &UpstreamTokens,
        now: u64,
    ) -> Result<Result<UpstreamTokens, IdpError>, Error> {
        let renewed = self.idp.renew(old, now).await;
        let new = renewed.as_ref().ok().cloned();
        // The client may refresh its own tokens concurrently.
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
            tracing::warn!(why = refused.why, "cannot renew the token at the identity provider");
        }
        Ok(renewed)
    }

    /// Returns true if the provider still grants access to the user, as far as it can be asked. No
    /// response, or a renewal in flight, counts as access. Asked at a limited rate, because clients refresh
    /// as often as they like and the provider might block this server.
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
