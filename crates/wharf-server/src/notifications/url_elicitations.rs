//! Clients that were sent to a URL, and that hear when they are done there.

use std::sync::{Arc, Weak};

use wharf_model::{Notification, Peer};

use crate::notifications::{Hub, Listener, lock};

/// How many finished elicitations wait for one listener, and how many are remembered: the oldest
/// gives way, of those remembered the oldest that is done.
pub(super) const ELICITATIONS: usize = 1024;

/// A client that was sent to a URL.
pub(super) struct Elicitation {
    id: String,
    peer: Weak<Peer>,
    /// By what name the other processes know the client, if they do.
    name: Option<Box<str>>,
    /// Whether it is done, and the client has yet to listen.
    complete: bool,
}

impl Elicitation {
    /// Whether it is done, or its client is gone.
    fn is_spare(&self) -> bool {
        self.complete || (self.peer.strong_count() == 0 && self.name.is_none())
    }

    /// Whether it went to this client.
    fn went_to(&self, peer: &Arc<Peer>) -> bool {
        self.peer.as_ptr() == Arc::as_ptr(peer)
            || (self.name.is_some() && self.name.as_deref() == peer.name())
    }
}

impl Hub {
    /// Remembers whom an elicitation went to: only that client may hear of its end.
    pub(crate) fn remember_elicitation(&self, id: &str, peer: &Arc<Peer>) {
        let mut elicitations = lock(&self.elicitations);
        if elicitations.len() >= ELICITATIONS {
            // Many clients never listen: what they could be told must not displace what goes on.
            let spare = elicitations.iter().position(Elicitation::is_spare).unwrap_or(0);
            elicitations.remove(spare);
        }
        let name = peer.name().map(Into::into);
        let peer = Arc::downgrade(peer);
        elicitations.push_back(Elicitation { id: id.to_owned(), peer, name, complete: false });
    }

    /// Tells the client that was sent to a URL that what it should do there is done: now, or when
    /// it comes to listen, to whichever process.
    pub(crate) fn elicitation_complete(&self, id: &str) {
        let known = self.finish_elicitation(id);
        if let Some(relay) = self.relay.get().filter(|_| !known) {
            relay.ask_who_knows(id);
        }
    }

    /// The same, if this process sent the client there. False if it did not.
    pub(crate) fn finish_elicitation(&self, id: &str) -> bool {
        let mut elicitations = lock(&self.elicitations);
        let index = elicitations.iter().position(|it| it.id == id && !it.complete);
        let Some(asked) = index.and_then(|index| elicitations.remove(index)) else { return false };
        drop(elicitations);
        if let (Some(relay), Some(name)) = (self.relay.get(), &asked.name) {
            relay.finish_elicitation(id, name);
        }
        self.end_elicitation(asked);
        true
    }

    /// Another process sent a client of this name to a URL, and what it should do there is done.
    pub(crate) fn elicitation_ended(&self, id: &str, name: &str) {
        let (id, name) = (id.to_owned(), Some(name.into()));
        self.end_elicitation(Elicitation { id, peer: Weak::new(), name, complete: false });
    }

    fn end_elicitation(&self, asked: Elicitation) {
        if asked.is_spare() {
            return;
        }
        let mut elicitations = lock(&self.elicitations);
        let mut listeners = lock(&self.listeners).everybody();
        listeners.retain(|it| it.peer.as_ref().is_some_and(|peer| asked.went_to(peer)));
        let notification = Notification::ElicitationComplete { id: asked.id.clone() };
        if listeners.is_empty() {
            if elicitations.len() >= ELICITATIONS {
                let spare = elicitations.iter().position(Elicitation::is_spare).unwrap_or(0);
                elicitations.remove(spare);
            }
            elicitations.push_back(Elicitation { complete: true, ..asked });
        }
        drop(elicitations);
        for listener in listeners {
            listener.add(&notification, 0);
        }
    }

    /// Tells a listener who comes late which of its elicitations were done before.
    pub(super) fn tell_of_elicitations(&self, listener: &Listener) {
        let Some(peer) = &listener.peer else { return };
        let is_told = |it: &Elicitation| it.complete && it.went_to(peer);
        let mut elicitations = lock(&self.elicitations);
        for Elicitation { id, .. } in elicitations.iter().filter(|it| is_told(it)) {
            listener.add(&Notification::ElicitationComplete { id: id.clone() }, 0);
        }
        elicitations.retain(|it| !is_told(it));
    }
}
