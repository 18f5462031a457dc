//! What is under way with one server, and whom each of its messages is for.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use bytestring::ByteString;
use tokio::{sync::oneshot, time::timeout};
use wharf_client::{About, Ear};
use wharf_model::{Ask, BoxFuture, Error, ErrorKind, Filter, Notification, Outbox};
use wharf_wire::{CallId, Heard, Incoming, Talk};

use super::{LinkOptions, Traced};

/// How long reading waits for a call that has not looked at what came before.
const PATIENCE: Duration = Duration::from_secs(5);

/// The ids of a conversation's own calls begin here; those of its opening lie below, and a late
/// answer to one of those must not be taken for another's.
const FIRST_ID: u64 = 16;

/// What is under way with one server, over however many connections: calls, listens, the server's
/// questions, and who hears the rest.
pub(crate) struct Desk {
    options: LinkOptions,
    next: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    talk: Option<Talk>,
    about: Arc<About>,
    under_way: HashMap<CallId, Entry>,
    /// The server's open questions. Dropping one withdraws it.
    questions: HashMap<CallId, oneshot::Sender<()>>,
    ears: Vec<Weak<dyn Ear>>,
    /// How many listens follow each resource, on the connection there is now.
    followed: HashMap<String, usize>,
    /// How many connections were lost.
    losses: u64,
}

struct Entry {
    reply: oneshot::Sender<Result<ByteString, Error>>,
    place: Place,
    recipient: Option<Arc<Recipient>>,
}

/// What goes on under an id, and what may belong to it.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// A request whose reply is all that anybody wants.
    Errand,
    /// A call. `asks`: the server may have questions about it.
    Call { asks: bool },
    /// A listen that the server knows as one. `acknowledged`: whether it went on before, over
    /// another connection.
    Listen { acknowledged: Arc<AtomicBool> },
    /// A listen that the link plays: it hears what the server says to all. `silent` until it is
    /// acknowledged; `missed`: something came before.
    Played { filter: Filter, silent: bool, missed: bool },
}

/// A call that is told things, as fast as it looks at them.
struct Recipient {
    outbox: Outbox,
    /// Whether it let reading wait in vain; then nobody waits for it again until it has room.
    deaf: AtomicBool,
}

impl Recipient {
    /// Tells it, as soon as it has room, if that is soon.
    async fn tell(&self, notification: Notification) {
        let patience = if self.deaf.load(Ordering::Relaxed) { Duration::ZERO } else { PATIENCE };
        let deaf = timeout(patience, self.outbox.room()).await.is_err();
        self.deaf.store(deaf, Ordering::Relaxed);
        if !deaf {
            self.outbox.notify(notification);
        }
    }
}

/// What the link has to do about a message.
pub(crate) enum Duty {
    /// Send this: the answer to a ping, or a refusal.
    Send(Vec<u8>),
    /// Run this beside whatever else goes on, and send what comes of it; nothing if the question
    /// was withdrawn.
    Answer(BoxFuture<Option<Vec<u8>>>),
}

impl Desk {
    pub(crate) fn new(options: LinkOptions) -> Arc<Desk> {
        let (next, state) = (AtomicU64::new(FIRST_ID), Mutex::default());
        Arc::new(Desk { options, next, state })
    }

    pub(crate) fn options(&self) -> &LinkOptions {
        &self.options
    }

    /// How the server is spoken to; none before the first opening.
    pub(crate) fn talk(&self) -> Option<Talk> {
        self.lock().talk.clone()
    }

    /// What the server said about itself at the last opening.
    pub(crate) fn about(&self) -> Arc<About> {
        self.lock().about.clone()
    }

    /// The conversation is open, for the first time or again.
    pub(crate) fn opened(&self, talk: Talk, about: About) {
        let mut state = self.lock();
        let again = state.talk.replace(talk).is_some();
        state.about = Arc::new(about);
        drop(state);
        // Nobody said what changed while there was no connection.
        if again {
            let lists = Filter { tools: true, prompts: true, resources: true, ..Filter::default() };
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
        place: Place,
    ) -> Result<Ticket, Error> {
        let recipient =
            outbox.map(|outbox| Arc::new(Recipient { outbox: outbox.clone(), deaf: false.into() }));
        let (reply, answered) = oneshot::channel();
        let mut state = self.lock();
        let most = self.options.limits.in_flight;
        if state.under_way.len() >= most {
            return Err(Error::new(ErrorKind::Overloaded).with_message(format!(
                "{most} calls to this server are under way already: wait for one to end, or raise \
                 the limit"
            )));
        }
        state.under_way.insert(id.clone(), Entry { reply, place, recipient });
        drop(state);
        Ok(Ticket { id, reply: answered, desk: self.clone() })
    }

    /// Begins to tell a played listen what it hears, after its acknowledgement, or after whatever
    /// it may have missed if it was `acknowledged` before.
    pub(crate) fn acknowledge(
        &self,
        id: &CallId,
        filter: &Filter,
        outbox: &Outbox,
        acknowledged: bool,
    ) {
        if !acknowledged {
            outbox.notify(Notification::Acknowledged(filter.clone()));
        }
        let mut unheard = acknowledged;
        if let Some(entry) = self.lock().under_way.get_mut(id)
            && let Place::Played { silent, missed, .. } = &mut entry.place
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
    pub(crate) fn listen_in(&self, ear: Weak<dyn Ear>) {
        let mut state = self.lock();
        state.ears.retain(|ear| ear.strong_count() > 0);
        state.ears.push(ear);
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
        let awaits_reply = |_: &CallId, entry: &mut Entry| {
            matches!(entry.place, Place::Errand | Place::Call { .. })
        };
        let failed: Vec<_> = state.under_way.extract_if(awaits_reply).collect();
        drop(state);
        for (_, entry) in failed {
            let _ = entry.reply.send(Err(error.clone()));
        }
    }

    /// Takes in one message, in the order of arrival: wakes whoever waits for it, and says what
    /// else there is to do. On HTTP, `belongs_to` is the call on whose stream it came. Waits a
    /// moment for a call that is slow to look at what it is told.
    ///
    /// # Errors
    /// If it is no message. Nothing has happened then.
    pub(crate) async fn hear(
        self: &Arc<Self>,
        message: Bytes,
        belongs_to: Option<&CallId>,
    ) -> Result<Vec<Duty>, Error> {
        let talk = self.talk().ok_or_else(|| Error::new(ErrorKind::NotInitialized))?;
        self.options.trace(Traced::Received(&message));
        let mut duties = Vec::new();
        for incoming in talk.hear(message)? {
            duties.extend(self.take_in(&talk, incoming, belongs_to).await);
        }
        Ok(duties)
    }

    /// Takes in one part of a message.
    pub(crate) async fn take_in(
        self: &Arc<Self>,
        talk: &Talk,
        incoming: Incoming,
        belongs_to: Option<&CallId>,
    ) -> Option<Duty> {
        match incoming {
            Incoming::Reply { id, result } => self.reply(id, result),
            Incoming::Heard(heard) => self.heard(heard, belongs_to).await,
            Incoming::Cancelled { id } => self.cancelled(&id),
            // A modern client must not answer.
            Incoming::Ping { .. } | Incoming::Ask { .. } | Incoming::Refused { .. }
                if talk.is_modern() =>
            {
                self.options.note("ignored a request, which a server of this revision cannot make");
            }
            Incoming::Ping { id } => return Some(Duty::Send(written(|out| talk.pong(&id, out)))),
            Incoming::Refused { id, error } => return Some(refuse(talk, &id, &error)),
            Incoming::Ask { id, ask } => return self.asked(talk, id, ask, belongs_to),
            _ => {}
        }
        None
    }

    fn reply(&self, id: Option<CallId>, result: Result<ByteString, Error>) {
        let mut state = self.lock();
        // What the server could not read can only be the one thing that was sent.
        let id = id.or_else(|| {
            let sent = |entry: &&Entry| !matches!(entry.place, Place::Played { .. });
            let mut ids = state.under_way.iter().filter(|(_, entry)| sent(entry));
            ids.next().filter(|_| ids.next().is_none()).map(|(id, _)| id.clone())
        });
        // A late reply finds nobody.
        let entry = id.and_then(|id| state.under_way.remove(&id));
        drop(state);
        if let Some(entry) = entry {
            let _ = entry.reply.send(result);
        }
    }

    /// The server takes a question back, or ends a listen.
    fn cancelled(&self, id: &CallId) {
        let mut state = self.lock();
        let listens = |entry: &Entry| matches!(entry.place, Place::Listen { .. });
        if state.under_way.get(id).is_some_and(listens) {
            let entry = state.under_way.remove(id);
            drop(state);
            if let Some(entry) = entry {
                let _ = entry.reply.send(Ok(ByteString::from_static("{}")));
            }
        } else {
            state.questions.remove(id);
        }
    }

    async fn heard(&self, heard: Heard, belongs_to: Option<&CallId>) {
        let Heard { notification, token, subscription } = heard;
        match notification {
            Notification::Progress { .. } => {
                let call = self.recipient(token.as_ref()).or_else(|| self.recipient(belongs_to));
                if let Some(call) = call {
                    call.tell(notification).await;
                }
            }
            Notification::Log { .. } => {
                match self.recipient(belongs_to).or_else(|| self.only_call(|_| true)) {
                    Some(call) => call.tell(notification).await,
                    None => self.tell_ears(&notification),
                }
            }
            _ if subscription.is_some() || belongs_to.is_some_and(|id| self.is_listen(id)) => {
                self.listened(subscription.as_ref().or(belongs_to), notification).await;
            }
            Notification::Acknowledged(_) => {}
            _ => self.broadcast(notification).await,
        }
    }

    /// Tells a listen what came under its id.
    async fn listened(&self, id: Option<&CallId>, notification: Notification) {
        let Some((listen, acknowledged)) = self.listen(id) else { return };
        match notification {
            Notification::Acknowledged(filter) if acknowledged.swap(true, Ordering::Relaxed) => {
                for change in changes(&filter) {
                    listen.tell(change).await;
                }
            }
            _ => listen.tell(notification).await,
        }
    }

    /// Tells everybody who wants to hear it.
    async fn broadcast(&self, notification: Notification) {
        self.tell_ears(&notification);
        let mut listeners = Vec::new();
        for entry in self.lock().under_way.values_mut() {
            let Place::Played { filter, silent, missed } = &mut entry.place else { continue };
            if !filter.wants(&notification) {
                continue;
            }
            match &entry.recipient {
                Some(recipient) if !*silent => listeners.push(recipient.clone()),
                _ => *missed = true,
            }
        }
        for listener in listeners {
            listener.tell(notification.clone()).await;
        }
    }

    fn tell_ears(&self, notification: &Notification) {
        let ears: Vec<_> = self.lock().ears.iter().filter_map(Weak::upgrade).collect();
        ears.iter().for_each(|ear| ear.heard(notification));
    }

    /// What to do about a question: put it to the call it belongs to, or else to `Orphans`.
    fn asked(
        self: &Arc<Self>,
        talk: &Talk,
        id: CallId,
        ask: Ask,
        belongs_to: Option<&CallId>,
    ) -> Option<Duty> {
        let call = self.recipient(belongs_to).or_else(|| self.only_call(|asks| asks));
        let (open, withdrawn) = oneshot::channel();
        let mut state = self.lock();
        let most = self.options.limits.asks;
        if state.questions.contains_key(&id) {
            return None;
        }
        if state.questions.len() >= most {
            let error = Error::new(ErrorKind::Overloaded)
                .with_message(format!("{most} questions are open already: wait for an answer"));
            return Some(refuse(talk, &id, &error));
        }
        state.questions.insert(id.clone(), open);
        drop(state);
        let question = Question { desk: self.clone(), id };
        let talk = talk.clone();
        Some(Duty::Answer(Box::pin(async move {
            let answering: BoxFuture<Result<String, Error>> = match call {
                Some(call) => Box::pin(call.outbox.ask(ask)),
                None => question.desk.options.orphans.ask(ask),
            };
            tokio::select! {
                biased;
                _ = withdrawn => None,
                answer = answering => {
                    let answer = answer.as_deref();
                    Some(written(|out| talk.answer(&question.id, answer, out)))
                }
            }
        })))
    }

    fn recipient(&self, id: Option<&CallId>) -> Option<Arc<Recipient>> {
        self.lock().under_way.get(id?)?.recipient.clone()
    }

    fn is_listen(&self, id: &CallId) -> bool {
        self.listen(Some(id)).is_some()
    }

    fn listen(&self, id: Option<&CallId>) -> Option<(Arc<Recipient>, Arc<AtomicBool>)> {
        let state = self.lock();
        let entry = state.under_way.get(id?)?;
        let Place::Listen { acknowledged } = &entry.place else { return None };
        Some((entry.recipient.clone()?, acknowledged.clone()))
    }

    /// The call under way, if there is exactly one whose `asks` fits.
    fn only_call(&self, fits: impl Fn(bool) -> bool) -> Option<Arc<Recipient>> {
        let state = self.lock();
        let is_call = |entry: &&Entry| matches!(entry.place, Place::Call { asks } if fits(asks));
        let mut calls = state.under_way.values().filter(is_call);
        calls.next().filter(|_| calls.next().is_none())?.recipient.clone()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A request under way; dropping it forgets the id, so that a late reply is ignored.
pub(crate) struct Ticket {
    pub(crate) id: CallId,
    reply: oneshot::Receiver<Result<ByteString, Error>>,
    desk: Arc<Desk>,
}

impl Ticket {
    /// Waits for the reply: the JSON text of its result. Once.
    pub(crate) async fn wait(&mut self) -> Result<ByteString, Error> {
        let reply = (&mut self.reply).await;
        reply.unwrap_or_else(|_| Err(Error::new(ErrorKind::ConnectionClosed)))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.desk.lock().under_way.remove(&self.id);
    }
}

/// An open question of the server; dropping it makes room for another.
struct Question {
    desk: Arc<Desk>,
    id: CallId,
}

impl Drop for Question {
    fn drop(&mut self) {
        self.desk.lock().questions.remove(&self.id);
    }
}

fn refuse(talk: &Talk, id: &CallId, error: &Error) -> Duty {
    Duty::Send(written(|out| talk.answer(id, Err(error), out)))
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}

/// Everything that a listener with this filter may have missed.
pub(crate) fn changes(filter: &Filter) -> impl Iterator<Item = Notification> {
    let lists = [
        (filter.tools, Notification::ToolsChanged),
        (filter.prompts, Notification::PromptsChanged),
        (filter.resources, Notification::ResourcesChanged),
    ];
    let lists = lists.into_iter().filter_map(|(wanted, change)| wanted.then_some(change));
    let updated = |uri: &String| Notification::ResourceUpdated { uri: uri.as_str().into() };
    lists.chain(filter.uris.iter().map(updated))
}
