//! What is under way with one server.

pub(crate) mod dispatch;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytestring::ByteString;
use tokio::sync::oneshot;
use wharf_client::{NotificationListener, ServerInfo};
use wharf_model::{Error, ErrorKind, Notification, Outbox, SubscriptionFilter, TASKS_EXTENSION};
use wharf_wire::{CallId, ClientCodec};

use crate::client::ClientTransportOptions;
use crate::client::pending::dispatch::CallRecipient;
pub(crate) use crate::client::pending::dispatch::DispatchAction;

/// The ids of a conversation's own calls begin here; those of its opening lie below, and a late
/// answer to one of those must not be taken for another's.
const FIRST_ID: u64 = 16;

/// What is under way with one server, over however many connections: calls, listens, the server's
/// questions, and who hears the rest.
pub(crate) struct PendingRequests {
    options: ClientTransportOptions,
    next: AtomicU64,
    state: Mutex<PendingState>,
}

#[derive(Default)]
struct PendingState {
    codec: Option<ClientCodec>,
    about: Arc<ServerInfo>,
    in_flight: HashMap<CallId, PendingEntry>,
    /// The server's open questions. Dropping one withdraws it.
    server_requests: HashMap<CallId, oneshot::Sender<()>>,
    listeners: Vec<Weak<dyn NotificationListener>>,
    /// How many listens follow each resource, on the connection there is now.
    subscriber_counts: HashMap<String, usize>,
    /// How many connections were lost.
    losses: u64,
}

struct PendingEntry {
    reply: oneshot::Sender<Result<ByteString, Error>>,
    kind: PendingKind,
    recipient: Option<Arc<CallRecipient>>,
}

/// What goes on under an id, and what may belong to it.
#[derive(Clone, Debug)]
pub(crate) enum PendingKind {
    /// A request whose reply is all that anybody wants.
    ControlRequest,
    /// A call. `asks`: the server may have questions about it.
    Call { asks: bool },
    /// A listen that the server knows as one. `acknowledged`: whether it went on before, over
    /// another connection.
    Listen { acknowledged: Arc<AtomicBool> },
    /// A listen that the link plays: it hears what the server says to all. `silent` until it is
    /// acknowledged; `missed`: something came before.
    EmulatedListen { filter: SubscriptionFilter, silent: bool, missed: bool },
}

impl PendingRequests {
    pub(crate) fn new(options: ClientTransportOptions) -> Arc<PendingRequests> {
        let (next, state) = (AtomicU64::new(FIRST_ID), Mutex::default());
        Arc::new(PendingRequests { options, next, state })
    }

    pub(crate) fn options(&self) -> &ClientTransportOptions {
        &self.options
    }

    /// How the server is spoken to; none before the first opening.
    pub(crate) fn codec(&self) -> Option<ClientCodec> {
        self.lock().codec.clone()
    }

    /// What the server said about itself at the last opening.
    pub(crate) fn about(&self) -> Arc<ServerInfo> {
        self.lock().about.clone()
    }

    /// The conversation is open, for the first time or again.
    pub(crate) fn opened(&self, codec: ClientCodec, mut about: ServerInfo) {
        let can = &mut about.discovery.capabilities;
        // Each era has tasks of its own. Servers of both may speak of the other's, too.
        if codec.is_modern() {
            can.tasks = None;
        } else {
            can.extensions.remove(TASKS_EXTENSION);
        }
        let mut state = self.lock();
        let again = state.codec.replace(codec).is_some();
        state.about = Arc::new(about);
        drop(state);
        // Nobody said what changed while there was no connection.
        if again {
            let lists = SubscriptionFilter {
                tools: true,
                prompts: true,
                resources: true,
                ..SubscriptionFilter::default()
            };
            changes(&lists).for_each(|change| self.notify_listeners(&change));
        }
    }

    /// An id that no message of this conversation had.
    pub(crate) fn next_id(&self) -> CallId {
        CallId::from(self.next.fetch_add(1, Ordering::Relaxed))
    }

    /// Notes that a request is under way, until the ticket is dropped. Do so before sending it.
    /// What belongs to it goes to `outbox`.
    ///
    /// # Errors
    /// If too much is under way.
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
            return Err(Error::new(ErrorKind::Overloaded).with_message(format!(
                "{most} calls to this server are under way already: wait for one to end, or raise \
                 the limit"
            )));
        }
        state.in_flight.insert(id.clone(), PendingEntry { reply, kind, recipient });
        drop(state);
        Ok(PendingReply { id, reply: answered, pending: self.clone() })
    }

    /// Begins to tell a played listen what it hears, after its acknowledgement, or after whatever
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

    /// Counts one more listen that follows `uri`: whether it is the first on this connection, and
    /// which connection that is.
    pub(crate) fn add_subscriber(&self, uri: &str) -> (bool, u64) {
        let mut state = self.lock();
        let count = state.subscriber_counts.entry(uri.to_owned()).or_default();
        *count += 1;
        (*count == 1, state.losses)
    }

    /// Counts one listen less that follows `uri` on that connection; whether it was the last, and
    /// the connection is still there.
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

    /// Lets `listener` hear what belongs to no call, as long as anybody else holds it.
    pub(crate) fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
        let mut state = self.lock();
        state.listeners.retain(|listener| listener.strong_count() > 0);
        state.listeners.push(listener);
    }

    /// Whether listens are played over this conversation, and nothing else is under way.
    #[cfg(feature = "http")]
    pub(crate) fn has_only_listens(&self) -> bool {
        let state = self.lock();
        let mut kinds = state.in_flight.values().map(|entry| &entry.kind);
        !state.in_flight.is_empty()
            && kinds.all(|kind| matches!(kind, PendingKind::EmulatedListen { .. }))
    }

    /// The connection is gone: everything under way fails, and open questions are withdrawn.
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

    /// A message was too long to be read: it may have been the reply to any of the calls under way.
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
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way; dropping it forgets the id, so that a late reply is ignored.
pub(crate) struct PendingReply {
    pub(crate) id: CallId,
    reply: oneshot::Receiver<Result<ByteString, Error>>,
    pending: Arc<PendingRequests>,
}

impl PendingReply {
    /// Whether there is no reply yet, be it one that nobody has looked at.
    pub(crate) fn is_open(&self) -> bool {
        self.pending.lock().in_flight.contains_key(&self.id)
    }

    /// Waits for the reply: the JSON text of its result. Once.
    pub(crate) async fn wait(&mut self) -> Result<ByteString, Error> {
        let reply = (&mut self.reply).await;
        reply.unwrap_or_else(|_| Err(Error::new(ErrorKind::ConnectionClosed)))
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.pending.lock().in_flight.remove(&self.id);
    }
}

/// Everything that a listener with this filter may have missed.
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
