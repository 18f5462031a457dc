//! Subscription of one client of the gateway.

use std::{collections::BTreeMap, sync::Arc};

use tokio::sync::broadcast::{Receiver, error::RecvError};
use wharf_model::{
    LiveSubscriptionFilter, Notification, Outbox, Outcome, Reply, Request, SubscriptionFilter,
};

use crate::gateway::{Change, GatewayState};

/// Reports changes until the client ends the subscription. The servers have one subscription each, for all clients.
pub(crate) async fn listen(
    gateway: Arc<GatewayState>,
    request: Request,
    outbox: Outbox,
) -> Outcome {
    let live = request.filter.clone().unwrap_or_default();
    let changes = gateway.changes.subscribe();
    let watched = WatchedResources { gateway: gateway.clone(), resources: BTreeMap::new() };
    Subscriber { live, changes, watched, outbox }.run().await
}

struct Subscriber {
    live: LiveSubscriptionFilter,
    changes: Receiver<Change>,
    watched: WatchedResources,
    outbox: Outbox,
}

impl Subscriber {
    async fn run(mut self) -> Outcome {
        let mut edits = 0;
        let filter = self.live.read(SubscriptionFilter::clone);
        self.watched.set(&filter);
        let agreed = filter.tasks([""; 0]);
        self.outbox.notify(Notification::Acknowledged(agreed));
        loop {
            tokio::select! {
                count = self.live.edited(edits) => {
                    edits = count;
                    self.watched.set(&self.live.read(SubscriptionFilter::clone));
                }
                change = self.changes.recv() => match change {
                    Ok(change) => self.report(&change),
                    Err(RecvError::Lagged(_)) => self.report_all(),
                    Err(RecvError::Closed) => return Reply::Listened.into(),
                },
            }
            self.outbox.wait_for_capacity().await;
        }
    }

    fn report(&self, change: &Change) {
        let notification = match change {
            Change::Tools => Notification::ToolsChanged,
            Change::Prompts => Notification::PromptsChanged,
            Change::Resources => Notification::ResourcesChanged,
            Change::Resource(uri) => Notification::ResourceUpdated { uri: uri.clone() },
        };
        // An update may name a part of a resource.
        let is_part = |filter: &SubscriptionFilter| match change {
            Change::Resource(part) => filter.uris.iter().any(|uri| part.starts_with(&**uri)),
            _ => false,
        };
        if self.live.read(|filter| filter.includes(&notification) || is_part(filter)) {
            self.outbox.notify(notification);
        }
    }

    /// Reports everything that may have changed, because changes were lost.
    fn report_all(&self) {
        let uris = self.live.read(|filter| filter.uris.clone());
        let uris = uris.into_iter().map(|uri| Change::Resource(uri.into()));
        for change in [Change::Tools, Change::Prompts, Change::Resources].into_iter().chain(uris) {
            self.report(&change);
        }
    }
}

/// Resources that a client subscribed to. Dropping it ends the subscriptions at the servers.
struct WatchedResources {
    gateway: Arc<GatewayState>,
    /// Index of the server and URI there, by public URI.
    resources: BTreeMap<String, (usize, String)>,
}

impl WatchedResources {
    fn set(&mut self, filter: &SubscriptionFilter) {
        let gateway = &self.gateway;
        self.resources.retain(|public, (index, uri)| {
            let is_kept = filter.uris.contains(public);
            if !is_kept {
                gateway.servers[*index].unwatch(uri);
            }
            is_kept
        });
        for public in &filter.uris {
            if !self.resources.contains_key(public)
                && let Some((server, uri)) = gateway.resolve_uri(public)
            {
                server.watch(&uri);
                self.resources.insert(public.clone(), (server.index, uri));
            }
        }
    }
}

impl Drop for WatchedResources {
    fn drop(&mut self) {
        self.set(&SubscriptionFilter::default());
    }
}
