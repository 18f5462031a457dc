//! Sessions in the memory of one process.

use std::{future::Future, pin::Pin, sync::Arc};

use bytes::Bytes;
use wharf_model::{Caller, Error, Outcome, RequestExtensions};
use wharf_wire::{Connection, HeaderField};

use crate::server::http::session::{
    call::{ReplyCollector, SessionCall},
    cluster::event_writer::EventWriter,
    event_log::ReplyStatus,
    idle_time::SessionGuard,
    initialize::{StoredSession, open},
    kinds::{SessionKind, Sessions},
    live_session::{Session, SessionContext},
    post::PostContext,
    refusals::{
        find_error_response, listen_refused, not_found, required_session_id, too_many_sessions,
        unknown_event,
    },
    stream_reader,
    stream_reader::StreamReader,
    table::{SessionManager, TableEntry},
};
use crate::server::{
    call_driver::CallStep,
    http::{
        request_checks::check_version,
        request_headers::RequestHeaders,
        response,
        response::{EventualResponse, HttpResponse},
        response_form::ResponseForm,
    },
};

/// Sessions of an endpoint that no other process serves.
pub(crate) struct LocalSessions(Arc<SessionManager<Arc<Session>>>);

/// Kind of these sessions.
struct LocalSession;

impl LocalSessions {
    pub(crate) fn new(common: Arc<SessionContext>) -> Self {
        LocalSessions(SessionManager::new(common))
    }

    fn find(
        &self,
        parsed: &RequestHeaders<'_>,
        scope: &RequestExtensions,
    ) -> Result<SessionGuard, Box<HttpResponse>> {
        let guard =
            self.0.find(required_session_id(parsed)?, scope).map_err(find_error_response)?;
        guard.set_principal(scope);
        Ok(guard)
    }

    /// Opens the session's stream, or resumes one of its streams.
    fn stream(
        &self,
        parsed: &RequestHeaders<'_>,
        scope: &RequestExtensions,
    ) -> Result<HttpResponse, Box<HttpResponse>> {
        check_version(parsed, &self.0.common.context.wire)?;
        let guard = self.find(parsed, scope)?;
        let own = guard.session_stream();
        let listening = guard.kind.start_listen(guard.session(), scope, true);
        if parsed.last_event != HeaderField::Absent {
            let event = parsed.last_event.one().and_then(stream_reader::parse);
            let resumed =
                event.and_then(|(stream, event)| StreamReader::resume(guard, stream, event));
            return Ok(resumed.map_or_else(unknown_event, StreamReader::into_events));
        }
        Ok(match (StreamReader::attach(guard, own), listening) {
            (Some(stream_reader), Ok(())) => stream_reader.into_events_from_start(),
            (Some(_), Err(error)) => listen_refused(&error),
            (None, _) => response::refuse(
                409,
                "The session's stream is already open: close it first, or resume it with Last-Event-ID",
            ),
        })
    }
}

impl Sessions for LocalSessions {
    fn post<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        if parsed.session == HeaderField::Absent {
            return EventualResponse::later(open(self, &self.0.common, parsed, message, scope));
        }
        let guard = match self.find(parsed, &scope) {
            Ok(guard) => guard,
            Err(refusal) => return EventualResponse::Now(*refusal),
        };
        let (form, length) = (ResponseForm::in_session(parsed.accept), message.len());
        // A statement of its own, so that the connection is unlocked before the message is handled.
        let received = guard.connection().receive_http(message, &parsed.message);
        PostContext { guard, scope, form, length }.handle(received)
    }

    fn get<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        EventualResponse::Now(self.stream(parsed, &scope).unwrap_or_else(|refusal| *refusal))
    }

    fn end_all(&self) {
        self.0.end_all();
    }

    fn delete<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        let name = check_version(parsed, &self.0.common.context.wire)
            .and_then(|()| required_session_id(parsed));
        EventualResponse::Now(match name {
            Ok(name) if self.0.remove(name, &scope) => response::status(204),
            Ok(_) => not_found(),
            Err(refusal) => *refusal,
        })
    }

    fn store(
        &self,
        connection: Connection,
        opener: Caller,
    ) -> Pin<Box<dyn Future<Output = Result<StoredSession, Error>> + Send + '_>> {
        let session =
            Session::new(self.0.common.clone(), connection, opener, Box::new(LocalSession));
        let id = self.0.insert(&session).ok_or_else(too_many_sessions);
        Box::pin(std::future::ready(id.map(|id| StoredSession { session, id })))
    }
}

impl TableEntry for Arc<Session> {
    fn guard(&self) -> SessionGuard {
        SessionGuard::new(self.clone())
    }

    fn after_sweep(_: &Arc<SessionManager<Self>>) {}
}

impl SessionKind for LocalSession {
    fn first_request_number(&self) -> u64 {
        0
    }

    fn stream_number(&self, newest: u64) -> u64 {
        newest
    }

    fn event_writer(&self, _: &Arc<Session>, _: u64) -> Option<EventWriter> {
        None
    }

    /// Deferred until the client subscribes or opens the stream, because most idle sessions never read it.
    fn start_listen(
        &self,
        session: &Arc<Session>,
        scope: &RequestExtensions,
        has_session_stream: bool,
    ) -> Result<(), Box<Error>> {
        // Locked while the subscription starts: a `resources/subscribe` that arrives meanwhile must not be
        // answered before updates are delivered.
        let mut connection = session.connection();
        let Some((request, codec)) = connection.due_listen(has_session_stream) else {
            return Ok(());
        };
        let since = request.since;
        let mut call = SessionCall::start(session, request, codec, scope.clone(), false);
        match (call.first.take(), since) {
            (Some(CallStep::Ended(Outcome::Failed(error))), Some(since))
                if error.kind.is_retryable() =>
            {
                connection.postpone_listen(since);
                return Err(error);
            }
            (None, _) => call.start_guard = Some(session.mark_listen_starting()),
            (first, _) => call.first = first,
        }
        call.spawn(session.session_stream(), None, 0);
        Ok(())
    }

    fn one_event(&self, guard: &SessionGuard, reply: Vec<u8>) -> HttpResponse {
        let (collector, stream_reader) = ReplyCollector::open(guard, false);
        collector.add(reply, ReplyStatus { status: 200, refused: None });
        collector.release();
        stream_reader.map_or_else(not_found, StreamReader::into_events_from_start)
    }

    fn save(&self, _: &Arc<Session>) {}

    fn on_end(&self) {}
}
