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
//!         |  Drop of ReplyCollector, when the last call of the POST is gone: EventLog::end
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
//!      in memory --StreamReader::persist: EventWriter::open, EventLog::start_persisting--> persisted
//!         a persisted event is visible to readers only after EventWriter has stored it (EventLog::mark_stored)
//!      persisted, read here --resumed in another process: EventLog::detach_for_store--> persisted, read from the store
//! ```
//!
//! | Type | Part in a stream |
//! | --- | --- |
//! | `RunningCall` (`call`) | runs a call as a task and writes its messages |
//! | `ReplyCollector` (`call`) | collects the replies of one POST; dropping it ends the stream |
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

pub(crate) mod call;
pub(crate) mod cluster;
pub(crate) mod event_log;
pub(crate) mod get_stream;
pub(crate) mod id;
pub(crate) mod live_session;
pub(crate) mod post;
pub(crate) mod replay_budget;
pub(crate) mod stream_reader;
pub(crate) mod table;

use std::{
    future::poll_fn,
    sync::{Arc, Mutex, Once},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http::HeaderValue;
use wharf_model::{ActiveCall, Caller, Error, Outcome, Request, RequestExtensions};
use wharf_wire::{Codec, Connection, HeaderField, Received};

use crate::server::http::session::{
    live_session::{Session, SessionContext, SessionGuard},
    table::{FindError, SessionTable},
};
use crate::{ServerContext, Shutdown, server::jsonl::in_flight::overloaded};
use crate::{
    server::http::{
        HttpLimits,
        call_stream::CallStream,
        cluster::Cluster,
        request_checks,
        request_headers::RequestHeaders,
        response,
        response::{EventualResponse, HttpResponse},
    },
    task_set::TaskSet,
};

pub(crate) use crate::server::http::session::{
    cluster::stored_stream_reader::StoredStreamReader, stream_reader::StreamReader,
};

/// Header that carries the session id.
const SESSION_ID_HEADER: &str = "mcp-session-id";

/// Legacy sessions of one endpoint.
pub(crate) struct SessionManager {
    common: Arc<SessionContext>,
    tasks: Arc<TaskSet>,
    table: Mutex<SessionTable>,
    /// The processes that serve the same sessions, if the stores are shared.
    cluster: Option<Arc<Cluster>>,
    /// Completed when this process subscribes to the bus of the cluster.
    joined_cluster: Once,
}

impl SessionManager {
    pub(crate) fn new(
        context: Arc<ServerContext>,
        limits: HttpLimits,
        tasks: Arc<TaskSet>,
        shutdown: Shutdown,
        cluster: Option<Arc<Cluster>>,
    ) -> Arc<Self> {
        let common = SessionContext::new(context, limits, shutdown);
        let table = Mutex::new(SessionTable::new(&common.limits));
        Arc::new(SessionManager { common, tasks, table, cluster, joined_cluster: Once::new() })
    }

    /// Handles a POST without the headers of a modern revision.
    pub(crate) fn post<'a>(
        self: &'a Arc<Self>,
        parsed: &'a RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> EventualResponse<'a> {
        if parsed.session == HeaderField::Absent {
            return EventualResponse::later(self.open(parsed, message, scope));
        }
        if let Some(cluster) = &self.cluster {
            return EventualResponse::later(self.post_shared(cluster, parsed, message, scope));
        }
        match self.find_session(parsed, &scope) {
            Ok(guard) => self.receive(guard, parsed, message, scope),
            Err(refusal) => EventualResponse::Now(*refusal),
        }
    }

    /// Handles GET: opens the session's stream, or resumes one of its streams.
    pub(crate) async fn get(
        self: &Arc<Self>,
        parsed: &RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> HttpResponse {
        if let Some(refusal) = request_checks::check_session_get(parsed) {
            return refusal;
        }
        if let Some(cluster) = &self.cluster {
            let reply = async {
                let guard = self.check_and_find_shared(cluster, parsed, &scope).await?;
                self.get_shared(guard, parsed, scope).await
            };
            return reply.await.unwrap_or_else(|refusal| *refusal);
        }
        let guard =
            match self.check_version(parsed).and_then(|()| self.find_session(parsed, &scope)) {
                Ok(guard) => guard,
                Err(refusal) => return *refusal,
            };
        let own = guard.session_stream();
        let listening = self.start_listen(guard.session(), &scope, true);
        match parsed.last_event {
            HeaderField::Absent => match (StreamReader::attach(guard, own), listening) {
                (Some(stream_reader), Ok(())) => post::stream(stream_reader),
                (Some(_), Err(error)) => post::listen_refused(&error),
                (None, _) => response::refuse(
                    409,
                    "The session's stream is already open: close it first, or resume it with Last-Event-ID",
                ),
            },
            last => {
                let named = last.one().and_then(stream_reader::parse);
                match named.and_then(|(stream, event)| StreamReader::resume(guard, stream, event)) {
                    Some(stream_reader) => post::events(stream_reader),
                    None => unknown_event(),
                }
            }
        }
    }

    /// Handles DELETE: ends a session.
    pub(crate) async fn delete(
        self: &Arc<Self>,
        parsed: &RequestHeaders<'_>,
        scope: RequestExtensions,
    ) -> HttpResponse {
        if let Some(cluster) = &self.cluster {
            let reply = async {
                let guard = self.check_and_find_shared(cluster, parsed, &scope).await?;
                self.delete_shared(&guard).await
            };
            return reply.await.unwrap_or_else(|refusal| *refusal);
        }
        match self.check_version(parsed).and_then(|()| session_name(parsed)) {
            Ok(name) if self.remove(name, &scope) => response::status(204),
            Ok(_) => SessionManager::not_found(),
            Err(refusal) => *refusal,
        }
    }

    fn check_version(&self, parsed: &RequestHeaders<'_>) -> Result<(), Box<HttpResponse>> {
        match parsed.message.is_supported(&self.common.context.wire) {
            true => Ok(()),
            false => Err(Box::new(response::refuse(400, "Unsupported MCP-Protocol-Version"))),
        }
    }

    fn find_session(
        &self,
        parsed: &RequestHeaders<'_>,
        scope: &RequestExtensions,
    ) -> Result<SessionGuard, Box<HttpResponse>> {
        let guard = self.find(session_name(parsed)?, scope).map_err(find_error_response)?;
        guard.set_principal(scope);
        Ok(guard)
    }

    /// Response 404: the session never existed, has ended or belongs to another principal. All three look the
    /// same.
    fn not_found() -> HttpResponse {
        response::refuse(404, "There is no such session: send `initialize` without Mcp-Session-Id")
    }

    /// Handles a message without a session id, which may be `initialize`.
    async fn open(
        self: &Arc<Self>,
        parsed: &RequestHeaders<'_>,
        message: Bytes,
        scope: RequestExtensions,
    ) -> HttpResponse {
        let mut connection = Connection::new(self.common.context.wire.clone());
        match connection.receive_http(message, &parsed.message) {
            Received::Call(mut request, codec) => {
                let opener = Caller::of(&scope);
                request.scope = scope;
                let (call, outcome) = self.run(request, codec).await;
                let mut reply = Vec::new();
                let status = call.codec().encode(&outcome, &mut reply);
                if !connection.is_open() {
                    return response::ended(status, &outcome, reply);
                }
                if let Some(cluster) = &self.cluster {
                    return match self.open_shared(cluster, &connection, opener).await {
                        Ok((session, id)) => session_opened(session, &id, parsed, reply),
                        Err(error) => post::refuse(call.codec(), error),
                    };
                }
                let session = Session::new(self.common.clone(), connection, opener, None);
                match self.insert(&session) {
                    Some(id) => session_opened(session, &id, parsed, reply),
                    None => post::refuse(call.codec(), too_many_sessions()),
                }
            }
            Received::Reply(reply, status) => response::json(status, reply),
            _ => response::status(202),
        }
    }

    /// Runs a call to its end. The call is cancelled if the client disconnects first.
    async fn run(&self, request: Request, codec: Codec) -> (CallStream, Outcome) {
        let context = &self.common.context;
        let active_call =
            ActiveCall::start(&*context.service, request, context.timer.clone(), context.deadlines);
        let mut call = CallStream::new(active_call, codec, &self.common.shutdown, None);
        // A waker is not needed: a pending call is polled again at once.
        let first = call.poll_end(&mut Context::from_waker(Waker::noop()));
        let outcome = match first {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => {
                call.end_after_grace(&self.common.shutdown, self.common.limits.grace);
                poll_fn(|cx| call.poll_end(cx)).await
            }
        };
        (call, outcome)
    }
}

/// Message for a client that cannot get another session.
const TABLE_FULL: &str = "The server is full: all sessions are in use. Try again later";

/// Error for a client that cannot get another session.
fn too_many_sessions() -> Error {
    overloaded().with_message(TABLE_FULL)
}

/// Returns the session id of a request.
fn session_name<'a>(parsed: &RequestHeaders<'a>) -> Result<&'a [u8], Box<HttpResponse>> {
    let refuse = |problem| Err(Box::new(response::refuse(400, problem)));
    match parsed.session {
        HeaderField::One(name) => Ok(name),
        HeaderField::Absent => refuse("There is no Mcp-Session-Id header"),
        HeaderField::Several => refuse("There is more than one Mcp-Session-Id header"),
    }
}

/// Returns the response to a request whose session cannot be used.
fn find_error_response(error: FindError) -> Box<HttpResponse> {
    Box::new(match error {
        FindError::NotFound => SessionManager::not_found(),
        FindError::TableFull => response::busy(TABLE_FULL),
    })
}

fn unknown_event() -> HttpResponse {
    response::refuse(400, "Last-Event-ID is not the id of an event of this session")
}

fn session_opened(
    session: Arc<Session>,
    id: &str,
    parsed: &RequestHeaders<'_>,
    reply: Vec<u8>,
) -> HttpResponse {
    let mut reply = match parsed.accept.json {
        true => response::json(200, reply),
        false => post::one_event(&SessionGuard::new(session), reply),
    };
    if let Ok(id) = HeaderValue::from_str(id) {
        reply.headers_mut().insert(SESSION_ID_HEADER, id);
    }
    reply
}
