//! `initialize` over HTTP: opens a session, and sends its id in `Mcp-Session-Id`.

use std::{
    future::poll_fn,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::HeaderValue;
use wharf_model::{Caller, Outcome, RefusalReason, Request, RequestExtensions};
use wharf_wire::{Codec, Connection, Received};

use crate::server::{
    call_driver::CallDriver,
    http::{
        request_headers::RequestHeaders,
        response,
        response::HttpResponse,
        response_form::ResponseForm,
        session::{
            idle_time::SessionGuard,
            kinds::Sessions,
            live_session::{Session, SessionContext},
            post,
        },
    },
};

/// Header that carries the session id.
const SESSION_ID_HEADER: &str = "mcp-session-id";

/// A new session with its id.
pub(crate) struct StoredSession {
    pub(super) session: Arc<Session>,
    pub(super) id: String,
}

impl SessionContext {
    /// Runs a call to its end. The call is cancelled if the client disconnects first.
    async fn run(&self, request: Request, codec: Codec) -> (CallDriver, Outcome) {
        let mut call = CallDriver::start(&self.context, request, codec, true);
        // A waker is not needed: a pending call is polled again at once.
        let first = call.poll_outcome(&mut Context::from_waker(Waker::noop()));
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                call.end_early(&self.shutdown, self.limits.grace, None);
                poll_fn(|cx| call.poll_outcome(cx)).await
            }
        };
        (call, outcome)
    }
}

/// Handles a message without a session id, which may be `initialize`.
pub(super) async fn open(
    sessions: &dyn Sessions,
    common: &SessionContext,
    parsed: &RequestHeaders<'_>,
    message: Bytes,
    scope: RequestExtensions,
) -> HttpResponse {
    let mut connection = Connection::new(common.context.wire.clone());
    match connection.receive_http(message, &parsed.message) {
        Received::Call(mut request, codec) => {
            let opener = Caller::of(&scope);
            request.scope = scope;
            let (call, outcome) = common.run(request, codec).await;
            let mut reply = Vec::new();
            let status = call.codec().encode(&outcome, &mut reply);
            if !connection.is_open() {
                return response::ended(status, &outcome, reply);
            }
            match sessions.store(connection, opener).await {
                Ok(stored) => session_opened(stored, parsed, reply),
                Err(error) => {
                    let reason = match error.kind.is_overloaded() {
                        true => RefusalReason::TooManySessions,
                        false => RefusalReason::of_kind(error.kind),
                    };
                    response::refused(reason, post::refuse(call.codec(), error))
                }
            }
        }
        Received::Reply(reply, status, refused) => response::replied(status, reply, refused),
        _ => response::status(202),
    }
}

fn session_opened(
    StoredSession { session, id }: StoredSession,
    parsed: &RequestHeaders<'_>,
    reply: Vec<u8>,
) -> HttpResponse {
    let mut reply = match ResponseForm::in_session(parsed.accept).is_json_for(200) {
        true => response::json(200, reply),
        false => session.kind.one_event(&SessionGuard::new(session.clone()), reply),
    };
    if let Ok(id) = HeaderValue::from_str(&id) {
        reply.headers_mut().insert(SESSION_ID_HEADER, id);
    }
    reply
}
