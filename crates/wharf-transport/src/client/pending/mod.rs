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
pub(crate) use crate::client::pending::dispatch::DispatchAction;
use crate::client::pending::dispatch::CallRecipient;

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
    talk: Option<ClientCodec>,
    about: Arc<ServerInfo>,
    under_way: HashMap<CallId, PendingEntry>,
    /// The server's open questions. Dropping one withdraws it.
    questions: HashMap<CallId, oneshot::Sender<()>>,
    ears: Vec<Weak<dyn NotificationListener>>,
    /// How many listens follow each resource, on the connection there is now.
    followed: HashMap<String, usize>,
    /// How many connections were lost.
    losses: u64,
}

struct PendingEntry {
    reply: oneshot::Sender<Result<ByteString, Error>>,
    place: PendingKind,
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
    Played { filter: SubscriptionFilter, silent: bool, missed: bool },
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
    pub(crate) fn talk(&self) -> Option<ClientCodec> {
        self.lock().talk.clone()
    }

    /// What the server said about itself at the last opening.
    pub(crate) fn about(&self) -> Arc<ServerInfo> {
        self.lock().about.clone()
    }

    /// The conversation is open, for the first time or again.
    pub(crate) fn opened(&self, talk: ClientCodec, mut about: ServerInfo) {
        let can = &mut about.discovery.capabilities;
        // Each era has tasks of its own. Servers of both may speak of the other's, too.
        if talk.is_modern() {
            can.tasks = None;
        } else {
            can.extensions.remove(TASKS_EXTENSION);
        }
        let mut state = self.lock();
        let again = state.talk.replace(talk).is_some();
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
            changes(&lists).for_each(|change| self.tell_ears(&change));
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
        place: PendingKind,
    ) -> Result<PendingReply, Error> {
        let recipient = outbox.map(|outbox| Arc::new(CallRecipient::new(outbox)));
        let (reply, answered) = oneshot::channel();
        let mut state = self.lock();
        let most = self.options.limits.in_flight;
        if state.under_way.len() >= most {
            return Err(Error::new(ErrorKind::Overloaded).with_message(format!(
                "{most} calls to this server are under way already: wait for one to end, or raise \
                 the limit"
            )));
        }
        state.under_way.insert(id.clone(), PendingEntry { reply, place, recipient });
        drop(state);
        Ok(PendingReply { id, reply: answered, desk: self.clone() })
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
        let mut unheard = acknowledged;
        if let Some(entry) = self.lock().under_way.get_mut(id)
            && let PendingKind::Played { silent, missed, .. } = &mut entry.place
        {
            *silent = false;
            unheard |= *missed;
        }
        if unheard {
            changes(filter).for_each(|change| outbox.notify(change));
        }
    }

    /// Counts one more listen that follows `uri`: whether it is the first on this connection, and
    /// which connection that is.
    pub(crate) fn follow(&self, uri: &str) -> (bool, u64) {
        let mut state = self.lock();
        let count = state.followed.entry(uri.to_owned()).or_default();
        *count += 1;
        (*count == 1, state.losses)
    }

    /// Counts one listen less that follows `uri` on that connection; whether it was the last, and
    /// the connection is still there.
    pub(crate) fn unfollow(&self, uri: &str, connection: u64) -> bool {
        let mut state = self.lock();
        let same = state.losses == connection;
        let Some(count) = state.followed.get_mut(uri).filter(|_| same) else { return false };
        *count -= 1;
        let last = *count == 0;
        if last {
            state.followed.remove(uri);
        }
        last
    }

    /// Lets `ear` hear what belongs to no call, as long as anybody else holds it.
    pub(crate) fn add_listener(&self, ear: Weak<dyn NotificationListener>) {
        let mut state = self.lock();
        state.ears.retain(|ear| ear.strong_count() > 0);
        state.ears.push(ear);
    }

    /// Whether listens are played over this conversation, and nothing else is under way.
    #[cfg(feature = "http")]
    pub(crate) fn only_listens(&self) -> bool {
        let state = self.lock();
        let mut places = state.under_way.values().map(|entry| &entry.place);
        !state.under_way.is_empty() && places.all(|place| matches!(place, PendingKind::Played { .. }))
    }

    /// The connection is gone: everything under way fails, and open questions are withdrawn.
    pub(crate) fn lost(&self, error: &Error) {
        let mut state = self.lock();
        let under_way = std::mem::take(&mut state.under_way);
        state.questions.clear();
        state.followed.clear();
        state.losses += 1;
        drop(state);
        for entry in under_way.into_values() {
            let _ = entry.reply.send(Err(error.clone()));
        }
    }

    /// A message was too long to be read: it may have been the reply to any of the calls under way.
    pub(crate) fn unread(&self, error: &Error) {
        let mut state = self.lock();
        let awaits_reply = |_: &CallId, entry: &mut PendingEntry| {
            matches!(entry.place, PendingKind::ControlRequest | PendingKind::Call { .. })
        };
        let failed: Vec<_> = state.under_way.extract_if(awaits_reply).collect();
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
    desk: Arc<PendingRequests>,
}

impl PendingReply {
    /// Whether there is no reply yet, be it one that nobody has looked at.
    pub(crate) fn is_open(&self) -> bool {
        self.desk.lock().under_way.contains_key(&self.id)
    }

    /// Waits for the reply: the JSON text of its result. Once.
    pub(crate) async fn wait(&mut self) -> Result<ByteString, Error> {
        let reply = (&mut self.reply).await;
        reply.unwrap_or_else(|_| Err(Error::new(ErrorKind::ConnectionClosed)))
    }
}

impl Drop for PendingReply {
    fn drop(&mut self) {
        self.desk.lock().under_way.remove(&self.id);
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
