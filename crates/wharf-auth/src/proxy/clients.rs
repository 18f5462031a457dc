//! Clients: finds one by its id, and limits the number of stored registrations.

use std::time::Duration;

use http::request::Parts;
use wharf_model::Error;

use crate::proxy::client_id_documents::is_document_url;
use crate::proxy::{
    records::{CLIENT_TTL, ClientRecord, GrantRecord},
    routes::ProxyState,
    store::VersionedRecord,
};
/// Limit of registrations that a user was the first to use.
const MAX_CLIENTS_PER_USER: usize = 64;
/// Owner of used registrations in older versions, before each user had their own.
const LEGACY_OWNER: &str = "used";
/// Interval at which the use of a registration is recorded.
const TOUCH_INTERVAL: Duration = Duration::from_secs(24 * 3600);
/// A client and its publisher.
#[derive(Clone)]
pub(super) struct KnownClient {
    pub(super) client: ClientRecord,
    /// Host that publishes the client's document.
    pub(super) publisher: Option<String>,
}

impl ProxyState {
    /// Finds a client: configured, published or registered.
    pub(super) async fn client(
        &self,
        id: &str,
        parts: &Parts,
    ) -> Result<Option<KnownClient>, Error> {
        if let Some(client) = self.settings.clients.iter().find(|client| client.id == id) {
            return Ok(Some(KnownClient { client: client.clone(), publisher: None }));
        }
        if is_document_url(id) {
            return self.document(id, parts).await;
        }
        let kept = self.store.get::<ClientRecord>(id).await?;
        Ok(kept.map(|kept| KnownClient { client: kept.value, publisher: None }))
    }

    /// Records that a user signed in with a registration. The first user becomes its owner.
    pub(super) async fn record_sign_in(
        &self,
        id: &str,
        user: &str,
        grant: &str,
    ) -> Result<(), Error> {
        let Some(mut kept) = self.registered(id).await? else { return Ok(()) };
        if !kept.value.used || kept.is_owned_by(LEGACY_OWNER) {
            // A registration of an older version may belong to several users.
            kept.value.shared |= kept.is_owned_by(LEGACY_OWNER);
            self.evict_clients(user).await?;
            kept.set_owner(user);
        }
        kept.value.used = true;
        kept.value.shared |= !kept.is_owned_by(user);
        kept.value.grant = Some(grant.to_owned());
        // A lost race does not matter: the other update is equivalent.
        self.store.swap(kept, Some(CLIENT_TTL)).await?;
        Ok(())
    }

    /// Records that a registration is in use, at intervals.
    pub(super) async fn touch_client(&self, id: &str, grant: &str) -> Result<(), Error> {
        let Some(mut kept) = self.registered(id).await? else { return Ok(()) };
        if kept.expires_within(self.store.now().await?, CLIENT_TTL - TOUCH_INTERVAL) {
            kept.value.grant = Some(grant.to_owned());
            self.store.swap(kept, Some(CLIENT_TTL)).await?;
        }
        Ok(())
    }

    /// Makes room for one more registration of a user. Evicts first those that only this user uses, then
    /// those without a grant, then the least recently used.
    async fn evict_clients(&self, user: &str) -> Result<(), Error> {
        // Concurrent sign-ins may have exceeded the limit.
        let all = self.store.list::<ClientRecord>(user, 2 * MAX_CLIENTS_PER_USER).await?;
        let surplus = (all.len() + 1).saturating_sub(MAX_CLIENTS_PER_USER);
        if surplus == 0 {
            return Ok(());
        }
        let mut by_priority = Vec::with_capacity(all.len());
        for kept in &all {
            let client = &kept.value;
            let has_grant = match &client.grant {
                Some(grant) => self.store.get::<GrantRecord>(grant).await?.is_some(),
                None => false,
            };
            // A user cannot evict a client that others use.
            by_priority.push(((client.shared, has_grant, kept.expires_at()), &client.id));
        }
        by_priority.sort_unstable();
        for (_, id) in by_priority.into_iter().take(surplus) {
            self.store.remove::<ClientRecord>(id).await?;
        }
        Ok(())
    }

    async fn registered(&self, id: &str) -> Result<Option<VersionedRecord<ClientRecord>>, Error> {
        if is_document_url(id) {
            return Ok(None);
        }
        self.store.get::<ClientRecord>(id).await
    }
}
