//! Handles messages posted to a session.

use std::{future::ready, sync::Arc};

use wharf_model::{Error, Outcome, RefusalReason, Request, RequestExtensions};
use wharf_wire::{Codec, Received};

use crate::server::http::session::{
    call::{ReplyCollector, SessionCall},
    event_log::ReplyStatus,
    idle_time::SessionGuard,
    refusals::{listen_refused, not_found},
};
use crate::server::{
    admission,
    call_driver::{CallStep, spawn_notification},
    context::PendingNotification,
    http::{
        response,
        response::{EventualResponse, HttpResponse},
        response_form::ResponseForm,
    },
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

    /// Checks that the request id is free and that the limits allow another call.
    fn admit(&self, codec: &Codec) -> Result<(), Error> {
        let common = &self.guard.common;
        let (limits, most) = (&common.context.limits, common.limits.session_calls);
        admission::admit(self.guard.calls_if_any(), codec, limits, most)
    }

    /// Starts the session's subscription if it is due.
    fn start_listen(&self, has_session_stream: bool) -> Result<(), Box<Error>> {
        let session = self.guard.session();
        session.kind.start_listen(session, &self.scope, has_session_stream)
    }

    fn call(mut self, request: Request, codec: Codec) -> EventualResponse<'static> {
        if let Err(error) = self.admit(&codec) {
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
        let call = SessionCall::start(self.guard.session(), request, codec, scope, quiet);
        if let Some(CallStep::Ended(outcome)) = &call.first {
            let mut reply = Vec::new();
            let status = call.codec().encode(outcome, &mut reply);
            if matches!(outcome, Outcome::Task(_)) {
                self.guard.kind.save(self.guard.session());
            }
            return EventualResponse::Now(match self.form.is_json_for(status) {
                true => response::ended(status, outcome, reply),
                false => self.guard.kind.one_event(&self.guard, reply),
            });
        }
        let (collector, stream_reader) = ReplyCollector::open(&self.guard, false);
        collector.expect_reply(call.codec());
        call.spawn(collector.log.clone(), Some(collector), self.length);
        match stream_reader {
            Some(reader) => EventualResponse::later(reader.into_response(self.form, false)),
            None => EventualResponse::Now(not_found()),
        }
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
        let Some(reader) = stream_reader else { return EventualResponse::Now(not_found()) };
        let response = reader.into_response(self.form, true);
        EventualResponse::later(after(self.guard.listen_starting(), response))
    }

    /// Handles one member of a batch. True if it has a reply.
    fn batch_member(&self, collector: &Arc<ReplyCollector>, member: Received) -> bool {
        let reply = |text: Vec<u8>| collector.add(text, ReplyStatus { status: 200, refused: None });
        match member {
            Received::Call(request, codec) if !codec.is_silent() => {
                let admitted = admission::check_room(!collector.is_full());
                if let Err(error) = admitted.and_then(|()| self.admit(&codec)) {
                    let mut refusal = Vec::new();
                    codec.refuse(&error, &mut refusal);
                    reply(refusal);
                    return true;
                }
                let (scope, quiet) = (self.scope.clone(), self.form.is_reply_only());
                let call = SessionCall::start(self.guard.session(), request, codec, scope, quiet);
                collector.expect_reply(call.codec());
                if let Some(CallStep::Ended(outcome)) = &call.first {
                    let mut text = Vec::new();
                    call.codec().encode(outcome, &mut text);
                    reply(text);
                } else {
                    // The collector counts the whole batch, because any of its calls keeps the message.
                    call.spawn(collector.log.clone(), Some(collector.clone()), 0);
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
                        let call = SessionCall::start(session, request, codec, scope, false);
                        call.spawn(session.session_stream(), None, 0);
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

pub(crate) fn refuse(codec: &Codec, error: Error) -> HttpResponse {
    let mut refusal = Vec::new();
    let status = codec.refuse(&error, &mut refusal);
    response::ended(status, &error.into(), refusal)
}
