//! Requests and subscriptions in flight with one server.

pub(crate) mod dispatch;

use std::{
    collections::HashMap,
    sync::{
        Arc, MutexGuard, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytestring::ByteString;
use tokio::sync::oneshot;
use wharf_client::{NotificationListener, ServerInfo};
use wharf_model::{
    Error, ErrorKind, FailureOrigin, Lock, Notification, Outbox, SubscriptionFilter,
};
use wharf_wire::{CallId, ClientCodec};

use crate::client::ClientTransportOptions;
use crate::client::pending::dispatch::CallRecipient;
pub(crate) use crate::client::pending::dispatch::DispatchAction;
use crate::client::upstream_state::UpstreamState;

/// First id of calls. Lower ids belong to the handshake, so that a late reply to it is not taken
/// for the reply to a call.
const FIRST_ID: u64 = 16;

/// Everything in flight with one server, over all of its connections: calls, subscriptions,
/// requests of the server, and listeners.
pub(crate) struct PendingRequests {
    options: ClientTransportOptions,
    next: AtomicU64,
    state: Lock<PendingState>,
    /// Connection of the transport, as observers see it.
    pub(crate) upstream: UpstreamState,
}

#[derive(Default)]
struct PendingState {
    codec: Option<ClientCodec>,
    about: Arc<ServerInfo>,
    in_flight: HashMap<CallId, PendingEntry>,
    /// Open requests of the server. Dropping one withdraws it.
    server_requests: HashMap<CallId, oneshot::Sender<()>>,
    listeners: Vec<Weak<dyn NotificationListener>>,
    /// Number of subscriptions to each resource, on the current connection.
    subscriber_counts: HashMap<String, usize>,
    /// Number of connections lost.
    losses: u64,
}

struct PendingEntry {
    reply: oneshot::Sender<Result<ByteString, Error>>,
    kind: PendingKind,
    recipient: Option<Arc<CallRecipient>>,
}

/// The kind of a request in flight.
#[derive(Clone, Debug)]
pub(crate) enum PendingKind {
    /// A request that only has a reply.
    ControlRequest,
    /// A call. `asks`: the server may send requests about it.
    Call { asks: bool },
    /// A subscription of a modern server. `acknowledged`: it was acknowledged before, on another
    /// connection.
    Listen { acknowledged: Arc<AtomicBool> },
    /// A subscription that the client emulates for a legacy server: it receives broadcast
    /// notifications. `silent` until it is acknowledged; `missed`: a notification arrived before.
    EmulatedListen { filter: SubscriptionFilter, silent: bool, missed: bool },
}

impl PendingRequests {
    pub(crate) fn new(options: ClientTransportOptions) -> Arc<PendingRequests> {
        let (next, state) = (AtomicU64::new(FIRST_ID), Lock::default());
        Arc::new(PendingRequests { options, next, state, upstream: UpstreamState::default() })
    }

    pub(crate) fn options(&self) -> &ClientTransportOptions {
        &self.options
    }

    /// The codec of the negotiated revision; `None` before the first handshake.
    pub(crate) fn codec(&self) -> Option<ClientCodec> {
        self.lock().codec.clone()
    }

    /// The server's description from the last handshake.
    pub(crate) fn about(&self) -> Arc<ServerInfo> {
        self.lock().about.clone()
    }

    /// Records a finished handshake, the first or a later one.
    pub(crate) fn opened(&self, codec: ClientCodec, mut about: ServerInfo) {
        codec.remove_foreign_tasks(&mut about.discovery.capabilities);
        let mut state = self.lock();
        let again = state.codec.replace(codec).is_some();
        state.about = Arc::new(about);
        drop(state);
        // Changes while there was no connection were not notified.
        if again {
            let lists = SubscriptionFilter::default().tools(true).prompts(true).resources(true);
            changes(&lists).for_each(|change| self.notify_listeners(&change));
        }
    }

    /// A new request id, unique in this transport.
    pub(crate) fn next_id(&self) -> CallId {
        CallId::from(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers a request in flight until the returned reply is dropped. Call it before sending
    /// the request. Its notifications go to `outbox`.
    ///
    /// # Errors
    /// If too many requests are in flight.
    pub(crate) fn register(
        self: &Arc<Self>,
        id: CallId,
        outbox: Option<&Outbox>,
        kind: PendingKind,
    ) -> Result<PendingReply, Error> {
        let recipient = outbox.map(|outbox| Arc::new(CallRecipient::new(outbox)));
        let (reply, answered) = oneshot::channel();
        let mut state = self.lock();
        let most = self.options.limits.in_flight;
        if state.in_flight.len() >= most {
            let error = Error::new(ErrorKind::Overloaded).with_message(format!(
                "{most} calls to this server are in flight already: wait for one to end, or raise \
                 the limit"
            ));
            return Err(error.from_client(FailureOrigin::Usage));
        }
        state.in_flight.insert(id.clone(), PendingEntry { reply, kind, recipient });
        drop(state);
        Ok(PendingReply { id, reply: answered, pending: self.clone() })
    }

    /// Starts delivery to an emulated subscription: sends its acknowledgement, or all changes that
    /// it may have missed if it was `acknowledged` before.
    pub(crate) fn acknowledge(
        &self,
        id: &CallId,
        filter: &SubscriptionFilter,
        outbox: &Outbox,
        acknowledged: bool,
    ) {
        if !acknowledged {
            outbox.notify(Notification::Acknowledged(filter.clone()));
        }
        let mut changes_missed = acknowledged;
        if let Some(entry) = self.lock().in_flight.get_mut(id)
            && let PendingKind::EmulatedListen { silent, missed, .. } = &mut entry.kind
        {
            *silent = false;
            changes_missed |= *missed;
        }
        if changes_missed {
            changes(filter).for_each(|change| outbox.notify(change));
        }
    }

    /// Counts one more subscriber of `uri`: returns whether it is the first on this connection, and
    /// the number of the connection.
    pub(crate) fn add_subscriber(&self, uri: &str) -> (bool, u64) {
        let mut state = self.lock();
        let count = state.subscriber_counts.entry(uri.to_owned()).or_default();
        *count += 1;
        (*count == 1, state.losses)
    }

    /// Counts one subscriber of `uri` less on that connection: returns whether it was the last and
    /// the connection is still open.
    pub(crate) fn remove_subscriber(&self, uri: &str, connection: u64) -> bool {
        let mut state = self.lock();
        let same = state.losses == connection;
        let Some(count) = state.subscriber_counts.get_mut(uri).filter(|_| same) else {
            return false;
        };
        *count -= 1;
        let last = *count == 0;
        if last {
            state.subscriber_counts.remove(uri);
        }
        last
    }

    /// Adds a listener for notifications that belong to no call. It is dropped with its last strong
    /// reference.
    pub(crate) fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
        let mut state = self.lock();
        state.listeners.retain(|listener| listener.strong_count() > 0);
        state.listeners.push(listener);
    }

    /// Returns whether only emulated subscriptions are in flight, and at least one.
    #[cfg(feature = "http")]
    pub(crate) fn has_only_listens(&self) -> bool {
        let state = self.lock();
        let mut kinds = state.in_flight.values().map(|entry| &entry.kind);
        !state.in_flight.is_empty()
            && kinds.all(|kind| matches!(kind, PendingKind::EmulatedListen { .. }))
    }

    /// Fails everything in flight and withdraws open requests, after the connection was lost.
    pub(crate) fn fail_all(&self, error: &Error) {
        let mut state = self.lock();
        let in_flight = std::mem::take(&mut state.in_flight);
        state.server_requests.clear();
        state.subscriber_counts.clear();
        state.losses += 1;
        drop(state);
        for entry in in_flight.into_values() {
            let _ = entry.reply.send(Err(error.clone()));
        }
    }

    /// Fails all calls after a message that was too long to read: it may have been the reply to any
    /// of them.
    pub(crate) fn fail_calls(&self, error: &Error) {
        let mut state = self.lock();
        let awaits_reply = |_: &CallId, entry: &mut PendingEntry| {
            matches!(entry.kind, PendingKind::ControlRequest | PendingKind::Call { .. })
        };
        let failed: Vec<_> = state.in_flight.extract_if(awaits_reply).collect();
        drop(state);
        for (_, entry) in failed {
            let _ = entry.reply.send(Err(error.clone()));
        }
    }

    fn lock(&self) -> MutexGuard<'_, PendingState> {
        self.state.lock()
    }
}

/// A request in flight; dropping it removes the id, so that a late reply is ignored.
pub(crate) struct PendingReply {
    pub(crate) id: CallId,
    reply: oneshot::Receiver<Result<ByteString, Error>>,
    pending: Arc<PendingRequests>,
}

impl PendingReply {
    /// Returns whether there is no reply yet, not even an unread one.
    pub(crate) fn is_open(&self) -> bool {
        self.pending.lock().in_flight.contains_key(&self.id)
    }

    /// Waits for the reply: the result as JSON text. Call it once.
    pub(crate) async fn wait(&mut self) -> Result<ByteString, Error> {
        let reply = (&mut self.reply).await;
        reply.unwrap_or_else(|_| {
            let error = Error::new(ErrorKind::ConnectionClosed);
            Err(error.from_client(FailureOrigin::Interrupted))
        })
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.pending.lock().in_flight.remove(&self.id);
    }
}

/// All changes that a subscriber with this filter may have missed.
pub(crate) fn changes(filter: &SubscriptionFilter) -> impl Iterator<Item = Notification> {
    let lists = [
        (filter.tools, Notification::ToolsChanged),
        (filter.prompts, Notification::PromptsChanged),
        (filter.resources, Notification::ResourcesChanged),
    ];
    let lists = lists.into_iter().filter_map(|(wanted, change)| wanted.then_some(change));
    let updated = |uri: &String| Notification::ResourceUpdated { uri: uri.as_str().into() };
    lists.chain(filter.uris.iter().map(updated))
}
