//! URL elicitations in progress, and the notification of their completion.

use std::sync::{Arc, Weak};

use wharf_model::{Notification, Peer};

use crate::notifications::subscription_table::{SubscriberState, SubscriptionTable};

/// Maximum number of completed elicitations that wait for one subscriber, and of elicitations that
/// are remembered. The oldest is removed; of those remembered, the oldest completed one.
pub(super) const MAX_ELICITATIONS: usize = 1024;

/// Client that was sent to a URL.
pub(super) struct UrlElicitation {
    id: String,
    peer: Weak<Peer>,
    /// Name of the client in other processes, if it has one.
    name: Option<Box<str>>,
    /// True if it is complete, and the client has no subscription yet.
    complete: bool,
}

impl UrlElicitation {
    /// Returns whether it is complete, or its client is gone.
    fn is_removable(&self) -> bool {
        self.complete || (self.peer.strong_count() == 0 && self.name.is_none())
    }

    /// Returns whether this client was sent to the URL.
    fn was_sent_to(&self, peer: &Arc<Peer>) -> bool {
        self.peer.as_ptr() == Arc::as_ptr(peer)
            || (self.name.is_some() && self.name.as_deref() == peer.name())
    }
}

impl SubscriptionTable {
    /// Remembers the client of an elicitation: only that client may be notified of its completion.
    pub(crate) fn remember_elicitation(&self, id: &str, peer: &Arc<Peer>) {
        let mut elicitations = self.elicitations.lock();
        if elicitations.len() >= MAX_ELICITATIONS {
            // Many clients never subscribe: their completed elicitations must not displace those in
            // progress.
            let removable = elicitations.iter().position(UrlElicitation::is_removable).unwrap_or(0);
            elicitations.remove(removable);
        }
        let name = peer.name().map(Into::into);
        let peer = Arc::downgrade(peer);
        elicitations.push_back(UrlElicitation { id: id.to_owned(), peer, name, complete: false });
    }

    /// Notifies the client of a URL elicitation that it is complete: now, or when it subscribes, in
    /// any process.
    pub(crate) fn elicitation_complete(&self, id: &str) {
        let known = self.finish_elicitation(id);
        if let Some(publisher) = self.publisher.get().filter(|_| !known) {
            publisher.publish_elicitation_done(id);
        }
    }

    /// Does the same if this process sent the client to the URL; otherwise returns false.
    pub(crate) fn finish_elicitation(&self, id: &str) -> bool {
        let mut elicitations = self.elicitations.lock();
        let index = elicitations.iter().position(|it| it.id == id && !it.complete);
        let Some(asked) = index.and_then(|index| elicitations.remove(index)) else { return false };
        drop(elicitations);
        if let (Some(publisher), Some(name)) = (self.publisher.get(), &asked.name) {
            publisher.finish_elicitation(id, name);
        }
        self.end_elicitation(asked);
        true
    }

    /// Handles the completion of an elicitation that another process sent to a client of this name.
    pub(crate) fn elicitation_ended(&self, id: &str, name: &str) {
        let (id, name) = (id.to_owned(), Some(name.into()));
        self.end_elicitation(UrlElicitation { id, peer: Weak::new(), name, complete: false });
    }

    fn end_elicitation(&self, asked: UrlElicitation) {
        if asked.is_removable() {
            return;
        }
        let mut elicitations = self.elicitations.lock();
        let mut subscribers = self.subscribers.lock().all_subscribers();
        subscribers.retain(|it| it.peer.as_ref().is_some_and(|peer| asked.was_sent_to(peer)));
        let notification = Notification::ElicitationComplete { id: asked.id.clone() };
        if subscribers.is_empty() {
            if elicitations.len() >= MAX_ELICITATIONS {
                let removable =
                    elicitations.iter().position(UrlElicitation::is_removable).unwrap_or(0);
                elicitations.remove(removable);
            }
            elicitations.push_back(UrlElicitation { complete: true, ..asked });
        }
        drop(elicitations);
        for subscriber in subscribers {
            subscriber.add(&notification, 0);
        }
    }

    /// Notifies a resumed subscription of elicitations that completed before.
    pub(super) fn send_completed_elicitations(&self, subscriber: &SubscriberState) {
        let Some(peer) = &subscriber.peer else { return };
        let is_due = |it: &UrlElicitation| it.complete && it.was_sent_to(peer);
        let mut elicitations = self.elicitations.lock();
        for UrlElicitation { id, .. } in elicitations.iter().filter(|it| is_due(it)) {
            subscriber.add(&Notification::ElicitationComplete { id: id.clone() }, 0);
        }
        elicitations.retain(|it| !is_due(it));
    }
}
