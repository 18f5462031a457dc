//! Handles messages posted to a session.

use std::{
    future::{poll_fn, ready},
    sync::Arc,
};

use wharf_model::{Error, Outcome, RefusalReason, Request, RequestExtensions};
use wharf_wire::{Codec, Received};

use crate::server::http::session::{
    call::{ReplyCollector, StartedCall},
    event_log::{FirstEvent, ReplyStatus},
    idle_time::SessionGuard,
    live_session::Session,
    refusals::{listen_refused, not_found},
    stream_reader::StreamReader,
};
use crate::server::{
    call_driver::{CallStep, spawn_notification},
    context::PendingNotification,
    http::{
        HttpBody,
        cluster::{STORE_UNAVAILABLE, StoreUnavailable},
        response,
        response::{EventualResponse, HttpResponse},
        response_body::EventSource,
        response_form::ResponseForm,
    },
    jsonl::in_flight::{duplicate_id, overloaded},
    observed::ObservedPeer,
};

/// The POST request that a message or batch came with.
pub(super) struct PostContext {
    pub(super) guard: SessionGuard,
    pub(super) scope: RequestExtensions,
    pub(super) form: ResponseForm,
    pub(super) length: usize,
}

impl PostContext {
    /// Handles a decoded message of a session.
    pub(super) fn handle(self, received: Received) -> EventualResponse<'static> {
        match received {
            Received::Call(request, codec) if !codec.is_silent() => self.call(request, codec),
            Received::Reply(reply, status, refused) => match self.start_listen(false) {
                Ok(()) => {
                    let reply = self.complete_reply(reply, status);
                    self.after_listen_start(response::mark_refused(refused, reply))
                }
                Err(error) => EventualResponse::Now(listen_refused(&error)),
            },
            Received::Batch(members) => {
                let context = &self.guard.session().common.context;
                ObservedPeer::new(context, &self.scope).refused_members(&members);
                self.batch(members)
            }
            other => {
                self.handle_one_way(other);
                self.after_listen_start(response::status(202))
            }
        }
    }

    /// Starts the session's subscription if it is due.
    fn start_listen(&self, has_session_stream: bool) -> Result<(), Box<Error>> {
        let session = self.guard.session();
        session.kind.start_listen(session, &self.scope, has_session_stream)
    }

    fn call(mut self, request: Request, codec: Codec) -> EventualResponse<'static> {
        if let Err(error) = check_admission(&self.guard, &codec) {
            let reason = RefusalReason::of_kind(error.kind);
            return EventualResponse::Now(response::refused(reason, refuse(&codec, error)));
        }
        if codec.may_become_task() {
            // The subscription delivers the task's status notifications. If it cannot start now, the client
            // still polls the task.
            let _ = self.start_listen(false);
        }
        let scope = std::mem::take(&mut self.scope);
        let quiet = self.form.is_reply_only();
        let started = StartedCall::new(&self.guard, request, codec, scope, quiet);
        if let Some(CallStep::Ended(outcome)) = &started.first {
            let mut reply = Vec::new();
            let status = started.codec().encode(outcome, &mut reply);
            if matches!(outcome, Outcome::Task(_)) {
                self.guard.kind.save(self.guard.session());
            }
            return EventualResponse::Now(match self.form.is_json_for(status) {
                true => response::ended(status, outcome, reply),
                false => self.guard.kind.one_event(&self.guard, reply),
            });
        }
        let stream_reader = started.spawn_with_stream(&self.guard, self.length);
        EventualResponse::later(follow(self.guard, self.form, stream_reader, false))
    }

    fn batch(self, members: Vec<Received>) -> EventualResponse<'static> {
        let (collector, stream_reader) = ReplyCollector::open(&self.guard, true);
        let mut due = false;
        for member in members {
            due |= self.batch_member(&collector, member);
        }
        if !due {
            self.guard.remove_stream(collector.log.number);
            return self.after_listen_start(response::status(202));
        }
        collector.hold(self.length);
        collector.release();
        let listen_started = self.guard.listen_starting();
        let following = follow(self.guard, self.form, stream_reader, true);
        EventualResponse::later(after(listen_started, following))
    }

    /// Handles one member of a batch. True if it has a reply.
    fn batch_member(&self, collector: &Arc<ReplyCollector>, member: Received) -> bool {
        let reply = |text: Vec<u8>| collector.add(text, ReplyStatus { status: 200, refused: None });
        match member {
            Received::Call(request, codec) if !codec.is_silent() => {
                let full = if collector.is_full() { Err(overloaded()) } else { Ok(()) };
                if let Err(error) = full.and_then(|()| check_admission(&self.guard, &codec)) {
                    let mut refusal = Vec::new();
                    codec.refuse(&error, &mut refusal);
                    reply(refusal);
                    return true;
                }
                let (scope, quiet) = (self.scope.clone(), self.form.is_reply_only());
                let started = StartedCall::new(&self.guard, request, codec, scope, quiet);
                collector.expect_reply(started.codec());
                if let Some(CallStep::Ended(outcome)) = &started.first {
                    let mut text = Vec::new();
                    started.codec().encode(outcome, &mut text);
                    reply(text);
                } else {
                    // The collector counts the whole batch, because any of its calls keeps the message.
                    started.spawn(collector.clone(), 0);
                }
            }
            Received::Reply(text, ..) => {
                // A subscription that cannot start now is retried with the next message or the next GET.
                let _ = self.start_listen(false);
                reply(text);
            }
            other => {
                self.handle_one_way(other);
                return false;
            }
        }
        true
    }

    /// Runs the handler of a notification, which ends with the session at the latest.
    fn run_notification(&self, request: Request) {
        let session = self.guard.session();
        let Some(pending) = session.common.context.start_notification(request) else { return };
        let Some(tasks) = session.common.tasks.upgrade() else { return };
        let guard = self.guard.clone();
        let in_use: PendingNotification = Box::pin(async move {
            let _guard = guard;
            pending.await;
        });
        spawn_notification(session, self.length, in_use, |run| tasks.spawn(run));
    }

    /// Handles a message without a reply: a response, a cancellation or a notification.
    fn handle_one_way(&self, received: Received) {
        let session = self.guard.session();
        match (received, session.calls_if_any()) {
            (Received::Answer(number, answer), Some(calls)) => calls.answer(number, answer),
            (Received::Cancel(id), Some(calls)) => calls.cancel(&id),
            (Received::Notify(mut request), _) => {
                request.scope = self.scope.clone();
                self.run_notification(request);
            }
            (Received::Call(request, codec), _) => {
                match session.common.context.service.change_version() {
                    Some(now) => {
                        session.connection().postpone_listen(now);
                        let _ = self.start_listen(session.has_session_stream());
                    }
                    None => {
                        let scope = self.scope.clone();
                        let started = StartedCall::new(session, request, codec, scope, false);
                        started.spawn_listen(session);
                    }
                }
            }
            // Batches do not nest.
            _ => {}
        }
    }

    /// Sends a complete reply. If the session's subscription is being started, it waits for that: the reply may
    /// confirm a `resources/subscribe`.
    fn after_listen_start(&self, reply: HttpResponse) -> EventualResponse<'static> {
        match self.guard.listen_starting() {
            None => EventualResponse::Now(reply),
            listen_started => EventualResponse::later(after(listen_started, ready(reply))),
        }
    }

    /// Returns the response for a complete reply.
    fn complete_reply(&self, reply: Vec<u8>, status: u16) -> HttpResponse {
        if self.form.is_json_for(status) {
            return response::json(status, reply);
        }
        self.guard.kind.one_event(&self.guard, reply)
    }
}

/// Returns the response of a call or batch: JSON if the reply is the only message, else a stream of events.
async fn follow(
    guard: SessionGuard,
    form: ResponseForm,
    stream_reader: Option<StreamReader>,
    batch: bool,
) -> HttpResponse {
    let Some(stream_reader) = stream_reader else { return not_found() };
    match first(&stream_reader, form).await {
        FirstEvent::Message => stored_stream(stream_reader, batch).await,
        FirstEvent::Nothing if guard.is_ended() => not_found(),
        FirstEvent::Nothing if form.is_reply_only() => response::status(202),
        FirstEvent::Nothing => response::events(HttpBody::empty()),
        FirstEvent::Reply(ReplyStatus { status, .. }) if !form.is_json_for(status) => {
            stored_stream(stream_reader, batch).await
        }
        FirstEvent::Reply(reply_status) => {
            let reply = stream_reader.into_reply();
            // The session ended just now and discarded the reply.
            if reply.is_empty() {
                return not_found();
            }
            let mut reply = response::json(reply_status.status, reply);
            if let Some(error) = reply_status.refused {
                response::explain(&mut reply, &error);
            }
            reply
        }
    }
}

/// Awaits the start of the session's subscription, then the reply.
async fn after(
    listen_started: Option<impl Future<Output = ()>>,
    reply: impl Future<Output = HttpResponse>,
) -> HttpResponse {
    if let Some(listen_started) = listen_started {
        listen_started.await;
    }
    reply.await
}

/// Waits for the first event of a stream. After the keep-alive interval it reports a message, so that the
/// response begins before the client gives up.
async fn first(stream_reader: &StreamReader, form: ResponseForm) -> FirstEvent {
    let first = poll_fn(|cx| stream_reader.poll_first(cx));
    form.first_message(stream_reader.keep_alive(), first).await.unwrap_or(FirstEvent::Message)
}

/// Returns a response that reads a stream from its start, after the stream was opened in the store.
async fn stored_stream(stream_reader: StreamReader, batch: bool) -> HttpResponse {
    match stream_reader.persist(batch).await {
        Ok(()) => stream(stream_reader),
        Err(StoreUnavailable) => response::busy(RefusalReason::StoreUnavailable, STORE_UNAVAILABLE),
    }
}

/// Returns a response that reads a stream from its start.
pub(crate) fn stream(mut stream_reader: StreamReader) -> HttpResponse {
    stream_reader.prime();
    events(stream_reader)
}

/// Returns a response that reads a stream.
pub(crate) fn events(stream_reader: StreamReader) -> HttpResponse {
    let every = stream_reader.keep_alive();
    response::events(HttpBody::events(EventSource::Session(stream_reader), every))
}

/// Checks that the request id is free and that the limits allow another call.
fn check_admission(session: &Session, codec: &Codec) -> Result<(), Error> {
    let Some(in_flight) = session.calls_if_any().filter(|it| !it.is_empty()) else {
        return Ok(());
    };
    if in_flight.has_id_of(codec) {
        return Err(duplicate_id());
    }
    let common = &session.common;
    let free = in_flight.calls() < common.limits.session_calls;
    if free && in_flight.has_memory(&common.context.limits) { Ok(()) } else { Err(overloaded()) }
}

pub(crate) fn refuse(codec: &Codec, error: Error) -> HttpResponse {
    let mut refusal = Vec::new();
    let status = codec.refuse(&error, &mut refusal);
    response::ended(status, &error.into(), refusal)
}
