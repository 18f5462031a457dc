//! Dispatches messages of the server to calls, subscriptions and listeners.

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
use wharf_model::{
    BoxFuture, ClientRequest, Error, ErrorKind, FailureOrigin, Notification, Outbox,
};
use wharf_wire::{CallId, ClientCodec, ServerMessage, ServerNotification};

use crate::client::TraceEvent;
use crate::client::pending::{PendingEntry, PendingKind, PendingRequests, changes};

/// Time that reading waits for a call with a full outbox.
const RECIPIENT_TIMEOUT: Duration = Duration::from_secs(5);

/// An action that a message requires of the transport.
pub(crate) enum DispatchAction {
    /// Send this message: the answer to a ping, or an error.
    Send(Vec<u8>),
    /// Run this future concurrently and send its message; `None` if the request was withdrawn. The
    /// request counts as open until it is dropped, after sending, so that answers do not accumulate
    /// for a server that does not read them.
    Answer(BoxFuture<Option<(Vec<u8>, OpenServerRequest)>>),
}

/// A call that receives notifications, with back-pressure.
pub(super) struct CallRecipient {
    outbox: Outbox,
    /// Set after reading waited in vain. Then it does not wait again until the outbox has room.
    stalled: AtomicBool,
}

impl CallRecipient {
    pub(super) fn new(outbox: &Outbox) -> Self {
        CallRecipient { outbox: outbox.clone(), stalled: AtomicBool::new(false) }
    }

    /// Delivers a notification once the outbox has room, within the timeout.
    async fn notify(&self, notification: Notification) {
        self.notify_until(Instant::now() + RECIPIENT_TIMEOUT, notification).await;
    }

    /// Delivers a notification once the outbox has room, before `end`.
    async fn notify_until(&self, end: Instant, notification: Notification) {
        let end = if self.stalled.load(Ordering::Relaxed) { Instant::now() } else { end };
        let stalled = timeout_at(end, self.outbox.wait_for_capacity()).await.is_err();
        self.stalled.store(stalled, Ordering::Relaxed);
        if !stalled {
            self.outbox.notify(notification);
        }
    }
}

impl PendingRequests {
    /// Dispatches one message, in order of arrival, and returns the actions that it requires. On
    /// HTTP, `belongs_to` is the call on whose stream it arrived. Waits up to the timeout for a
    /// call with a full outbox.
    ///
    /// # Errors
    /// If it is not a JSON-RPC message. It has no effect then.
    pub(crate) async fn receive(
        self: &Arc<Self>,
        message: Bytes,
        belongs_to: Option<&CallId>,
    ) -> Result<Vec<DispatchAction>, Error> {
        let codec = self.codec().ok_or_else(not_initialized)?;
        self.options.record(TraceEvent::Received(&message));
        let mut actions = Vec::new();
        for incoming in codec.decode(message)? {
            actions.extend(self.dispatch(&codec, incoming, belongs_to).await);
        }
        Ok(actions)
    }

    /// Dispatches one part of a message.
    pub(crate) async fn dispatch(
        self: &Arc<Self>,
        codec: &ClientCodec,
        incoming: ServerMessage,
        belongs_to: Option<&CallId>,
    ) -> Option<DispatchAction> {
        match incoming {
            ServerMessage::Reply { id, result } => {
                self.on_reply(id.or_else(|| belongs_to.cloned()), result)
            }
            ServerMessage::ServerNotification(received) => {
                self.on_notification(codec, received, belongs_to).await
            }
            ServerMessage::Cancelled { id } => self.on_cancelled(&id),
            // The client must not answer where the server cannot send requests.
            ServerMessage::Ping { .. }
            | ServerMessage::ClientRequest { .. }
            | ServerMessage::Refused { .. }
                if !codec.has_server_requests() =>
            {
                self.options
                    .note("ignored a request: servers of this revision cannot send requests");
            }
            ServerMessage::Ping { id } => {
                return Some(DispatchAction::Send(written(|out| codec.pong(&id, out))));
            }
            ServerMessage::Refused { id, error } => return Some(refuse(codec, &id, &error)),
            ServerMessage::ClientRequest { id, ask } => {
                return self.on_server_request(codec, id, ask, belongs_to);
            }
            _ => {}
        }
        None
    }

    fn on_reply(&self, id: Option<CallId>, result: Result<ByteString, Error>) {
        let mut state = self.lock();
        let sent = |entry: &PendingEntry| !matches!(entry.kind, PendingKind::EmulatedListen { .. });
        // An error without an id can only concern the one request in flight.
        let id = id.or_else(|| {
            let mut ids = state.in_flight.iter().filter(|(_, entry)| sent(entry));
            ids.next().filter(|_| ids.next().is_none()).map(|(id, _)| id.clone())
        });
        // A late reply has no entry and is ignored.
        let id = id.filter(|id| state.in_flight.get(id).is_some_and(sent));
        let entry = id.and_then(|id| state.in_flight.remove(&id));
        drop(state);
        if let Some(entry) = entry {
            let _ = entry.reply.send(result);
        }
    }

    /// The server withdraws its request, or ends a subscription.
    fn on_cancelled(&self, id: &CallId) {
        let mut state = self.lock();
        let listens = |entry: &PendingEntry| matches!(entry.kind, PendingKind::Listen { .. });
        if state.in_flight.get(id).is_some_and(listens) {
            let entry = state.in_flight.remove(id);
            drop(state);
            if let Some(entry) = entry {
                let _ = entry.reply.send(Ok(ByteString::from_static("{}")));
            }
        } else {
            state.server_requests.remove(id);
        }
    }

    async fn on_notification(
        &self,
        codec: &ClientCodec,
        received: ServerNotification,
        belongs_to: Option<&CallId>,
    ) {
        let ServerNotification { notification, token, subscription } = received;
        match notification {
            Notification::Progress { .. } => {
                let call = self.recipient(token.as_ref()).or_else(|| self.recipient(belongs_to));
                if let Some(call) = call {
                    call.notify(notification).await;
                }
            }
            // Progress of a task, before the call has received the task.
            Notification::TaskProgress { progress, total, message, .. }
                if self.recipient(token.as_ref()).is_some() =>
            {
                if let Some(call) = self.recipient(token.as_ref()) {
                    call.notify(Notification::Progress { progress, total, message }).await;
                }
            }
            Notification::Log { .. } => {
                match self.recipient(belongs_to).or_else(|| self.only_call(|_| true)) {
                    Some(call) => call.notify(notification).await,
                    None => self.notify_listeners(&notification),
                }
            }
            _ if subscription.is_some() || belongs_to.is_some_and(|id| self.is_listen(id)) => {
                self.on_listen_notification(subscription.as_ref().or(belongs_to), notification)
                    .await;
            }
            Notification::Acknowledged(_) => {}
            Notification::Custom(_) => match self.recipient(belongs_to) {
                Some(call) => call.notify(notification).await,
                None => self.on_custom_notification(codec, notification).await,
            },
            _ => self.broadcast(notification).await,
        }
    }

    /// Delivers a custom notification that names no call and no subscription. It belongs to the only call in
    /// flight, if there is one; among several it could belong to any, and their callers may differ.
    async fn on_custom_notification(&self, codec: &ClientCodec, notification: Notification) {
        if let Some(call) = self.only_call(|_| true) {
            call.notify(notification).await;
        } else if codec.has_sessions() && !self.has_calls() {
            self.broadcast(notification).await;
        } else {
            self.notify_listeners(&notification);
        }
    }

    /// Delivers a notification to the subscription with this id.
    async fn on_listen_notification(&self, id: Option<&CallId>, notification: Notification) {
        let Some((listen, acknowledged)) = self.listen(id) else { return };
        if matches!(notification, Notification::Custom(_)) {
            self.notify_listeners(&notification);
        }
        match notification {
            Notification::Acknowledged(filter) if acknowledged.swap(true, Ordering::Relaxed) => {
                for change in changes(&filter) {
                    listen.notify(change).await;
                }
            }
            _ => listen.notify(notification).await,
        }
    }

    /// Delivers a notification to all listeners and matching subscriptions.
    async fn broadcast(&self, notification: Notification) {
        self.notify_listeners(&notification);
        let mut listeners = Vec::new();
        for entry in self.lock().in_flight.values_mut() {
            let PendingKind::EmulatedListen { filter, silent, missed } = &mut entry.kind else {
                continue;
            };
            if !filter.includes(&notification) {
                continue;
            }
            match &entry.recipient {
                Some(recipient) if !*silent => listeners.push(recipient.clone()),
                _ => *missed = true,
            }
        }
        // One timeout for all of them together.
        let end = Instant::now() + RECIPIENT_TIMEOUT;
        for listener in listeners {
            listener.notify_until(end, notification.clone()).await;
        }
    }

    pub(super) fn notify_listeners(&self, notification: &Notification) {
        let listeners: Vec<_> = self.lock().listeners.iter().filter_map(Weak::upgrade).collect();
        listeners.iter().for_each(|listener| listener.on_notification(notification));
    }

    /// Passes a server request to the call it belongs to, or else to
    /// [`UnsolicitedRequestHandler`](crate::client::UnsolicitedRequestHandler).
    fn on_server_request(
        self: &Arc<Self>,
        codec: &ClientCodec,
        id: CallId,
        ask: ClientRequest,
        belongs_to: Option<&CallId>,
    ) -> Option<DispatchAction> {
        let call = self.recipient(belongs_to).or_else(|| self.only_call(|asks| asks));
        let (open, withdrawn) = oneshot::channel();
        let mut state = self.lock();
        let most = self.options.limits.asks;
        if state.server_requests.contains_key(&id) {
            return None;
        }
        if state.server_requests.len() >= most {
            let error = Error::new(ErrorKind::Overloaded)
                .with_message(format!("{most} requests are open already: wait for an answer"));
            return Some(refuse(codec, &id, &error));
        }
        state.server_requests.insert(id.clone(), open);
        drop(state);
        let request = OpenServerRequest { pending: self.clone(), id };
        let codec = codec.clone();
        Some(DispatchAction::Answer(Box::pin(async move {
            let answering: BoxFuture<Result<String, Error>> = match call {
                Some(call) => Box::pin(call.outbox.ask(ask)),
                None => request.pending.options.unsolicited_requests.ask(ask),
            };
            tokio::select! {
                biased;
                _ = withdrawn => None,
                answer = answering => {
                    let message = written(|out| codec.answer(&request.id, answer.as_deref(), out));
                    Some((message, request))
                }
            }
        })))
    }

    fn recipient(&self, id: Option<&CallId>) -> Option<Arc<CallRecipient>> {
        self.lock().in_flight.get(id?)?.recipient.clone()
    }

    fn is_listen(&self, id: &CallId) -> bool {
        self.listen(Some(id)).is_some()
    }

    fn listen(&self, id: Option<&CallId>) -> Option<(Arc<CallRecipient>, Arc<AtomicBool>)> {
        let state = self.lock();
        let entry = state.in_flight.get(id?)?;
        let PendingKind::Listen { acknowledged } = &entry.kind else { return None };
        Some((entry.recipient.clone()?, acknowledged.clone()))
    }

    fn has_calls(&self) -> bool {
        let state = self.lock();
        state.in_flight.values().any(|entry| matches!(entry.kind, PendingKind::Call { .. }))
    }

    /// The only call in flight for which `fits(asks)` holds, if there is exactly one.
    fn only_call(&self, fits: impl Fn(bool) -> bool) -> Option<Arc<CallRecipient>> {
        let state = self.lock();
        let is_call =
            |entry: &&PendingEntry| matches!(entry.kind, PendingKind::Call { asks } if fits(asks));
        let mut calls = state.in_flight.values().filter(is_call);
        calls.next().filter(|_| calls.next().is_none())?.recipient.clone()
    }
}

/// An open request of the server; dropping it frees its slot.
pub(crate) struct OpenServerRequest {
    pending: Arc<PendingRequests>,
    id: CallId,
}

impl Drop for OpenServerRequest {
    fn drop(&mut self) {
        self.pending.lock().server_requests.remove(&self.id);
    }
}

fn not_initialized() -> Error {
    Error::new(ErrorKind::NotInitialized).from_client(FailureOrigin::NotSent)
}

fn refuse(codec: &ClientCodec, id: &CallId, error: &Error) -> DispatchAction {
    DispatchAction::Send(written(|out| codec.answer(id, Err(error), out)))
}

fn written(write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::new();
    write(&mut out);
    out
}
