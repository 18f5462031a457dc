//! Acting for the user at the provider.

use std::{fmt, sync::Arc, time::Duration};

use tokio::time::sleep;
use wharf_model::{Error, ErrorKind};

use crate::proxy::{
    idp::Refused,
    records::{Grant, Identity, Tokens},
    routes::Desk,
    store::Kept,
};

/// A token that ends within this time is renewed before it is used, in milliseconds.
const SOON: u64 = 30_000;
/// How long whoever renews may take before somebody else tries, in milliseconds.
const LEASE: u64 = 30_000;
/// For how long a provider that let the user in is not asked again whether it still does, in milliseconds.
const SETTLED: u64 = 30_000;
/// How often, and how many times, others look whether it is done.
const LOOKS: (Duration, u32) = (Duration::from_millis(250), 140);

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
    desk: Arc<Desk>,
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
    pub(super) fn new(desk: Arc<Desk>, name: &str, grant: Grant) -> Self {
        Upstream { desk, grant: name.into(), who: Arc::new(grant.who) }
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
        for _ in 0..LOOKS.1 {
            let kept = self.desk.shelf.get::<Grant>(&self.grant).await?;
            let mut kept = kept.ok_or_else(ended)?;
            let now = self.desk.shelf.now().await?;
            if is_good(&kept.thing.upstream, now) {
                return Ok(AccessToken(kept.thing.upstream.access));
            }
            if kept.thing.upstream.refresh.is_none() {
                return Err(ended());
            }
            // Only one of all processes renews: some providers take a second try for a theft.
            if kept.thing.refreshing > now {
                sleep(LOOKS.0).await;
                continue;
            }
            kept.thing.refreshing = now + LEASE;
            let old = kept.thing.upstream.clone();
            if self.desk.shelf.swap(kept, None).await? {
                let renewed = self.desk.renew(&self.grant, &old, now).await?;
                return renewed.map(|new| AccessToken(new.access)).map_err(|_| ended());
            }
        }
        Err(Error::new(ErrorKind::TemporarilyUnavailable))
    }
}

impl Desk {
    /// Renews the tokens of a grant at the provider, for whoever holds the lease.
    async fn renew(
        &self,
        grant: &str,
        old: &Tokens,
        now: u64,
    ) -> Result<Result<Tokens, Refused>, Error> {
        let renewed = self.idp.renew(old, now).await;
        let new = renewed.as_ref().ok().cloned();
        // The client may renew its own tokens meanwhile.
        while let Some(mut kept) = self.shelf.get::<Grant>(grant).await? {
            kept.thing.refreshing = 0;
            if let Some(new) = &new {
                kept.thing.upstream = new.clone();
                kept.thing.asked = now;
            }
            if self.shelf.swap(kept, None).await? {
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
    pub(super) async fn is_still_in(
        &self,
        id: &str,
        mut kept: Kept<Grant>,
        now: u64,
    ) -> Result<bool, Error> {
        let grant = &kept.thing;
        let is_settled = grant.asked.saturating_add(SETTLED) > now;
        if grant.upstream.refresh.is_none() || grant.refreshing > now || is_settled {
            return Ok(true);
        }
        kept.thing.refreshing = now + LEASE;
        let old = kept.thing.upstream.clone();
        if !self.shelf.swap(kept, None).await? {
            return Ok(true);
        }
        let renewed = self.renew(id, &old, now).await?;
        Ok(renewed.err().is_none_or(|refused| !refused.is_final))
    }
}

fn is_good(tokens: &Tokens, now: u64) -> bool {
    tokens.until.is_none_or(|until| until > now.saturating_add(SOON))
}

fn ended() -> Error {
    Error::new(ErrorKind::Unauthenticated)
        .with_message("Access at the identity provider has ended: sign in again")
}

impl fmt::Debug for Upstream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Upstream").field("who", &self.who).finish_non_exhaustive()
    }
}
