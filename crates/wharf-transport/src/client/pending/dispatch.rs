//! Whom each message of the server is for.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use bytestring::ByteString;
use tokio::{
    sync::oneshot,
    time::{Instant, timeout_at},
};
use wharf_model::{BoxFuture, ClientRequest, Error, ErrorKind, Notification, Outbox};
use wharf_wire::{CallId, ClientCodec, ServerMessage, ServerNotification};

use crate::client::TraceEvent;
use crate::client::pending::{PendingRequests, PendingEntry, PendingKind, changes};

/// How long reading waits for a call that has not looked at what came before.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the link has to do about a message.
pub(crate) enum DispatchAction {
    /// Send this: the answer to a ping, or a refusal.
    Send(Vec<u8>),
    /// Run this beside whatever else goes on, and send what comes of it; nothing if the question
    /// was withdrawn. The question counts as open until it is dropped, after sending: a server that
    /// takes no answers must not pile them up.
    Answer(BoxFuture<Option<(Vec<u8>, OpenServerRequest)>>),
}

/// A call that is told things, as fast as it looks at them.
pub(super) struct CallRecipient {
    outbox: Outbox,
    /// Whether it let reading wait in vain; then nobody waits for it again until it has room.
    deaf: AtomicBool,
}

impl CallRecipient {
    pub(super) fn new(outbox: &Outbox) -> Self {
        CallRecipient { outbox: outbox.clone(), deaf: AtomicBool::new(false) }
    }

    /// Tells it, as soon as it has room, if that is soon.
    async fn tell(&self, notification: Notification) {
        self.tell_until(Instant::now() + PATIENCE, notification).await;
    }

    /// Tells it, as soon as it has room, if that is before `end`.
    async fn tell_until(&self, end: Instant, notification: Notification) {
        let end = if self.deaf.load(Ordering::Relaxed) { Instant::now() } else { end };
        let deaf = timeout_at(end, self.outbox.room()).await.is_err();
        self.deaf.store(deaf, Ordering::Relaxed);
        if !deaf {
            self.outbox.notify(notification);
        }
    }
}

impl PendingRequests {
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
    ) -> Result<Vec<DispatchAction>, Error> {
        let talk = self.talk().ok_or_else(|| Error::new(ErrorKind::NotInitialized))?;
        self.options.trace(TraceEvent::Received(&message));
        let mut duties = Vec::new();
        for incoming in talk.hear(message)? {
            duties.extend(self.take_in(&talk, incoming, belongs_to).await);
        }
        Ok(duties)
    }

    /// Takes in one part of a message.
    pub(crate) async fn take_in(
        self: &Arc<Self>,
        talk: &ClientCodec,
        incoming: ServerMessage,
        belongs_to: Option<&CallId>,
    ) -> Option<DispatchAction> {
        match incoming {
            ServerMessage::Reply { id, result } => {
                self.reply(id.or_else(|| belongs_to.cloned()), result)
            }
            ServerMessage::ServerNotification(heard) => self.heard(heard, belongs_to).await,
            ServerMessage::Cancelled { id } => self.cancelled(&id),
            // A modern client must not answer.
            ServerMessage::Ping { .. }
            | ServerMessage::ClientRequest { .. }
            | ServerMessage::Refused { .. }
                if talk.is_modern() =>
            {
                self.options.note("ignored a request, which a server of this revision cannot make");
            }
            ServerMessage::Ping { id } => {
                return Some(DispatchAction::Send(written(|out| talk.pong(&id, out))));
            }
            ServerMessage::Refused { id, error } => return Some(refuse(talk, &id, &error)),
            ServerMessage::ClientRequest { id, ask } => {
                return self.asked(talk, id, ask, belongs_to);
            }
            _ => {}
        }
        None
    }

    fn reply(&self, id: Option<CallId>, result: Result<ByteString, Error>) {
        let mut state = self.lock();
        let sent = |entry: &PendingEntry| !matches!(entry.place, PendingKind::Played { .. });
        // What the server could not read can only be the one thing that was sent.
        let id = id.or_else(|| {
            let mut ids = state.under_way.iter().filter(|(_, entry)| sent(entry));
            ids.next().filter(|_| ids.next().is_none()).map(|(id, _)| id.clone())
        });
        // A late reply finds nobody.
        let id = id.filter(|id| state.under_way.get(id).is_some_and(sent));
        let entry = id.and_then(|id| state.under_way.remove(&id));
        drop(state);
        if let Some(entry) = entry {
            let _ = entry.reply.send(result);
        }
    }

    /// The server takes a question back, or ends a listen.
    fn cancelled(&self, id: &CallId) {
        let mut state = self.lock();
        let listens = |entry: &PendingEntry| matches!(entry.place, PendingKind::Listen { .. });
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

    async fn heard(&self, heard: ServerNotification, belongs_to: Option<&CallId>) {
        let ServerNotification { notification, token, subscription } = heard;
        match notification {
            Notification::Progress { .. } => {
                let call = self.recipient(token.as_ref()).or_else(|| self.recipient(belongs_to));
                if let Some(call) = call {
                    call.tell(notification).await;
                }
            }
            // The word of a task whose call has not heard yet that it is one.
            Notification::TaskProgress { progress, total, message, .. }
                if self.recipient(token.as_ref()).is_some() =>
            {
                if let Some(call) = self.recipient(token.as_ref()) {
                    call.tell(Notification::Progress { progress, total, message }).await;
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
            let PendingKind::Played { filter, silent, missed } = &mut entry.place else { continue };
            if !filter.wants(&notification) {
                continue;
            }
            match &entry.recipient {
                Some(recipient) if !*silent => listeners.push(recipient.clone()),
                _ => *missed = true,
            }
        }
        // However many do not look, reading waits once.
        let end = Instant::now() + PATIENCE;
        for listener in listeners {
            listener.tell_until(end, notification.clone()).await;
        }
    }

    pub(super) fn tell_ears(&self, notification: &Notification) {
        let ears: Vec<_> = self.lock().ears.iter().filter_map(Weak::upgrade).collect();
        ears.iter().for_each(|ear| ear.heard(notification));
    }

    /// What to do about a question: put it to the call it belongs to, or else to `UnsolicitedRequestHandler`.
    fn asked(
        self: &Arc<Self>,
        talk: &ClientCodec,
        id: CallId,
        ask: ClientRequest,
        belongs_to: Option<&CallId>,
    ) -> Option<DispatchAction> {
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
        let question = OpenServerRequest { desk: self.clone(), id };
        let talk = talk.clone();
        Some(DispatchAction::Answer(Box::pin(async move {
            let answering: BoxFuture<Result<String, Error>> = match call {
                Some(call) => Box::pin(call.outbox.ask(ask)),
                None => question.desk.options.orphans.ask(ask),
            };
            tokio::select! {
                biased;
                _ = withdrawn => None,
                answer = answering => {
                    let message = written(|out| talk.answer(&question.id, answer.as_deref(), out));
                    Some((message, question))
                }
            }
        })))
    }

    fn recipient(&self, id: Option<&CallId>) -> Option<Arc<CallRecipient>> {
        self.lock().under_way.get(id?)?.recipient.clone()
    }

    fn is_listen(&self, id: &CallId) -> bool {
        self.listen(Some(id)).is_some()
    }

    fn listen(&self, id: Option<&CallId>) -> Option<(Arc<CallRecipient>, Arc<AtomicBool>)> {
        let state = self.lock();
        let entry = state.under_way.get(id?)?;
        let PendingKind::Listen { acknowledged } = &entry.place else { return None };
        Some((entry.recipient.clone()?, acknowledged.clone()))
    }

    /// The call under way, if there is exactly one whose `asks` fits.
    fn only_call(&self, fits: impl Fn(bool) -> bool) -> Option<Arc<CallRecipient>> {
        let state = self.lock();
        let is_call = |entry: &&PendingEntry| matches!(entry.place, PendingKind::Call { asks } if fits(asks));
        let mut calls = state.under_way.values().filter(is_call);
        calls.next().filter(|_| calls.next().is_none())?.recipient.clone()
    }
}

/// An open question of the server; dropping it makes room for another.
pub(crate) struct OpenServerRequest {
    desk: Arc<PendingRequests>,
    id: CallId,
}

impl Drop for OpenServerRequest {
    fn drop(&mut self) {
        self.desk.lock().questions.remove(&self.id);
    }
}

fn refuse(talk: &ClientCodec, id: &CallId, error: &Error) -> DispatchAction {
    DispatchAction::Send(written(|out| talk.answer(id, Err(error), out)))
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}
