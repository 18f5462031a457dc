//! Legacy sessions over HTTP: `Mcp-Session-Id`, resumable event streams and requests to the client.
//!
//! A call that does not end with its first poll becomes a task of its session and writes to an event stream. HTTP
//! responses only read streams, so a client that disconnects cancels nothing and can resume with `Last-Event-ID`.
//! Stream 0 is the session's stream (GET); each POST that needs one has a stream of its own.
//!
//! States of a stream, and the functions that change them:
//!
//! ```text
//!   Session::open_stream (POST), Session::session_stream (GET)
//!         |
//!         v        RunningCall: EventLog::send, push
//!       OPEN  <------------------------------------------+
//!         |  |                                           | append, wake the reader
//!         |  +-------------------------------------------+
//!         |
//!         |  ReplyCollector::release of the last call of the POST (its Drop, if that call was dropped): EventLog::end
//!         v
//!       ENDED  events stay for replay; queued in ReplayBudget
//!         |
//!         |  ReplayBudget (time or memory): EventLog::discard; end of the session: EventLog::close (also from OPEN)
//!         v
//!     DISCARDED
//!
//!   Reader of a stream, in OPEN and ENDED, at most one:
//!
//!      none --EventLog::attach (first response), resume (Last-Event-ID)--> attached
//!      attached --detach (client gone), resume by another, write timeout, release_connection--> none
//!
//!   In a cluster also, once a response has begun as a stream:
//!
//!      in memory --EventLog::persist (EventWriter::open, then the task EventWriter::run)--> persisted
//!         a persisted event is visible to readers only after EventWriter has stored it (EventLog::mark_stored)
//!      persisted, read here --resumed in another process: EventLog::detach_for_store--> persisted, read from the store
//! ```
//!
//! | Type | Part in a stream |
//! | --- | --- |
//! | `RunningCall` (`call`) | runs a call as a task and appends the messages of its `CallDriver` |
//! | `ReplyCollector` (`call`) | collects the replies of one POST; `release` of the last share ends the stream |
//! | `EventLog` (`event_log`) | the stream in memory: events, state, position of the reader (`LogReader`) |
//! | `ReplayBudget` (`replay_budget`) | limits the memory of all logs; discards ended streams of the largest holder |
//! | `StreamReader` (`stream_reader`) | HTTP response that reads an `EventLog` |
//! | `EventWriter` (`cluster::event_writer`) | copies events from the log to the store; `PersistState` is its progress |
//! | `EventRecord` (`cluster::event_record`) | one event in the store |
//! | `StoredStreamReader` (`cluster::stored_stream_reader`) | HTTP response that reads a stream from the store |
//! | `RegisteredReader` (`cluster::record`) | registration of a reader, unique per stream in the cluster |
//! | `SessionSubscription` (`get_stream`) | feeds stream 0 in a cluster while it is read |
//!
//! Where several processes serve a session (`cluster`), the session is a record in a store and the events of its
//! streams are stored before they are sent. A client that resumes at a process without these events reads them from
//! the store.
//!
//! There are two kinds of session. An endpoint has `LocalSessions` (`local`) or `SharedSessions` (`cluster::sessions`), which
//! find, open and end sessions. `SessionKind` has what differs in the middle of a session: `LocalSession`, or the
//! `SessionRecord` of a shared one. Calls, streams and the table of sessions (`table`) are those of both kinds.

pub(crate) mod call;
pub(crate) mod cluster;
pub(crate) mod event_log;
pub(crate) mod get_stream;
pub(crate) mod id;
pub(crate) mod live_session;
pub(crate) mod local;
pub(crate) mod post;
pub(crate) mod refusals;
pub(crate) mod replay_budget;
pub(crate) mod stream_reader;
pub(crate) mod table;

use std::{
    future::{Future, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::HeaderValue;
use wharf_model::{Caller, Error, Outcome, RefusalReason, Request, RequestExtensions};
use wharf_wire::{Codec, Connection, Received};

use crate::server::http::session::{
    cluster::event_writer::EventWriter,
    live_session::{Session, SessionGuard},
};
use crate::server::{
    call_driver::CallDriver,
    http::{
        request_headers::RequestHeaders,
        response,
        response::{EventualResponse, HttpResponse},
        response_form::ResponseForm,
    },
};

pub(crate) use crate::server::http::session::{
    cluster::{sessions::SharedSessions, stored_stream_reader::StoredStreamReader},
    live_session::SessionContext,
    local::LocalSessions,
    stream_reader::StreamReader,
};

/// Header that carries the session id.
const SESSION_ID_HEADER: &str = "mcp-session-id";

/// Legacy sessions of one endpoint: `LocalSessions`, or `SharedSessions` where several processes serve them. Which one
/// is decided when the endpoint is built.
pub(crate) trait Sessions: Send + Sync {
    /// Handles a POST without the headers of a modern revision.
    fn post<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> EventualResponse<'a>;

    /// Handles GET: opens the session's stream, or resumes one of its streams.
    fn get<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a>;

    /// Handles DELETE: ends a session.
    fn delete<'a>(
        &'a self,
        parsed: &'a RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> EventualResponse<'a>;

    /// Ends all sessions of this process, when the server has drained.
    fn end_all(&self);

    /// Creates a session for a client that has sent `initialize`, and stores it under a new id.
    fn store(
        &self,
        connection: Connection,
        opener: Caller,
    ) -> Pin<Box<dyn Future<Output = Result<StoredSession, Error>> + Send + '_>>;
}

/// Differences between the kinds of session: one in the memory of this process (`LocalSession`), and one that several
/// processes share through a store (`Arc<SessionRecord>`).
pub(crate) trait SessionKind: Send + Sync {
    /// First number of the client requests that this process sends.
    fn first_request_number(&self) -> u64;

    /// Returns the number of a new call stream, unique in the session, whose `newest`th one in this process it is.
    fn stream_number(&self, newest: u64) -> u64;

    /// Returns the writer that stores the events of a call stream, if they are stored.
    fn event_writer(&self, session: &Arc<Session>, number: u64) -> Option<EventWriter>;

    /// Starts the session's subscription to changes if it is due. Fails if it may be retried later.
    fn start_listen(
        &self,
        session: &Arc<Session>,
        scope: &RequestExtensions,
        has_session_stream: bool,
    ) -> Result<(), Box<Error>>;

    /// Returns a stream of one reply, for a client that accepts only events.
    fn one_event(&self, guard: &SessionGuard, reply: Vec<u8>) -> HttpResponse;

    /// Saves the session's subscriptions, in the background.
    fn save(&self, session: &Arc<Session>);

    /// Called when the session has ended.
    fn on_end(&self);
}

/// A new session with its id.
pub(crate) struct StoredSession {
    session: Arc<Session>,
    id: String,
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
async fn open(
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
